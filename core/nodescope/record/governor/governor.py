"""Governor: keeps a run below a slowdown limit by observing less of it.

The `Policy` of a recorder. With training steps, whole steps run unobserved; without any, stretches
of the program are recorded with less. Omissions are counted exactly and reported: in a line, in a
document of the recording, and at the end.

Invariant: results do not change, every observed execution is numbered, and omissions are counted.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable
from typing import Final

from nodescope.errors import UsageError
from nodescope.events import Bus, Demand, Level, NodeFinished, StepFinished
from nodescope.ir.graph import Node
from nodescope.record.capture_levels import WITH_ARRAYS
from nodescope.record.governor.cost_model import STEPLESS_TRACING_NS, TRACING_NS, StepCost
from nodescope.record.governor.reports import ended, kept, raised
from nodescope.record.governor.step_meter import StepMeter
from nodescope.record.governor.step_sampling import ASKED, Pace, StepSampling
from nodescope.record.recorder import Recorder
from nodescope.record.rows import Governed, LeftOut

# How long a stretch of a program without steps is.
_STRETCH_NS: Final = 20_000_000
_NEVER: Final = 1 << 62
# Nobody asked for a limit: the start and the end of a run, which cannot be measured, count as well;
# and what is over before anybody notices is better seen whole.
_UNASKED: Final = Pace(share=0.5, unnoticed_ns=40e6)
_MOST_NODES: Final = 10_000
# Of a document that is written while the run goes on, and how often.
_FEW_NODES: Final = 100
_TELLING_NS: Final = 2_000_000_000
# The cost of calling the recorder and of reading the clock, which is not in the measurement.
_CALL_NS: Final = 300


class _Counts:
    """What was recorded of a node, and what was not.

    Args:
        node: It.
        by_hand: The level that a person chose for it, or None.
        level: What was asked for.
        tracing_ns: The assumed cost of making the events of one execution.
    """

    __slots__ = ("by_hand", "counted", "level", "node", "runs", "timed", "tracing_ns", "unsaid")

    def __init__(self, node: Node, by_hand: Level | None, level: Level, tracing_ns: float) -> None:
        self.node, self.by_hand, self.level, self.tracing_ns = node, by_hand, level, tracing_ns
        self.runs = self.timed = self.counted = 0  # in all; with times only; without a row
        self.unsaid = 0  # of these, since the last row

    def values(self) -> int:
        """Outputs so far whose statistics were asked for."""
        return len(self.node.outputs) * self.runs if self.level in WITH_ARRAYS else 0

    def missing(self) -> LeftOut:
        """The omissions so far."""
        values = len(self.node.outputs) * (self.timed + self.counted)
        return LeftOut(
            node=self.node.id, name=self.node.name, level=self.level, runs=self.runs,
            executions=self.counted, summaries=values if self.level in WITH_ARRAYS else 0,
            arrays=values if self.level == "values" else 0,
        )  # fmt: skip


class Governor:
    """Decides how much is recorded, so that a run stays below a slowdown.

    Args:
        limit: The slowdown, a number above 1.
        tell: Takes each line for the person; called on the program's thread.
        bus: Of the run: where steps are left out, and where it is said that nobody wants arrays.
        chosen: Whether a person chose the limit; by default nothing is said on the way.
    """

    def __init__(
        self, limit: float, *, tell: Callable[[str], None], bus: Bus | None = None,
        chosen: bool = True,
    ) -> None:  # fmt: skip
        self.limit = limit
        self._bus = bus if bus is not None else Bus()
        self._chosen = chosen
        self._tell = tell
        self._counts: dict[int, _Counts] = {}
        # Totals of the run: recording on the program's threads, that of nodes whose level a person
        # chose included; making events.
        self._spent_ns = self._by_hand_ns = 0
        self._traced_ns = 0.0
        self._weighing = threading.RLock()  # a signal handler may begin a step, too
        self._due_ns = self._told_ns = 0
        self._concluded = self._loss_broke = False
        self._told_counts = (0, 0)

    # ------------------------------------------------------------ of a recorder

    def govern(self, recorder: Recorder) -> None:
        """Decide for a recorder, whose policy this is, before anything reaches it."""
        self._recorder, self._levels, self._lock = recorder, recorder.levels, recorder.lock
        sampling = StepSampling(self.limit, pace=ASKED if self._chosen else _UNASKED)
        tell = self._tell if self._chosen else _say_nothing
        self.steps = StepMeter(
            self._bus, sampling, totals=self._totals, writer=recorder, tell=tell
        )  # fmt: skip
        self._bus.leaves_out, self._bus.leaves_out_call = self._leaves_out, self._leaves_out_call
        self.started()

    def started(self) -> None:
        """The program begins."""
        self._told_ns = now = self._bus.ran_ns()
        self._due_ns = now + _STRETCH_NS
        self.steps.begin()

    def admit(self, event: NodeFinished) -> Level | None:
        """The level at which an execution is recorded; None: it is only counted."""
        if event.end_ns - self._bus.held_ns >= self._due_ns:
            self._stretch_ends()  # before the execution is numbered: messages must not come later
        node, levels = event.node, self._levels
        with self._lock:
            counts = self._counts.get(node.id)
            if counts is None:
                counts = self._meet(node)
            counts.runs += 1
            self._traced_ns += counts.tracing_ns
            level = levels.top if levels.uniform else levels.of(node)
            if self.steps.detail != "whole" and self._is_lowered(counts):
                # Of the first execution there is a row in any case.
                if self.steps.detail == "counted" and counts.runs > 1:
                    counts.counted += 1
                    counts.unsaid += 1
                    return None
                if level in WITH_ARRAYS:
                    counts.timed += 1
                    level = "timing"
            if counts.unsaid:
                self._recorder.skipped(node, counts.unsaid)
                counts.unsaid = 0
        return level

    def took(self, node: Node | None, nanoseconds: int) -> None:
        """What recording an execution took."""
        self._spent_ns += nanoseconds + _CALL_NS
        counts = self._counts.get(node.id) if node is not None else None
        if counts is not None and counts.by_hand is not None:
            self._by_hand_ns += nanoseconds + _CALL_NS

    def level_of(self, node: Node) -> Level:
        """The level of a node now."""
        counts = self._counts.get(node.id)
        lowered = self.steps.detail != "whole" and counts is not None and self._is_lowered(counts)
        level = self._levels.of(node)
        return "timing" if lowered and level in WITH_ARRAYS else level

    def step_ended(self, event: StepFinished) -> None:
        """After the first loss that is not finite and that nobody saw, the next step is seen."""
        if not self._loss_broke and not all(math.isfinite(loss.value) for loss in event.losses):
            self._loss_broke = True
            if not event.observed:
                self.steps.observe_next()

    def demand(self) -> None:
        """Say on the bus what the recorder needs; while everything is kept, every step."""
        levels = self._levels
        whole = "recording everything was requested" if levels.everything else ""
        # Nodes that were chosen keep their arrays; what was not met yet may be one of them.
        arrays = levels.with_arrays and (self.steps.detail == "whole" or not levels.uniform)
        self._bus.want(self._recorder, Demand(arrays=arrays, whole=whole))

    def tell_counts(self) -> None:
        """Who looks finds the counts of steps up to here."""
        counts = (self.steps.steps, self.steps.sampling.calls)
        if not self._concluded and counts != self._told_counts:
            self._told_counts = counts
            self._recorder.enqueue(self.governed(_FEW_NODES))

    def governed(self, most_nodes: int = _MOST_NODES) -> Governed:
        """What was done so far, with so many nodes at most."""
        with self._lock:
            counts = list(self._counts.values())
            missing = [node.missing() for node in counts if node.timed or node.counted]
            values = sum(node.values() for node in counts)
        foremost = heapq.nlargest(
            most_nodes, missing, key=lambda row: (row.executions, row.summaries, row.arrays)
        )
        steps, sampling = self.steps, self.steps.sampling
        return Governed(
            limit=self.limit,
            slowdown=sampling.slowdown,
            extra_s=sampling.extra_ns / 1e9,
            stuck=steps.stuck and sampling.slowdown > self.limit,
            by_hand=sum(node.by_hand is not None for node in counts),
            lowered=len(missing),
            executions=sum(row.executions for row in missing),
            summaries=sum(row.summaries for row in missing),
            arrays=sum(row.arrays for row in missing),
            values=values,
            nodes=tuple(foremost),
            measured=sampling.measured,
            steps=steps.steps,
            steps_left_out=steps.left_out,
            calls=sampling.calls,
            calls_left_out=sampling.calls_left_out,
            because=steps.because,
        )

    def conclude(self, error: str = "") -> None:
        """Say at the end of the run what was left out; once."""
        with self._weighing:
            if self._concluded:
                return
            self._concluded = True
            if error and self.steps.in_the_dark:
                self._tell(raised(self.steps.step))
            self.steps.end()
            self._due_ns = _NEVER
            governed = self.governed()
            self._recorder.add(governed)
        if self._counts:
            if self._chosen or (governed.because and governed.slowdown > governed.limit):
                self._tell(ended(governed))
            elif governed.lowered or governed.steps_left_out:
                self._tell(kept(self._recorder.keeping(), governed))

    # ------------------------------------------------------------ stretches of the run

    def _leaves_out(self, step: int) -> bool:
        """See `Bus.leaves_out`; a recorder that was switched off leaves nothing out."""
        if self._recorder.off or self._recorder not in self._bus.probes:
            return False
        with self._weighing:
            if step > 0 and not self.steps.step:  # nodes are recorded as it was asked for
                self._due_ns, self.steps.detail = _NEVER, "whole"
                self.demand()
            leave = self.steps.leaves_out(step)
        if step > 0 and self.steps.left_out:
            self._tell_now_and_then()
        return leave

    def _leaves_out_call(self, begins: int) -> bool:
        """See `Bus.leaves_out_call`."""
        if self._recorder.off or self._recorder not in self._bus.probes:
            return False
        leave = self.steps.leaves_out_call(begins)
        if begins > 0 and not leave:
            self._recorder.call_begins()
        return leave

    def _stretch_ends(self) -> None:
        """Without steps: look at what the last stretch cost, and decide about the next one."""
        if not self._weighing.acquire(blocking=False):
            return  # another thread does
        try:
            if self._due_ns == _NEVER:
                return
            before = self.steps.detail
            self.steps.stretch_ends(everything=self._levels.everything)
            self._due_ns = self._bus.ran_ns() + _STRETCH_NS
            if self.steps.detail != before:
                self.demand()
        finally:
            self._weighing.release()
        if self.steps.detail != "whole":
            self._tell_now_and_then()

    def _tell_now_and_then(self) -> None:
        """Record what was left out so far: of a run that is killed, the last document remains."""
        now = self._bus.ran_ns()
        if now - self._told_ns > _TELLING_NS:
            self._told_ns = now
            self._recorder.add(self.governed(_FEW_NODES))

    def _totals(self) -> StepCost:
        """What the run took so far."""
        spent_ns, nodes = self._spent_ns + self._bus.watched_ns, len(self._counts)
        written_ns, now = self._recorder.writer_ns(), self._bus.ran_ns()
        return StepCost(now, spent_ns, self._traced_ns, written_ns, nodes, self._by_hand_ns)

    # ------------------------------------------------------------ nodes

    def _meet(self, node: Node) -> _Counts:
        """A node runs for the first time."""
        by_hand = self._levels.by_hand(node)
        tracing_ns = TRACING_NS if self.steps.step else STEPLESS_TRACING_NS
        counts = _Counts(node, by_hand, by_hand or self._levels.top, tracing_ns)
        self._counts[node.id] = counts
        return counts

    def _is_lowered(self, counts: _Counts) -> bool:
        """Whether less may be recorded of a node: nobody chose its level, nobody looks at it."""
        return counts.by_hand is None and counts.node.id not in self._levels.watched


def _say_nothing(text: str) -> None:
    """What the governor does by default is told at the end, and on the page."""


def check_slowdown(limit: float | None) -> None:
    """Check a limit as it comes from a person; None is none.

    Raises:
        UsageError: It is not a number above 1.
    """
    if limit is not None and not 1 < limit < math.inf:
        raise UsageError(
            f"{limit:g} is not a slowdown: the limit must be a number above 1",
            hint="1.5 allows a run 50 % longer",
        )
