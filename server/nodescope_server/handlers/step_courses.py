"""Step courses: a step's critical path and memory, for the timeline.

Invariant: the size of an answer does not grow with the executions of a step, and no peak is left
out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nodescope.record.live_memory import Integers
from nodescope.record.recording import Recording
from nodescope_server.handlers.step_times import MAX_ROWS, column, partial
from nodescope_server.runs.runs import Run
from nodescope_server.wire import timeline_messages as wire

_LISTED: Final = 50


async def critical_path(run: Run, request: wire.GetCriticalPath) -> wire.CriticalPath:
    """Answer `timeline_messages.GetCriticalPath`.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def read(recording: Recording) -> wire.CriticalPath:
        paths = run.courses.paths(recording, request.step)
        path = paths.data if request.data else paths.ran
        end = path.start_ns + path.duration_ns
        shown = np.flatnonzero((path.start_ns <= request.end_ns) & (end >= request.start_ns))
        limit = min(max(request.limit, 1), MAX_ROWS)
        if len(shown) > limit:
            longest = np.argpartition(-path.duration_ns[shown], limit)[:limit]
            shown = shown[np.sort(longest)]
        return wire.CriticalPath(
            step=request.step,
            observed=paths.observed,
            partial=partial(recording),
            lanes=paths.lanes,
            operations_ns=paths.operations_ns,
            ran_ns=paths.ran.total_ns,
            data_ns=paths.data.total_ns,
            members=len(path.node),
            nodes=len(path.heaviest),
            count=len(shown),
            place=column(shown),
            node=column(path.node[shown]),
            start_ns=column(path.start_ns[shown]),
            duration_ns=column(path.duration_ns[shown]),
            heaviest=tuple(wire.PathMember(*node) for node in path.heaviest[:_LISTED]),
        )

    return await run.study.call(read)


async def step_memory(run: Run, request: wire.GetStepMemory) -> wire.StepMemory:
    """Answer `timeline_messages.GetStepMemory`.

    Raises:
        RecordingError: The recording cannot be read.
    """
    return await run.study.call(lambda recording: _memory(recording, run, request))


def _memory(recording: Recording, run: Run, request: wire.GetStepMemory) -> wire.StepMemory:
    step = run.courses.memory(recording, request.step)
    memory = step.memory
    times, needed = memory.times, memory.needed
    limit = min(max(request.limit, 2), MAX_ROWS)
    shown = moments(times, needed, request.start_ns, request.end_ns, limit)
    seqs = step.seq[memory.rows]
    peak = memory.peak_at
    at = peak
    if request.at_seq is not None and len(times):
        row = max(int(np.searchsorted(step.seq, request.at_seq, side="right")) - 1, 0)
        at = int(np.argmax(memory.rows == row))  # its start
    listed = memory.held_at(at) if len(times) else []
    rest = listed[_LISTED:]
    lower = np.flatnonzero(needed[peak:] != memory.peak)
    after = peak + int(lower[0]) if len(lower) else max(len(times) - 1, 0)
    return wire.StepMemory(
        step=request.step,
        observed=step.observed,
        partial=partial(recording),
        count=len(shown),
        time_ns=column(times[shown]),
        needed=column(needed[shown]),
        seq=column(seqs[shown]),
        peak=memory.peak,
        peak_ns=_one(times, peak),
        peak_end_ns=_one(times, after),
        peak_node=memory.peak_node,
        peak_seq=_one(seqs, peak),
        unknown=int((memory.buffers[:, 2] < 0).sum()),
        at_ns=_one(times, at),
        at=_one(needed, at),
        values=tuple(
            wire.HeldValue(
                buffer.value,
                buffer.nbytes,
                _one(step.node, buffer.row),
                _one(step.seq, buffer.row),
                _one(times, buffer.since),
                _one(times, min(buffer.until, len(times) - 1)),
                buffer.throughout,
                buffer.views,
            )
            for buffer in listed[:_LISTED]
        ),
        further=len(rest),
        further_nbytes=sum(buffer.nbytes or 0 for buffer in rest),
    )


def moments(times: Integers, needed: Integers, start: int, end: int, limit: int) -> Integers:
    """The moments that draw the memory in a span of time, including the one in force at its start.

    If there are more than ``limit``, the span is divided into parts, and each part gives its moment
    of the highest need and its last moment.
    """
    first = max(int(np.searchsorted(times, start, side="right")) - 1, 0)
    last = int(np.searchsorted(times, end, side="right"))
    shown = np.arange(first, last)
    if len(shown) <= limit:
        return shown
    parts = max(limit // 2, 1)
    width = max((int(times[last - 1]) - int(times[first])) / parts, 1)
    part = np.minimum((times[shown] - times[first]) // width, parts - 1)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(part)) + 1])
    ends = np.concatenate([starts[1:], [len(shown)]])
    most = [
        low + int(np.argmax(needed[shown[low:high]]))
        for low, high in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    kept: Integers = shown[np.unique(np.concatenate([most, ends - 1]))]
    return kept


def _one(numbers: Integers, at: int) -> int:
    """The number at a position; 0 if there is none."""
    return int(numbers[at]) if 0 <= at < len(numbers) else 0
