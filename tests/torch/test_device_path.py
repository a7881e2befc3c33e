"""Steps that follow the step before on a device: as if Python had seen each operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nodescope.adapters.torch.native_tap import fast_path
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.torch.fake_device import FakeDriver, fake_device

STEPS = 8


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", "native")
    with fake_device() as driver:
        yield driver


def _train() -> list[Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 90), nn.ReLU(), nn.Linear(90, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(20, 30)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return list(model.parameters())


def _seen(path: Path) -> tuple[list[Any], list[Any], list[Any], list[int]]:
    """Executions, statistics, times of the device, and the seqs with kept elements."""
    with Recording.open(path) as recording:
        nodes = {row.node.id: row.node.name for row in recording.nodes()}
        ran = [(row.step, nodes[row.node], row.flags & 15) for row in recording.executions()]
        summaries = []
        for row in recording.values():
            known = recording.latest_at(row.value.id)
            if known is not None and known.summary is not None:
                one = known.summary
                rounded = [None if n is None else float(f"{n:.9e}") for n in
                           (one.min, one.max, one.mean, one.std, one.norm)]  # fmt: skip
                counts = one.nan_count, one.inf_count, one.zero_count
                summaries.append((nodes[row.producer or 0], rounded, counts, one.histogram))
        on_device = [(row.step, nodes[row.node], row.lane) for row in recording.device_table.rows()]
    return ran, summaries, sorted(on_device), []


@pytest.mark.parametrize("level", ["timing", "summary"])
@pytest.mark.parametrize("lazy", [False, True])
def test_steps_are_recorded_as_when_python_sees_them(
    driver: FakeDriver, tmp_path: Path, level: Any, lazy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[int] = []
    ends = fast_path.StepFastPath.end

    def end(one: fast_path.StepFastPath) -> None:
        followed.append(one.steps)
        ends(one)

    monkeypatch.setattr(fast_path.StepFastPath, "end", end)

    def program() -> Any:
        driver.lazy = lazy
        result = _train()
        driver.lazy = False
        driver.advance()
        return result

    fast = recorded(tmp_path / "fast.nscope", program, level=level)
    monkeypatch.setenv(fast_path.VARIABLE, "0")
    slow = recorded(tmp_path / "slow.nscope", program, level=level)
    assert all(torch.equal(a, b) for a, b in zip(fast, slow, strict=True))
    assert followed[0] >= STEPS - 4
    assert followed[1] == 0
    assert _seen(tmp_path / "fast.nscope") == _seen(tmp_path / "slow.nscope")
    assert (driver.launched > 0) == (level == "summary")
    assert np.isfinite(fast[0].detach().numpy()).all()
