"""Where the time of steps went.

Invariant: a recording is gone through once; what is asked again reads only what was added.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nodescope.record.recording import Recording
from nodescope.record.step_times import StepTimes
from nodescope_server import wire_times as wire
from nodescope_server.runs import Run

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
    governed = recording.governed()
    return wire.StepTimes(
        count=len(rows),
        first=_column(each.first for each in rows),
        last=_column(each.last for each in rows),
        start_ns=_column(each.start_ns for each in rows),
        end_ns=_column(each.end_ns for each in rows),
        left_out=_column(each.left_out for each in rows),
        parts=_column(part for each in rows for part in each.parts),
        since_ns=times.since_ns,
        total_ns=times.latest_ns,
        holds=_column(time for hold in recording.holds() for time in hold),
        partial=recording.run().level == "graph"
        or (governed is not None and governed.executions > 0),
        here=times.of(request.step) if request.step > 0 else None,
    )


def _column(numbers: Iterable[float]) -> bytes:
    return np.fromiter(numbers, dtype="<f8").tobytes()
