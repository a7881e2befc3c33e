"""Wire messages for the timeline: where the time of steps went, what ran between nodes, and the
critical path and memory of a step.

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


class GetCriticalPath(msgspec.Struct, frozen=True, tag="get_critical_path"):
    """Get the longest chain of a step, see `nodescope.record.critical_path`.

    Attributes:
        data: The chain by data alone, not as the step ran.
        start_ns, end_ns: The span of time whose members are requested, at most ``limit`` of them.
    """

    run: str
    step: int
    start_ns: int
    end_ns: int
    data: bool = False
    limit: int = 4000


class PathMember(msgspec.Struct, frozen=True):
    """A node on a path.

    Attributes:
        times, total_ns: The number of its executions on the path, and their total time.
        seq: Its longest execution on the path.
    """

    node: int
    times: int
    total_ns: int
    seq: int


class CriticalPath(msgspec.Struct, frozen=True, tag="critical_path"):
    """The answer to `GetCriticalPath`.

    Attributes:
        observed: Whether the step was observed, so that its executions are known.
        partial: As in `StepTimes`.
        lanes: The number of lanes on which operations ran.
        operations_ns: The sum of the times of all operations.
        ran_ns, data_ns: The length of the chain as the step ran, and by data alone.
        members, nodes: The numbers of executions and of nodes on the requested chain.
        count: The number of rows in the columns: members in the span of time, the longest ones if
            there are too many, in order.
        place, node, start_ns, duration_ns: float64 columns; ``place`` is the position in the chain.
        heaviest: Up to 50 of its nodes, by decreasing time.
    """

    step: int
    observed: bool
    partial: bool
    lanes: int
    operations_ns: int
    ran_ns: int
    data_ns: int
    members: int
    nodes: int
    count: int
    place: bytes
    node: bytes
    start_ns: bytes
    duration_ns: bytes
    heaviest: tuple[PathMember, ...]


class GetStepMemory(msgspec.Struct, frozen=True, tag="get_step_memory"):
    """Get the memory that a step needs over time, see `nodescope.record.live_memory`.

    Attributes:
        start_ns, end_ns: The span of time that is shown, at about ``limit`` moments of it.
        at_seq: The execution at which values needed in memory are listed; None for the peak.
    """

    run: str
    step: int
    start_ns: int
    end_ns: int
    limit: int = 2000
    at_seq: int | None = None


class HeldValue(msgspec.Struct, frozen=True):
    """A value that needs memory at a moment.

    Attributes:
        nbytes: None if its size is not known.
        producer: The node that produced it in the step; 0 if it existed before.
        seq: The execution that produced it; 0 if it existed before.
        throughout: Whether the whole step needs it.
        views: The number of further values in the same memory.
    """

    value: int
    nbytes: int | None
    producer: int
    seq: int
    start_ns: int
    end_ns: int
    throughout: bool
    views: int


class StepMemory(msgspec.Struct, frozen=True, tag="step_memory"):
    """The answer to `GetStepMemory`.

    Attributes:
        observed, partial: As in `CriticalPath`.
        count: The number of rows in the columns.
        time_ns, needed, seq: float64 columns: from each moment to the next, the bytes that are
            needed, or the most of them where moments are joined, and an execution there.
        peak, peak_ns, peak_end_ns, peak_node, peak_seq: The most bytes that the step needs, from
            when to when, and what runs then.
        unknown: The number of values of the step whose size is unknown.
        at_ns, at: The moment that ``values`` describe, and the bytes needed then.
        values: The largest values, up to 50.
        further, further_nbytes: The number of further values, and their bytes.
    """

    step: int
    observed: bool
    partial: bool
    count: int
    time_ns: bytes
    needed: bytes
    seq: bytes
    peak: int
    peak_ns: int
    peak_end_ns: int
    peak_node: int
    peak_seq: int
    unknown: int
    at_ns: int
    at: int
    values: tuple[HeldValue, ...]
    further: int
    further_nbytes: int


class LaneName(msgspec.Struct, frozen=True):
    """The name of a device's queue, such as ``cuda:0``."""

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


Requests = GetStepTimes | GetCriticalPath | GetStepMemory
Answers = StepTimes | CriticalPath | StepMemory
