"""The contents of a recording as data: the rows that readers return.

Invariant: rows are never rewritten; `seq` is unique in a run and grows with time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from nodescope.ir.graph import Node, Value
from nodescope.record.summary import TensorSummary

MAX_SEQ = (1 << 63) - 1
# Bits of Execution.flags.
HAS_NAN = 1
HAS_INF = 2
FAILED = 4
HAS_SUMMARY = 8
# Elements of its outputs were to be kept; if they are missing, the byte budget dropped them.
WANTED = 16
# The elements were given up because the recorder fell behind; statistics were computed instead.
BEHIND = 32
# A reader waited for the execution, so its elements are written after it; writing them adds
# `WANTED`.
LATER = 64
# Its elements could not be written because the disk was full.
UNWRITTEN = 128
# The program wrote to an array of its outputs before its elements were copied.
CHANGED = 256


def unwritten(flags: int) -> int:
    """The flags of an execution after its elements, if wanted, could not be written."""
    return flags & ~WANTED | UNWRITTEN if flags & WANTED else flags


class Execution(msgspec.Struct, frozen=True, gc=False):
    """One run of one node. Times are nanoseconds since the run began.

    Attributes:
        flags: Flag bits defined in this module.
        worker, lane: As in `nodescope.events.NodeFinished`.
    """

    seq: int
    node: int
    step: int
    thread: int
    start_ns: int
    duration_ns: int
    flags: int
    worker: int = 0
    lane: int = 0


class NodeCost(msgspec.Struct, frozen=True, gc=False):
    """The executions of a node, their total time, and the longest of them with its step."""

    node: int
    times: int
    total_ns: int
    longest_ns: int
    longest_step: int


class NodeRow(msgspec.Struct, frozen=True):
    """A node as it was defined at ``seq``; a later row with the same id replaces it."""

    seq: int
    node: Node


class ValueRow(msgspec.Struct, frozen=True):
    """A value as it was defined at ``seq``, with the node that produces it (None for feeds)."""

    seq: int
    value: Value
    producer: int | None


class GradientRow(msgspec.Struct, frozen=True):
    """``gradient`` holds the gradient of ``value`` from ``seq`` on (both are value ids)."""

    seq: int
    value: int
    gradient: int


class ValueAt(msgspec.Struct, frozen=True):
    """A value at a moment: from its latest execution at or before that moment.

    ``seq`` is that execution's; ``summary.blob`` tells whether `Recording.array` can read it.
    """

    seq: int
    step: int
    value: int
    summary: TensorSummary


class LogRow(msgspec.Struct, frozen=True):
    """A line printed by the program."""

    seq: int
    step: int
    time_ns: int
    stream: Literal["stdout", "stderr", "nodescope"]
    text: str


class EditRow(msgspec.Struct, frozen=True):
    """A value edited by the user while the program was stopped.

    Attributes:
        seq: Seq from which the value is the edited one; its summary and array are stored under it.
        at_seq: The execution at which the program was stopped.
        how: Description of the edit.
    """

    seq: int
    value: int
    at_seq: int
    step: int
    time_ns: int
    how: str


class StepRow(msgspec.Struct, frozen=True):
    """A training step. ``end_ns`` and ``end_seq`` are None while it runs.

    Attributes:
        observed: False if the governor left the step out: nothing is known about what ran in it.
    """

    step: int
    start_seq: int
    start_ns: int
    end_seq: int | None = None
    end_ns: int | None = None
    observed: bool = True


class LossRow(msgspec.Struct, frozen=True, gc=False):
    """A loss of a training step, as in `nodescope.events.Loss`; ``seq`` is the end of the step."""

    seq: int
    step: int
    curve: int
    node: int
    times: int
    value: float


class HostRow(msgspec.Struct, frozen=True, gc=False):
    """Where a thread was while it ran no node; see `nodescope.events.HostSpan`."""

    kind: str
    thread: int
    step: int
    start_ns: int
    end_ns: int
    file: str
    line: int
    function: str


class Dropped(msgspec.Struct, frozen=True):
    """Exact counts of what was not kept.

    Attributes:
        blobs: Full arrays dropped for the byte budget (their summaries are kept).
        summaries: Outputs without statistics because the recorder's queue was full.
        executions: Events lost entirely, for the same reason.
    """

    blobs: int = 0
    summaries: int = 0
    executions: int = 0

    def plus(self, more: Dropped) -> Dropped:
        """The counts of both."""
        return Dropped(
            self.blobs + more.blobs,
            self.summaries + more.summaries,
            self.executions + more.executions,
        )

    def since(self, before: Dropped) -> Dropped:
        """The difference from earlier counts."""
        return Dropped(
            self.blobs - before.blobs,
            self.summaries - before.summaries,
            self.executions - before.executions,
        )

    @property
    def words(self) -> str:
        """A description of the losses and their cause; ``""`` if there are none."""
        behind = "the recorder fell behind"
        full = f"the byte budget was used up, or {behind}; --budget raises it"
        parts = (
            (self.blobs, "elements of", "value", full),
            (self.summaries, "statistics of", "value", behind),
            (self.executions, "", "execution", behind),
        )
        return ", ".join(
            f"{what} {count:,} {noun}{'s' * (count != 1)} ({why})".lstrip()
            for count, what, noun, why in parts
            if count
        )


class Unwritten(msgspec.Struct, frozen=True):
    """Counts of what could not be written to the disk; all of these are also counted in `Dropped`.

    Attributes:
        cause: ``full`` if the disk or quota had no space; ``slow`` if the disk had not taken
            everything when the program ended.
        arrays: Full arrays; their statistics may be recorded.
        summaries: Outputs without statistics.
        executions: Executions and printed lines of which nothing is recorded.
        structure: Definitions of nodes and values of the graph.
        first_step, last_step: The training steps in which they were lost.
    """

    cause: Literal["full", "slow"]
    arrays: int = 0
    summaries: int = 0
    executions: int = 0
    structure: int = 0
    first_step: int = 0
    last_step: int = 0

    def __bool__(self) -> bool:
        return bool(self.arrays or self.summaries or self.executions or self.structure)

    def counts(self) -> str:
        """``3 executions and 1,204 arrays``; ``nothing``."""
        parts = [
            f"{count:,} {name}{'s'[: count != 1]}"
            for count, name in (
                (self.structure, "graph definition"),
                (self.executions, "execution"),
                (self.summaries, "statistic"),
                (self.arrays, "array"),
            )
            if count
        ]
        text = ", ".join(parts[:-1]) + (" and " if parts[1:] else "") + parts[-1] if parts else ""
        return text or "nothing"

    def __str__(self) -> str:
        steps = ""
        if self.last_step:
            first, last = max(self.first_step, 1), self.last_step
            steps = f" of step {last:,}" if first == last else f" of steps {first:,} to {last:,}"
        why = "the disk was full" if self.cause == "full" else "the disk was too slow at the end"
        return f"{why}: {self.counts()}{steps} could not be recorded"


class LineChange(msgspec.Struct, frozen=True):
    """A line of the user's program to change, or to add if ``before`` is ``""``.

    Attributes:
        file, line: File name and line number; ``""`` and 0 for an example.
        before, after: The current line, and its replacement.
    """

    file: str
    line: int
    before: str
    after: str


class Advice(msgspec.Struct, frozen=True):
    """Advice for a run in which no operation was seen.

    Attributes:
        headline: A one-line statement of the situation.
        found: Findings in the program.
        steps: What the user can do, one sentence each.
        changes: Lines to change.
    """

    headline: str
    found: str = ""
    steps: tuple[str, ...] = ()
    changes: tuple[LineChange, ...] = ()


class CallTimes(msgspec.Struct, frozen=True):
    """Times of the unobserved calls of a function, in nanoseconds.

    Attributes:
        median_ns, low_ns, high_ns: The median, and the lower and upper quartiles.
        calls: Number of calls, excluding warm-up.
    """

    median_ns: float
    low_ns: float
    high_ns: float
    calls: int


class FunctionTiming(msgspec.Struct, frozen=True):
    """Unobserved timings of a compiled function, compiled and not.

    Attributes:
        pairs: Speedup by compiling for each pair of runs: ratios of their medians.
    """

    name: str
    eager: CallTimes
    compiled: CallTimes
    pairs: tuple[float, ...]


class Timings(msgspec.Struct, frozen=True):
    """What `nodescope compare` measured before it recorded.

    Attributes:
        functions: The functions called often enough to be timed.
        runs: Number of runs of each form.
        warm_up: Number of first calls left out of each run.
        cut: Why runs were ended early: ``after 200 calls``; or ``""``.
    """

    functions: tuple[FunctionTiming, ...]
    runs: int
    warm_up: int
    cut: str = ""


class Keeping(msgspec.Struct, frozen=True):
    """Which values of a run are kept, and the losses by cause.

    Attributes:
        level: The most that is kept of each execution.
        limit: The slowdown limit, kept by recording less; None without a limit.
        newest_steps: The number of newest observed training steps that are also kept whole (in a
            program without steps, the latest executions); 0 for none.
        newest_bytes: Upper limit of the arrays of those steps.
        budget_bytes: Upper limit of full arrays in the file, where the newest win.
        chosen: Whether the user chose the level; otherwise it is the default.
        everything: Whether the user asked for everything from now on: no limit, every element.
        nodes: Nodes of which every element is kept while they are being viewed.
        over_budget: Arrays that made room for newer ones because the budget was used up.
        behind: Arrays given up because the recorder could not keep up; their statistics are
            recorded.
        too_large: Arrays larger than the whole budget.
        made_room: Outputs of the newest steps that exceeded ``newest_bytes``.
        nonfinite_steps: Steps kept whole because NaN, Inf or a non-finite loss first appeared
            there; 0 stands for executions outside of steps.
        unwritten: Counts of what could not be written to the disk, not included in the counts
            above.
    """

    level: str
    limit: float | None = None
    newest_steps: int = 0
    newest_bytes: int = 0
    budget_bytes: int = 0
    chosen: bool = True
    everything: bool = False
    nodes: tuple[int, ...] = ()
    over_budget: int = 0
    behind: int = 0
    too_large: int = 0
    made_room: int = 0
    nonfinite_steps: tuple[int, ...] = ()
    unwritten: Unwritten | None = None


class LeftOut(msgspec.Struct):
    """Exact counts of what the governor left out of one node, which counts in place.

    Attributes:
        node: Its id; 0 in older recordings for nodes that ran only once, by their op.
        level: The level requested.
        executions: Executions without a row.
        summaries: Outputs whose statistics were left out.
        arrays: Outputs whose elements were left out.
    """

    node: int
    name: str
    level: str
    executions: int = 0
    summaries: int = 0
    arrays: int = 0


class Governed(msgspec.Struct, frozen=True):
    """The governor's report so far.

    Attributes:
        limit: The slowdown limit.
        slowdown: The run's slowdown: estimated, or measured against steps that were left out.
        extra_s: How many seconds longer the run took.
        measured: Whether the slowdown is measured.
        stuck: Whether the limit was exceeded although as little as allowed was recorded.
        steps: Training steps so far, if any may be left out.
        steps_left_out: Steps not observed at all; their executions are in none of the sums.
        calls: Outermost calls of modules outside of steps, if any may be left out.
        calls_left_out: Calls not observed at all.
        because: Why no step could be left out when one should have been, or ``""``.
        by_hand: Number of nodes whose level the user chose.
        lowered: Number of nodes of which less was recorded than requested.
        executions, summaries, arrays: Sums over all nodes.
        values: Outputs whose statistics were requested, including ``summaries``; 0 in a recording
            that did not count them.
        nodes: Nodes of which something was left out; largest losses first, 10,000 at most.
    """

    limit: float
    slowdown: float
    stuck: bool = False
    by_hand: int = 0
    lowered: int = 0
    executions: int = 0
    summaries: int = 0
    arrays: int = 0
    nodes: tuple[LeftOut, ...] = ()
    measured: bool = False
    steps: int = 0
    steps_left_out: int = 0
    because: str = ""
    calls: int = 0
    calls_left_out: int = 0
    extra_s: float = 0.0
    values: int = 0


class Holds:
    """Times when the debugger held a run.

    Args:
        pairs: Starts and ends, in order and disjoint.
    """

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in pairs]
        self._ends = [end for _, end in pairs]
        self._before = [0, *accumulate(end - start for start, end in pairs)]

    def ran_ns(self, time_ns: int) -> int:
        """Convert a moment to the program's own time, which excludes the time held before it."""
        count = bisect_left(self._starts, time_ns)
        inside = max(self._ends[count - 1] - time_ns, 0) if count else 0
        return time_ns - self._before[count] + inside


def thinned(seqs: list[int], limit: int) -> list[int]:
    """At most ``limit`` of the seqs, evenly spaced, always including the first and the last."""
    if len(seqs) <= limit:
        return seqs
    if limit == 1:
        return seqs[-1:]
    last = len(seqs) - 1
    return [seqs[place * last // (limit - 1)] for place in range(limit)]
