"""Consecutive unobserved steps give the rows that each of them would give alone."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.events import Event, Loss, RunStarted, StepFinished, StepStarted, StepsUnobserved
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.unobserved_rows import rows_of_unobserved

RUN = RunStarted("0" * 16, "train.py", ("train.py",), 7, 1_000)
STEPS = st.lists(
    st.tuples(
        st.integers(1, 1000),
        st.lists(st.builds(Loss, st.integers(1, 3), st.floats(allow_nan=False))).map(tuple),
    ),
    min_size=1,
    max_size=9,
)


def together(steps: list[tuple[int, tuple[Loss, ...]]], first: int, running: bool) -> Event:
    starts, ends, now = [], [], 100
    for took, _ in steps:
        starts.append(now)
        ends.append(now + took)
        now += took + 1
    ended = len(steps) - running
    losses = tuple(loss for _, loss in steps)
    return StepsUnobserved(first, tuple(starts), tuple(ends[:ended]), losses[:ended])


def recorded(path: Path, events: list[Event]) -> object:
    recorder = Recorder(path, level="timing")
    recorder.emit(RUN)
    for event in events:
        recorder.emit(event)
    assert recorder.close()
    with Recording.open(path) as recording:
        steps, losses = recording.steps(), recording.losses()
    path.unlink()
    return steps, losses, recorder.writer.committed_seq


@given(STEPS, st.booleans())
def test_rows_of_a_block_are_those_of_single_steps(
    steps: list[tuple[int, tuple[Loss, ...]]], running: bool
) -> None:
    event = together(steps, 5, running)
    assert isinstance(event, StepsUnobserved)
    step_rows, losses = rows_of_unobserved(20, event)
    began = {}
    expected_losses = []
    for seq, part in enumerate(event.apart(), 20):
        if isinstance(part, StepStarted):
            began[part.step] = [part.step, seq, part.time_ns, None, None, 0]
        else:
            assert isinstance(part, StepFinished)
            began[part.step][3:5] = [seq, part.time_ns]
            for loss in part.losses:
                columns = (loss.curve, loss.node, loss.times, loss.value)
                expected_losses.append((None, seq, part.step, *columns))
    assert step_rows == [tuple(row) for row in began.values()]
    assert losses == expected_losses


@pytest.mark.parametrize("running", [False, True])
def test_a_recording_holds_the_same(tmp_path: Path, running: bool) -> None:
    steps = [(7, (Loss(1, 2.5),)), (3, ()), (9, (Loss(1, math.inf), Loss(2, 0.5, 3)))]
    event = together(steps, 1, running)
    assert isinstance(event, StepsUnobserved)
    after: list[Event] = [StepStarted(4, 5000)]
    if running:
        after = [StepFinished(3, 4000, False, (Loss(1, 1.0),)), *after]
    parts = [*event.apart(), *after]
    assert recorded(tmp_path / "a.nscope", [event, *after]) == recorded(
        tmp_path / "b.nscope", parts
    )
