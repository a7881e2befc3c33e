"""What a device has enqueued: statistics, copies, losses; read once it has come to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nodescope.adapters.torch.device import kernel, runtime
from nodescope.adapters.torch.device.memory import HostMemory
from nodescope.adapters.torch.tensors import TorchTensors, host_array
from nodescope.arrays import Captured
from nodescope.errors import ArrayError
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from tests.adapters.driving import recorded
from tests.torch.fake_device import FakeDriver, fake_device

ARRAYS = TorchTensors()


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with fake_device() as driver:
        yield driver


LARGE = torch.linspace(-3, 5, 6000)


@pytest.mark.parametrize(
    "tensor",
    [
        LARGE, LARGE.double(), LARGE.half(), LARGE.bfloat16(), LARGE.long(), LARGE.int(),
        LARGE.to(torch.int16), LARGE.to(torch.int8).repeat(2), LARGE > 0, LARGE.view(60, 100).t(),
        LARGE.view(60, 100)[::2, 1:], LARGE.view(20, 3, 100).permute(2, 0, 1),
        torch.zeros(5000), torch.full((5000,), math.nan), torch.zeros(0),
        torch.zeros(1, 7).expand(900, 7),
        torch.where(LARGE > 4, math.inf, LARGE),
    ],
)  # fmt: skip
def test_statistics_are_those_of_the_recorder(driver: FakeDriver, tensor: Any) -> None:
    content = ARRAYS.capture(tensor, "summary")
    assert isinstance(content, Captured)
    made = content.resolve()
    summary = summarise(made) if isinstance(made, np.ndarray) else made
    known = summarise(host_array(tensor))
    assert (summary.spec, summary.nbytes) == (known.spec, known.nbytes)
    assert (summary.nan_count, summary.inf_count, summary.zero_count) == (
        known.nan_count, known.inf_count, known.zero_count,
    )  # fmt: skip
    assert (summary.min, summary.max, summary.histogram) == (known.min, known.max, known.histogram)
    np.testing.assert_array_equal(summary.preview, known.preview)
    if known.mean is not None:
        assert [summary.mean, summary.std, summary.norm] == pytest.approx(
            [known.mean, known.std, known.norm], rel=1e-12
        )


@pytest.mark.parametrize("level", ["summary", "values"])
def test_a_capture_is_of_the_tensor_as_it_was(driver: FakeDriver, level: Any) -> None:
    driver.lazy = True
    tensor = torch.arange(3000.0)
    content: Any = ARRAYS.capture(tensor, level)
    tensor.fill_(7)
    assert not content.is_done
    driver.advance()
    assert content.is_done
    made = content.resolve()
    assert (made.max() if level == "values" else made.max) == 2999


def test_memory_is_used_again_when_the_device_has_come_to_it(driver: FakeDriver) -> None:
    driver.lazy = True
    first: Any = ARRAYS.capture(torch.arange(100.0), "values")
    address = first._block.address
    del first
    held = runtime.chosen()
    assert held is not None
    assert held.take(400) != address
    for _ in range(200):
        ARRAYS.capture(torch.arange(100.0), "values")
    addresses = {block.address for _, block in held._retired}
    assert len(addresses) == len(held._retired) > 200
    driver.advance()
    again: Any = ARRAYS.capture(torch.arange(100.0), "values")
    assert again._block.address in addresses
    driver.advance()
    assert again.resolve().tolist() == list(range(100))


def test_a_device_that_has_failed_gives_nothing_and_keeps_its_memory(driver: FakeDriver) -> None:
    driver.lazy = True
    content: Any = ARRAYS.capture(torch.arange(3000.0), "summary")
    driver.broken = True
    assert content.is_done
    with pytest.raises(ArrayError, match="the device has failed"):
        content.resolve()


def test_while_a_graph_is_captured_nothing_is_enqueued(
    driver: FakeDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    driver.lazy = driver.capturing = True
    assert ARRAYS.capture(torch.arange(3000.0), "values") is None
    assert ARRAYS.capture(torch.arange(3000.0), "summary") is None
    assert driver.waiting == 0
    assert capfd.readouterr().err.count("a CUDA graph is captured") == 1
    with pytest.raises(ArrayError, match="being captured"):
        ARRAYS.numpy(torch.arange(3.0))


def test_what_is_looked_at_waits_for_the_stream_of_the_program(driver: FakeDriver) -> None:
    driver.current = 5
    ARRAYS.capture(torch.arange(3.0), "values")
    assert not driver.waits
    driver.current = 0
    ARRAYS.numpy(torch.arange(3.0))
    assert [stream for stream, _ in driver.waits] == [0]


def test_memory_is_taken_in_sizes_that_fit() -> None:
    taken: list[int] = []

    def allocate(nbytes: int) -> int:
        taken.append(nbytes)
        return sum(taken)

    memory = HostMemory(allocate)
    small = [memory.take(300), memory.take(600), memory.take(0)]
    assert [block.nbytes for block in small if block] == [512, 1024, 512]
    assert taken == [4 << 20]
    large = memory.take(3 << 20)
    assert large is not None
    assert (large.nbytes, taken[-1]) == (4 << 20, 4 << 20)
    memory.give_back(large)
    assert memory.take(4 << 20) == large
    assert memory.take(2 << 30) is None


def test_axes_are_merged() -> None:
    assert kernel.merged((4, 1, 3, 5), (15, 7, 5, 1)) == [(60, 1)]
    assert kernel.merged((3, 4), (1, 3)) == [(12, 1)]
    assert kernel.merged((3, 4), (8, 2)) == [(12, 2)]
    assert kernel.merged((3, 4), (9, 2)) == [(3, 9), (4, 2)]
    assert kernel.merged((2, 3), (0, 1)) == [(3, 1), (2, 0)]
    assert kernel.merged((), ()) == [(1, 1)]
    assert kernel.blocks_for(16_384, 100) == 1
    assert kernel.blocks_for(40_960, 100) == 10
    assert kernel.blocks_for(1 << 30, 100) == 200


def _trained(driver: FakeDriver, losses: list[float]) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        driver.lazy = True
        optimizer.zero_grad()
        loss = model(torch.ones(4, 3)).square().mean()
        losses.append(float(loss.detach().numpy()))
        loss.backward()
        optimizer.step()
    driver.lazy = False
    driver.advance()


@pytest.mark.parametrize("tap", ["python", "native"])
def test_losses_are_known_later(
    driver: FakeDriver, tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    losses: list[float] = []
    recorded(tmp_path / "run.nscope", lambda: _trained(driver, losses), level="timing")
    with Recording.open(tmp_path / "run.nscope") as recording:
        ended = {row.step: row.end_seq for row in recording.steps()}
        rows = recording.losses()
    assert [row.value for row in sorted(rows, key=lambda row: row.step)] == losses
    assert [row.step for row in rows if row.seq > (ended[row.step] or 0)]
