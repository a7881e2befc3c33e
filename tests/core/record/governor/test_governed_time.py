"""A governed recorder with a fake clock: what counts as program time, and what it decides when."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.emit.steps import Steps
from nodescope.events import Bus, Demand, RunStarted
from nodescope.ir.identity import Identity
from nodescope.record import recorder as recorder_module
from nodescope.record.capture_levels import Detail
from nodescope.record.governor import governor as governor_module
from nodescope.record.governor.governor import Governor
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Governed
from tests.core.record.runs import RUN, chain, finished


class Clock(Bus):
    """A bus whose clock moves only when set; it excludes time held by the debugger."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0
        super().__init__()

    def now_ns(self) -> int:
        return self.now


def governed_by(
    clock: Clock, path: Path, monkeypatch: pytest.MonkeyPatch, limit: float, *, chosen: bool = True
) -> tuple[Governor, Recorder]:
    """A governed recorder that knows no time but the clock's, so that no machine is too busy."""
    governor = Governor(limit, tell=str, bus=clock, chosen=chosen)
    recorder = Recorder(path / "r.nscope", policy=governor, level="timing")
    monkeypatch.setattr(recorder_module, "_now", lambda: 0)
    monkeypatch.setattr(recorder.writer, "cpu_ns", lambda: 0)
    governor.govern(recorder)
    clock.add(recorder)
    return governor, recorder


@pytest.mark.parametrize("held_ns", [0, 10_000_000_000])
def test_time_in_the_debugger_is_not_program_time(
    held_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(governor_module, "STEPLESS_TRACING_NS", 200_000)
    _, recorder = governed_by(clock, tmp_path, monkeypatch, 2)
    graph = chain(["x"])
    recorder.emit(graph)
    for number in range(40):
        clock.now += 880_000  # The time of the program and of making the event.
        recorder.emit(finished(graph.nodes[0], np.zeros(1), at=clock.now - 500))
        if number == 20:
            clock.now += held_ns
            clock.held_ns += held_ns
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = recording.governed()
    assert result is not None
    # 0.2 ms of observing per 0.68 ms; counting the 10 s of the stop as program time would give
    # 1.0.
    assert 1.2 < result.slowdown < 1.5


@pytest.mark.parametrize("before_ns", [0, 10_000_000_000])
def test_time_before_the_program_begins_is_not_program_time(
    before_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    governor, recorder = governed_by(clock, tmp_path, monkeypatch, 2)
    monkeypatch.setattr(governor.sampling, "wants", lambda **_: True)
    clock.now += before_ns  # The time in which a server starts.
    recorder.emit(RunStarted(RUN, "train.py", ("train.py",), 7, 1_000))
    for step in range(1, 12):
        assert not clock.leave_out(step)
        clock.now += 3_000_000
        governor.took(None, 1_000_000)
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = recording.governed()
    assert result is not None
    assert 1.4 < result.slowdown < 1.6


@pytest.mark.parametrize("broken", [math.nan, math.inf, None])
def test_one_decision_for_several_short_steps(
    broken: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    governor, recorder = governed_by(clock, tmp_path, monkeypatch, 1.2)
    decided: list[int] = []
    wants = governor.sampling.wants

    def counting(*, behind: bool = False) -> bool:
        decided.append(governor.step)
        return wants(behind=behind)

    monkeypatch.setattr(governor.sampling, "wants", counting)
    left_out: list[bool] = []
    recorder.emit(RunStarted(RUN, "train.py", ("train.py",), 7, 1_000))
    steps = Steps(clock, Identity(itertools.count(1).__next__))
    site, broke = (counting.__code__, 0), 0
    for step in range(1, 501):
        steps.begin_step()
        left_out.append(not steps.observed)
        clock.now += 1_000_000
        if steps.observed:
            clock.now += 8_000_000
            governor.took(None, 8_000_000)
        breaks = broken is not None and step >= 400 and not (steps.observed or broke)
        broke = step if breaks else broke
        steps.losses.note(site, broken if breaks and broken is not None else 1.0, 0)
        steps.end_step()
        governor.tell_counts()
    steps.end_of_steps()
    assert recorder.close()
    # One decision per observed step, and one for several unobserved steps.
    assert len(decided) < 300
    with Recording.open(tmp_path / "r.nscope") as recording:
        governed, rows = recording.governed(), recording.steps()
    assert [row.step for row in rows] == list(range(1, 501))
    assert [row.observed for row in rows] == [not unseen for unseen in left_out]
    assert all((row.end_ns or 0) - row.start_ns in (1_000_000, 9_000_000) for row in rows)
    assert governed is not None
    assert (governed.steps, governed.steps_left_out) == (500, sum(left_out))
    assert 1.1 < governed.slowdown < 1.25
    # The step after the first non-finite loss is observed, whatever was decided before.
    if broken is not None:
        assert left_out[broke - 1 : broke + 1] == [True, False]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_long_call_of_a_program_without_steps_is_cut_into_stretches(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    governor, recorder = governed_by(clock, tmp_path, monkeypatch, 1.2)
    monkeypatch.setattr(governor_module, "_CALL_NS", 2_000_000)
    monkeypatch.setattr(governor_module, "_STRETCH_NS", 1_000_000)
    graph = chain(["x"])
    recorder.emit(graph)
    for step in range(steps):
        clock.leave_out(step + 1)
        clock.leave_out(0)
    details: list[Detail] = []
    assert not clock.leave_out(1, "call")
    for _ in range(1000):
        clock.now += 8_000  # of which making the event is assumed to take most
        recorder.emit(finished(graph.nodes[0], np.zeros(1), at=clock.now - 500))
        details.append(recorder.levels.detail)
    clock.leave_out(0, "call")
    assert details[:240] == ["whole"] * 240
    assert ("counted" in details) == (not steps)  # a call after steps is seen whole
    assert governor.sampling.calls == 1
    assert recorder.close()


def test_the_cost_is_reported_while_every_step_must_be_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    governor, recorder = governed_by(clock, tmp_path, monkeypatch, 2, chosen=False)
    clock.want(governor, Demand(whole="watches are set"))
    told: list[Any] = []
    monkeypatch.setattr(recorder, "enqueue", told.append)  # during the run
    monkeypatch.setattr(recorder, "add", told.append)  # at its end
    for step in range(1, 12):
        assert not clock.leave_out(step)
        clock.now += 1_000_000_000
        clock.watched_ns += 900_000_000
    assert recorder.close()
    told = [row for row in told if isinstance(row, Governed)]
    # The last row is written when the run ends.
    assert [row.steps for row in told] == [4, 7, 10, 11]
    assert all(9 < row.slowdown < 11 for row in told)
    assert told[-1].because == "watches are set"
