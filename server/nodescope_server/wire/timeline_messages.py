"""Wire messages for the timeline: where the time of steps went, and what ran between nodes.

Invariant: as in `wire`.
"""

from __future__ import annotations

import msgspec

from nodescope.events import HostKind
from nodescope.record.step_times.step_rows import Stretch


class GetStepTimes(msgspec.Struct, frozen=True, tag="get_step_times"):
    """Get the times of the steps that overlap a span of time.

    Attributes:
        limit: If there are more steps, neighbours are joined.
        step: A step to be answered separately as well, in ``here``; 0 for none.
        after: Whether to include the time after that step, if anything ran then.
    """

    run: str
    start_ns: int
    end_ns: int
    limit: int = 1000
    step: int = 0
    after: bool = False


class StepTimes(msgspec.Struct, frozen=True, tag="step_times"):
    """The answer to `GetStepTimes`.

    Attributes:
        count: Number of rows, each for one step or several consecutive ones.
        first, last, start_ns, end_ns, left_out, after: float64 columns; ``left_out`` counts steps
            that were not observed, ``after`` is 1 for the time after step ``last``.
        parts: float64, ``count`` rows of one column per `PARTS`, in nanoseconds.
        since_ns, total_ns: Start and end of the recording.
        holds: float64 pairs: all times when the debugger held the program, in order.
        partial: Whether some operations have no row, so that time between operations includes them.
    """

    count: int
    first: bytes
    last: bytes
    start_ns: bytes
    end_ns: bytes
    left_out: bytes
    after: bytes
    parts: bytes
    since_ns: int
    total_ns: int
    holds: bytes
    partial: bool
    here: Stretch | None = None


class LaneName(msgspec.Struct, frozen=True):
    """What the queue of a device is called, such as ``cuda:0``."""

    lane: int
    name: str


class HostTime(msgspec.Struct, frozen=True):
    """Where a thread was while it ran no node: a `HostSpan`, with the thread as in columns."""

    kind: HostKind
    thread: int
    step: int
    start_ns: int
    end_ns: int
    file: str
    line: int
    function: str


Requests = GetStepTimes
Answers = StepTimes
