"""When a device came to the operators: told later, in its own lane, in the host's time."""

from __future__ import annotations

import ctypes
import functools
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from nodescope.adapters.torch.follower.step_recording import SLOW
from nodescope.adapters.torch.tap import Tap
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from tests.adapters.driving import recorded
from tests.torch import tap_programs
from tests.torch.fake_device import FakeDriver, fake_device
from tests.torch.taps import TAPS


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with fake_device() as driver:
        yield driver


@pytest.fixture(params=TAPS)
def tap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", request.param)
    return str(request.param)


def _times(path: Path) -> tuple[list[Execution], list[Execution], dict[int, str]]:
    """The executions of operators, those with times of the device, and the lanes."""
    with Recording.open(path) as recording:
        leaves = {row.node.id for row in recording.nodes() if row.node.is_leaf}
        ran = [row for row in recording.executions() if row.node not in leaves]
        return ran, recording.device_table.rows(), recording.device_table.names()


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
def test_each_operator_has_its_time_on_the_device(
    driver: FakeDriver, tap: str, tmp_path: Path, level: str
) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, tap_programs.mlp, level=level)
    ran, on_device, lanes = _times(path)
    assert lanes == {1: "cuda:0"}
    assert sorted(row.seq for row in on_device) == [row.seq for row in ran]
    starts = {row.seq: row.start_ns for row in ran}
    ends = 0
    for row in on_device:
        assert row.start_ns >= max(starts[row.seq], ends) or row.duration_ns == 0
        assert row.duration_ns >= 0
        ends = row.start_ns + row.duration_ns


def test_at_level_graph_nothing_is_enqueued(driver: FakeDriver, tap: str, tmp_path: Path) -> None:
    driver.lazy = True
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def program() -> int:
        for step in range(3):
            if step:
                driver.advance()
                optimizer.zero_grad()
                model(torch.ones(1, 2)).sum()
            optimizer.step()
        return driver.waiting

    assert recorded(tmp_path / "run.nscope", program, level="graph") == 0


def test_time_is_that_of_the_device(driver: FakeDriver, tap: str, tmp_path: Path) -> None:
    # The device runs its work long after it was enqueued, and takes a known time for each kernel.
    driver.lazy = True
    origin = time.perf_counter_ns() + 60_000_000_000
    moments = iter(range(origin, 1 << 62, 5_000))

    def program() -> None:
        x = torch.ones(3) + 1
        (x * 2).exp()
        driver.clock = lambda: next(moments)
        driver.advance()

    recorded(tmp_path / "run.nscope", program, level="timing")
    _, on_device, _ = _times(tmp_path / "run.nscope")
    assert [row.duration_ns for row in on_device][1:] == [5_000] * 3
    assert on_device[1].start_ns > 50_000_000_000


def test_streams_have_lanes_of_their_own(driver: FakeDriver, tap: str, tmp_path: Path) -> None:
    def program() -> None:
        x = torch.ones(3)
        for stream in (0, 7, 9, 7):
            driver.current = stream
            x = x + 1

    recorded(tmp_path / "run.nscope", program, level="timing")
    _, on_device, lanes = _times(tmp_path / "run.nscope")
    assert lanes == {1: "cuda:0", 2: "cuda:0 stream 1", 3: "cuda:0 stream 2"}
    assert [row.lane for row in on_device] == [1, 1, 2, 2, 3]


def test_a_failed_device_reports_no_more_times(
    driver: FakeDriver, tap: str, tmp_path: Path
) -> None:
    def program() -> None:
        x = torch.ones(3) + 1
        driver.lazy = driver.broken = True
        (x * 2).exp()

    recorded(tmp_path / "run.nscope", program, level="timing")
    ran, on_device, _ = _times(tmp_path / "run.nscope")
    assert len(ran) == 4
    assert len(on_device) <= 2


def _alone(function: Callable[[], Any]) -> None:
    """Call a function written in C on a thread that has no frame of Python, as those of autograd on
    which gradients of a device are computed.
    """
    library, thread = ctypes.CDLL(None), ctypes.c_ulong()
    begin = ctypes.CFUNCTYPE(None)(function)
    assert library.pthread_create(ctypes.byref(thread), None, begin, None) == 0
    assert library.pthread_join(thread, None) == 0


def test_the_native_tap_on_a_thread_without_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", "native")
    to = torch.zeros(3)
    call = functools.partial(torch.mul, torch.ones(3), 2, out=to)
    recorded(tmp_path / "run.nscope", lambda: _alone(call), level="values")
    assert to.tolist() == [2.0] * 3
    assert len(_times(tmp_path / "run.nscope")[0]) == 1


def test_tensors_are_freed_on_a_thread_without_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Autograd adds to a gradient in place if nothing else refers to it, so the tap must keep no
    # tensor.
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", "native")
    alive: list[bool] = []

    def program() -> None:
        x = torch.ones(3)
        storage = weakref.ref(x.untyped_storage())
        call = functools.partial(torch.mul, x, 2, out=torch.zeros(3))
        gc.disable()
        try:
            _alone(call)
            del x, call
            alive.append(storage() is not None)
        finally:
            gc.enable()

    recorded(tmp_path / "run.nscope", program, level="timing")
    assert alive == [False]


def test_the_python_tap_on_a_thread_without_frames() -> None:
    ran: list[Any] = []

    class Operations:
        off, place = False, SimpleNamespace(quiet=0)

        def is_unseen(self, function: Any) -> bool:
            return False

        def begin(self, function: Any, args: Any, kwargs: Any, instruction: Any) -> None:
            ran.append(instruction)

    class FastPath:
        def begins_step(self, function: Any) -> bool:
            return False

        def operator_begins(self) -> None: ...
        def operator_ended(self) -> None: ...

    to = torch.zeros(3)
    follower = SimpleNamespace(mode=SLOW)
    tap: Any = Tap(Operations(), FastPath(), follower)  # type: ignore[arg-type]
    given = (torch.ones(3), torch.full((3,), 2.0))
    call = functools.partial(tap.__torch_dispatch__, torch.ops.aten.mul.out, (), given, {"out": to})
    _alone(call)
    assert len(ran) == 1
