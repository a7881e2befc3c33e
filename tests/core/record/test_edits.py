"""Edits in a recording: the old value before, the new one from the edit on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.gate.gate import Gate
from nodescope.events import LEVELS, Level
from nodescope.protocol import Command, Continue, SetValue, Stop
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.step_times.step_rows import PARTS, Stretch
from nodescope.record.step_times.step_times import StepTimes
from tests.core.debug.debugged import debugged


@pytest.mark.parametrize("level", LEVELS)
def test_a_value_is_what_it_was_and_what_it_became(tmp_path: Path, level: Level) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level=level)

    def then(stop: Stop, gate: object) -> Command:
        (value,) = gate._catalog.nodes[stop.node].outputs  # type: ignore[attr-defined]
        gate.command(SetValue(value, "set", 7.0, "0"))  # type: ignore[attr-defined]
        return Continue()

    with debugged("op:exp [step 2]", then=then, first=recorder) as seen:
        for _ in range(3):
            ns.step()
            result = np.exp(ns.tensor(np.zeros(2))) * 10.0
            assert result.tolist()[0] == (70.0 if ns_step() == 2 else 10.0)
    recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        (edit,) = recording.edits()
        assert (edit.step, edit.how) == (2, "exp[0] set to 7")
        assert edit.at_seq == seen.stops[0].seq < edit.seq
        assert recording.array(edit.value, edit.seq).tolist() == [7.0, 1.0]
        at = recording.latest_at(edit.value, edit.seq)
        assert (at.seq, at.summary.max) == (edit.seq, 7.0)
        before = recording.latest_at(edit.value, edit.seq - 1)
        after = recording.latest_at(edit.value)
        if level in ("summary", "values"):
            assert (before.seq, before.summary.max) == (edit.at_seq, 1.0)
            assert after.step == 3
            assert after.summary.max == 1.0


def test_the_time_held_before_an_edit_is_known_with_it(tmp_path: Path) -> None:
    """A page reads the recording at the stop: time held so far is not the program's own time."""
    recorder = Recorder(tmp_path / "r.nscope")
    held_ns = 5_000_000_000
    steps: list[Stretch | None] = []

    def then(stop: Stop, gate: Gate) -> Command:
        gate._bus.origin_ns -= held_ns  # Five seconds pass.
        (value,) = gate._catalog.nodes[stop.node].outputs
        gate.command(SetValue(value, "set", 7.0, "0"))
        assert recorder.flush()
        times = StepTimes()
        with Recording.open(tmp_path / "r.nscope") as recording:
            times.update(recording)
            steps.append(times.of(stop.step))
            (*_, (_, held_until)) = recording.holds()
            assert recording.time_ns() <= held_until  # Includes the log line about the edit.
        return Continue()

    with debugged("op:exp", then=then, first=recorder):
        ns.step()
        np.exp(ns.tensor(np.zeros(2)))
    recorder.close()
    (step,) = steps
    assert step is not None
    assert step.parts[PARTS.index("held")] >= held_ns
    assert step.duration_ns < held_ns
    with Recording.open(tmp_path / "r.nscope") as recording:
        kinds = [row.kind for row in recording.host(0, 2 * held_ns, 99)]
    # One up to the edit, one up to its log line, and one until the program continues.
    assert kinds.count("held") == 3


def ns_step() -> int:
    from nodescope.engine import dispatch_mode

    return dispatch_mode.observer().step
