"""Step times: how the time of steps was spent.

Invariant: a recording is read once; later requests read only what was added.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nodescope.record.recording import Recording
from nodescope.record.step_times.step_rows import Stretch
from nodescope.record.step_times.step_times import StepTimes
from nodescope_server.runs.runs import Run
from nodescope_server.wire import timeline_messages as wire

MAX_ROWS = 4000


async def step_times(run: Run, request: wire.GetStepTimes) -> wire.StepTimes:
    """Answer `wire_times.GetStepTimes`.

    Raises:
        RecordingError: The recording cannot be read.
    """
    return await run.study.call(lambda recording: _answer(recording, run.times, request))


def _answer(recording: Recording, times: StepTimes, request: wire.GetStepTimes) -> wire.StepTimes:
    times.update(recording)
    limit = min(max(request.limit, 1), MAX_ROWS)
    rows = times.stretches(request.start_ns, request.end_ns, limit)
    return wire.StepTimes(
        count=len(rows),
        first=column(stretch.first for stretch in rows),
        last=column(stretch.last for stretch in rows),
        start_ns=column(stretch.start_ns for stretch in rows),
        end_ns=column(stretch.end_ns for stretch in rows),
        left_out=column(stretch.left_out for stretch in rows),
        after=column(stretch.after for stretch in rows),
        parts=column(part for stretch in rows for part in stretch.parts),
        since_ns=times.since_ns,
        total_ns=times.latest_ns,
        holds=column(time for hold in recording.holds() for time in hold),
        partial=partial(recording),
        here=_here(times, request),
    )


def partial(recording: Recording) -> bool:
    """Whether some operations have no row."""
    governed = recording.governed()
    return recording.run().level == "graph" or (governed is not None and governed.executions > 0)


def _here(times: StepTimes, request: wire.GetStepTimes) -> Stretch | None:
    if request.step <= 0:
        return None
    return (times.after(request.step) if request.after else None) or times.of(request.step)


def column(numbers: Iterable[float]) -> bytes:
    """Numbers as a column of float64."""
    return np.fromiter(numbers, dtype="<f8").tobytes()
