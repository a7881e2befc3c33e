"""The wire's part for the timeline: where the time of steps went, and what lay between nodes.

Invariant: as of `wire`.
"""

from __future__ import annotations

import msgspec

from nodescope.events import HostKind
from nodescope.record.step_times.step_rows import Stretch


class GetStepTimes(msgspec.Struct, frozen=True, tag="get_step_times"):
    """Where the time of the steps went that overlap a span of time.

    Attributes:
        limit: Of more steps, neighbours are joined.
        step: Is answered by itself, too, in ``here``; 0 for none.
        after: What ran after that step is, if anything did.
    """

    run: str
    start_ns: int
    end_ns: int
    limit: int = 1000
    step: int = 0
    after: bool = False


class StepTimes(msgspec.Struct, frozen=True, tag="step_times"):
    """Answer to `GetStepTimes`.

    Attributes:
        count: Number of rows, each a step or several in a row.
        first, last, start_ns, end_ns, left_out, after: float64 columns; ``left_out`` counts steps
            that were not observed, ``after`` is 1 for what ran after step ``last``.
        parts: float64, ``count`` rows of one column per `PARTS`, in nanoseconds.
        since_ns, total_ns: From where and how far the recording goes.
        holds: float64 pairs: when the debugger held the program, all of it, in order.
        partial: Not every operation has a row, so what lies between operations holds some.
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


class HostTime(msgspec.Struct, frozen=True):
    """Where a thread was while it ran no node: `HostSpan`, with the thread as in columns."""

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
