"""Governor: keeps a run below a slowdown limit by observing less of it.

It is the `Policy` of a recorder, and the bus consults it at the start of each step and call. With
training steps, whole steps run unobserved, and nodes outside of steps are recorded in less detail
while the run is above the limit. Without, stretches of the program are recorded in less detail.

Invariant: results do not change, every observed execution is numbered, and omissions are counted. A
step is observed as a whole or not at all, and left out only while nothing needs to see every node.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Callable, Sequence
from typing import Final, Literal

from nodescope.errors import UsageError
from nodescope.events import (
    Bus,
    Demand,
    Level,
    Loss,
    NodeFinished,
    NodesFinished,
    StepFinished,
    StepsUnobserved,
)
from nodescope.ir.graph import Node
from nodescope.record.capture_levels import WITH_ARRAYS
from nodescope.record.governor import reports
from nodescope.record.governor.block_counts import BlockCounts
from nodescope.record.governor.cost_model import (
    BLOCK_TRACING_NS,
    STEPLESS_TRACING_NS,
    TRACING_NS,
    StepCost,
)
from nodescope.record.governor.omissions import NodeCounts
from nodescope.record.governor.step_sampling import Detail, StepSampling
from nodescope.record.recorder import Recorder
from nodescope.record.rows import Governed

_STRETCH_NS: Final = 20_000_000
_NEVER: Final = 1 << 62
# With the default limit, half of the allowance is left for the start and the end of the run, which
# cannot be measured, and a run is observed whole until its delay is long enough to be noticed.
_DEFAULT_SHARE, _UNNOTICED_NS = 0.5, 40e6
_MOST_NODES: Final = 10_000
# The number of nodes in a document that is written during the run, and how often.
_FEW_NODES, _TELLING_NS = 100, 2_000_000_000
# The cost of calling the recorder and of reading the clock, which is not measured.
_CALL_NS: Final = 300
# The cost of leaving out a step without a decision of its own: two calls of the emitter, and its
# losses.
_UNDECIDED_NS: Final = 5_000
# So many of the first and of the last such steps are compared one by one: the first are slower,
# since caches are cold. Those between are compared as one.
_APART: Final = 3
# After this many consecutive stretches above the limit with counts only, it cannot be met.
_IN_VAIN: Final = 10
# A message is worthwhile if less than this share of steps may be observed.
_WORTH_SAYING: Final = 0.9

_State = Literal["outside", "observed", "left out", "call", "call left out"]


class Governor:
    """Decides how much is recorded, so that a run stays below a slowdown.

    Args:
        limit: The slowdown, a number above 1.
        tell: Shows a line to the user; called on the program's thread.
        bus: The bus of the run, which consults the governor about steps.
        chosen: Whether the user chose the limit; if not, messages come at the end only.

    Attributes:
        sampling: Decides which steps are observed.
        step: The number of the last step that began; 0 before the first.
        detail: How much is recorded now of a program without steps, or outside of steps.
    """

    def __init__(
        self, limit: float, *, tell: Callable[[str], None], bus: Bus | None = None,
        chosen: bool = True,
    ) -> None:  # fmt: skip
        self.limit = limit
        self.sampling = (
            StepSampling(limit)
            if chosen
            else StepSampling(limit, share=_DEFAULT_SHARE, unnoticed_ns=_UNNOTICED_NS)
        )
        self.step = 0
        self.detail: Detail = "whole"
        self._bus = bus if bus is not None else Bus()
        self._chosen, self._tell = chosen, tell
        self._counts: dict[int, NodeCounts] = {}
        self._blocks = BlockCounts()
        self._any_unsaid = False
        # Totals of the run: the time spent recording on the program's threads, its part for nodes
        # whose level the user chose, and the assumed cost of making events.
        self._spent_ns = self._by_hand_ns = 0
        self._traced_ns = 0.0
        self._in_blocks = 0
        self._tracing_ns = STEPLESS_TRACING_NS
        self._deciding = threading.RLock()  # a signal handler may begin a step, too
        self._state: _State = "outside"
        self._began = StepCost(0.0)
        # Totals after steps that were left out without a decision, and how many these are.
        self._ended: list[tuple[int, StepCost]] = []
        self._stretch_end_ns = self._told_ns = 0
        self._stretches_in_vain = 0
        self._because = ""  # why a step could not be left out that should have been
        self._broken = self._said = self._wanted = self._concluded = self._loss_broke = False
        self._told_counts = (0, 0)

    # ------------------------------------------------------------ the policy

    def govern(self, recorder: Recorder) -> None:
        """Become the policy of a recorder, before any event reaches the recorder."""
        self._recorder, self._levels, self._lock = recorder, recorder.levels, recorder.lock
        self._bus.leaves_out, self._bus.leaves_out_call = self._leaves_out, self._leaves_out_call
        self.started()

    def started(self) -> None:
        """Note that the program begins; earlier time, as for starting a server, does not count."""
        self._began = self._totals()
        self._told_ns = self._bus.ran_ns()
        self._stretch_end_ns = self._told_ns + _STRETCH_NS

    def admit(self, event: NodeFinished) -> Level | None:
        """The level at which an execution is recorded; None if it is only counted."""
        if event.end_ns - self._bus.held_ns >= self._stretch_end_ns:
            self._stretch_ends()  # before the execution is numbered, so that messages precede it
        node, levels = event.node, self._levels
        with self._lock:
            counts = self._counts.get(node.id) or self._counted(node)
            counts.runs += 1
            self._traced_ns += self._tracing_ns
            level = levels.top if levels.uniform else levels.of(node)
            known = counts.runs > 1 or not self.step  # with steps, first runs are recorded whole
            if self.detail != "whole" and known and self._is_lowered(counts):
                if self.detail == "counted" and counts.runs > 1:
                    counts.counted += 1
                    counts.unsaid += 1
                    self._any_unsaid = True
                    return None
                if level in WITH_ARRAYS:
                    counts.timed += 1
                    level = "timing"
            if counts.unsaid:
                self._recorder.skipped(node, counts.unsaid)
                counts.unsaid = 0
        return level

    @property
    def takes_blocks(self) -> bool:
        """Whether executions may be reported in blocks now: only while all are recorded."""
        return self.detail == "whole"

    def admit_block(self, event: NodesFinished) -> None:
        """Count the executions of a block, all of which are recorded."""
        many = len(event.times)
        with self._lock:
            if self._blocks.add(event, many):
                for node in event.track.nodes:
                    self._counted(node)
            self._traced_ns += BLOCK_TRACING_NS * many
            self._in_blocks += many

    def _counted(self, node: Node) -> NodeCounts:
        """The counts of a node."""
        counts = self._counts.get(node.id)
        if counts is None:
            by_hand = self._levels.by_hand(node)
            counts = NodeCounts(node, by_hand, by_hand or self._levels.top)
            self._counts[node.id] = counts
        return counts

    def took(self, node: Node | None, nanoseconds: int) -> None:
        """Add the time that recording an execution took."""
        self._spent_ns += nanoseconds + _CALL_NS
        counts = self._counts.get(node.id) if node is not None else None
        if counts is not None and counts.by_hand is not None:
            self._by_hand_ns += nanoseconds + _CALL_NS

    def level_of(self, node: Node) -> Level:
        """The level of a node now."""
        level, counts = self._levels.of(node), self._counts.get(node.id)
        lowered = self.detail != "whole" and counts is not None and self._is_lowered(counts)
        return "timing" if lowered and level in WITH_ARRAYS else level

    def _is_lowered(self, counts: NodeCounts) -> bool:
        """Whether less may be recorded of a node: the user neither chose its level nor views it."""
        return counts.by_hand is None and counts.node.id not in self._levels.watched

    def step_ended(self, event: StepFinished | StepsUnobserved) -> None:
        """See `Policy`."""
        if isinstance(event, StepFinished):
            self.losses_known(event.losses, observed=event.observed)
        else:
            self._steps_ended(event)

    def _steps_ended(self, event: StepsUnobserved) -> None:
        """Note what unobserved steps took; the writer's time is spread evenly over them."""
        with self._deciding:
            before, now, held_ns = self._began, self._totals(), self._bus.held_ns
            passed_ns = max(now.wall_ns - before.wall_ns, 1.0)
            written_ns = now.written_ns - before.written_ns
            many, last = len(event.starts), -1
            for place in (*range(min(_APART, many)), *range(max(many - _APART, _APART), many)):
                wall_ns = event.starts[place] - held_ns
                part = min(max((wall_ns - before.wall_ns) / passed_ns, 0.0), 1.0)
                ended = before.at(wall_ns, before.written_ns + part * written_ns)
                self._ended.append((place - last, ended))
                last = place
            self.step = event.first + len(event.starts) - 1
        for losses in event.losses:
            self.losses_known(losses, observed=False)

    def losses_known(self, losses: Sequence[Loss], *, observed: bool) -> None:
        """Have the next step observed if the first non-finite loss is in an unobserved step."""
        if self._loss_broke:
            return
        for loss in losses:
            if not math.isfinite(loss.value):
                self._loss_broke = True
                self._wanted = not observed

    def demand(self) -> None:
        """Declare on the bus what the recorder needs; while everything is kept, every step."""
        levels = self._levels
        if self._any_unsaid and self.takes_blocks:  # blocks come without a look at each node
            with self._lock:
                for counts in self._counts.values():
                    if counts.unsaid:
                        self._recorder.skipped(counts.node, counts.unsaid)
                        counts.unsaid = 0
                self._any_unsaid = False
        whole = "recording everything was requested" if levels.everything else ""
        # Nodes that were chosen keep their arrays; a node that has not run yet may be one of them.
        arrays = levels.with_arrays and (self.detail == "whole" or not levels.uniform)
        self._bus.want(self._recorder, Demand(arrays=arrays, whole=whole))

    # ------------------------------------------------------------ steps, calls, stretches

    def _leaves_out(self, step: int) -> int:
        """See `Bus.leaves_out`. Decides for several steps at once, because a decision takes a tenth
        of the time of a short step.
        """
        if self._is_off():
            return 0
        with self._deciding:
            if step > 0 and not self.step:  # the first step: nodes are now recorded as requested
                self._stretch_end_ns, self.detail, self._tracing_ns = _NEVER, "whole", TRACING_NS
                self.demand()
            now = self._close()
            self._broken = step < 0 and self._state == "left out"
            leave = step > 0 and self._may_leave_out()
            self.step = max(step, self.step)
            many = 1 + self.sampling.left_out_for_certain() if leave else 0
            self._open("left out" if leave else "observed" if step > 0 else "outside", now)
        if step > 0:
            self._tell_now_and_then()
        return many

    def _may_leave_out(self) -> bool:
        """Whether the step that begins need not be observed, and nothing needs to see it."""
        due, self._wanted = self._wanted, False
        sampling = self.sampling
        learns = self._bus.learns is not None and self._bus.learns()
        if sampling.wants(behind=self._recorder.behind) or due or learns:
            return False
        reason = self._bus.demand.seen_whole
        numbers = (sampling.of_observed, self.limit)
        if reason and not self._because and sampling.of_observed > self.limit:
            self._because = reason
            self._say(reports.forbidden(*numbers, reason))
        elif not reason and not self._said and sampling.measured and sampling.share < _WORTH_SAYING:
            self._said = True
            self._say(reports.leaving_out("a training step", *numbers, sampling.share))
        return not reason

    def _leaves_out_call(self, begins: int) -> bool:
        """See `Bus.leaves_out_call`."""
        inside = self._state in ("call", "call left out")
        if self._is_off() or not (self._state == "outside" if begins > 0 else inside):
            return False
        now = self._close()
        if begins < 1:
            self._broken = begins < 0 and self._state == "call left out"
            self._open("outside", now)
            return False
        leave = not self.sampling.wants_call() and not self._bus.demand.seen_whole
        self._open("call left out" if leave else "call", now)
        if not leave:
            self._recorder.call_begins()
        return leave

    def _stretch_ends(self) -> None:
        """In a program without steps, decide how much is recorded of the next stretch."""
        if not self._deciding.acquire(blocking=False):
            return  # another thread decides
        try:
            if self._stretch_end_ns == _NEVER:
                return
            now, sampling, detail = self._totals(), self.sampling, self.detail
            cost = now.since(self._began)
            self.detail = sampling.stretch(cost, detail, behind=self._recorder.behind)
            if self._levels.everything:
                self.detail = "whole"
            elif not self._said and self.detail != "whole":
                self._said = True
                slowdown = sampling.of_stretch(detail)
                self._say(reports.leaving_out("the program", slowdown, self.limit))
            if detail == "counted":
                self._say_if_in_vain(cost)
            self._open("outside", now)
            self._stretch_end_ns = self._bus.ran_ns() + _STRETCH_NS
            if self.detail != detail:
                self.demand()
        finally:
            self._deciding.release()
        if self.detail != "whole":
            self._tell_now_and_then()

    def _say_if_in_vain(self, cost: StepCost) -> None:
        """Report once that counting alone is above the limit, after several such stretches: a
        single one may be slow only because the writer is busy.
        """
        slowdown = self.sampling.of_stretch("counted")
        if self._stretches_in_vain < _IN_VAIN:
            in_vain = slowdown > self.limit
            self._stretches_in_vain = self._stretches_in_vain + 1 if in_vain else 0
            if self._stretches_in_vain == _IN_VAIN:
                others = 1 - cost.by_hand_ns / max(cost.wall_ns, 1.0)
                self._say(reports.stuck(slowdown, slowdown * others, self.limit))

    def _is_off(self) -> bool:
        """Whether nothing is left out: the run has ended, or the recorder was switched off."""
        off = self._recorder.off or self._recorder not in self._bus.probes
        return off or self._concluded

    def _open(self, state: _State, before: StepCost) -> None:
        """Begin a step, a call, or the time between them; the decision is charged to observing."""
        now_ns = self._bus.ran_ns()
        self._state, self._began = state, before.at(now_ns)  # only the decision took time
        self.sampling.decided(now_ns - before.wall_ns)
        if self.step:  # without steps, `_stretch_ends` decides
            detail: Detail = "times" if state == "outside" and self.sampling.owes else "whole"
            if detail != self.detail:
                self.detail = detail
                self.demand()

    def _close(self) -> StepCost:
        """End the current step, call or time between them; return the totals."""
        now, sampling = self._totals(), self.sampling
        for many, ended in self._ended:
            sampling.skipped(ended.since(self._began), many)
            sampling.decided(many * _UNDECIDED_NS)
            self._began = ended
        self._ended.clear()
        cost = now.since(self._began)
        if self._state == "observed":
            sampling.observed(cost)
        elif self._state == "left out":
            sampling.skipped(cost)
        elif self._state == "outside":
            sampling.outside(cost)
        else:
            sampling.called(cost, left_out=self._state == "call left out")
        return now

    def _totals(self) -> StepCost:
        """The cost of the run so far."""
        spent_ns, nodes = self._spent_ns + self._bus.watched_ns, len(self._counts)
        written_ns, now = self._recorder.writer_ns(), self._bus.ran_ns()
        return StepCost(
            now, spent_ns, self._traced_ns, written_ns, nodes, self._by_hand_ns, self._in_blocks
        )

    # ---------------------------------------------------------------- messages

    def _say(self, line: str) -> None:
        if self._chosen:
            self._tell(line)

    def _tell_now_and_then(self) -> None:
        """Record regularly what was left out so far, so that a killed run has a recent report."""
        now = self._bus.ran_ns()
        if now - self._told_ns > _TELLING_NS:
            self._told_ns = now
            self._recorder.add(self.governed(_FEW_NODES))

    def tell_counts(self) -> None:
        """Record the counts of steps, if they changed, for a reader who is looking."""
        if self._bus.tell_steps is not None:
            self._bus.tell_steps()
        counts = (self._steps()[0], self.sampling.calls)
        if not self._concluded and counts != self._told_counts:
            self._told_counts = counts
            self._recorder.enqueue(self.governed(_FEW_NODES))

    def governed(self, most_nodes: int = _MOST_NODES) -> Governed:
        """What was left out so far, for at most this number of nodes."""
        with self._lock:
            for node, runs in self._blocks.taken():
                self._counted(node).runs += runs
            counts = list(self._counts.values())
            left_out = [node.left_out() for node in counts if node.timed or node.counted]
            values = sum(node.values for node in counts)
        foremost = heapq.nlargest(
            most_nodes, left_out, key=lambda row: (row.executions, row.summaries, row.arrays)
        )
        sampling, (steps, steps_left_out) = self.sampling, self._steps()
        return Governed(
            limit=self.limit,
            slowdown=sampling.slowdown,
            extra_s=sampling.extra_ns / 1e9,
            stuck=self._stretches_in_vain == _IN_VAIN and sampling.slowdown > self.limit,
            by_hand=sum(node.by_hand is not None for node in counts),
            lowered=len(left_out),
            executions=sum(row.executions for row in left_out),
            summaries=sum(row.summaries for row in left_out),
            arrays=sum(row.arrays for row in left_out),
            values=values,
            nodes=tuple(foremost),
            measured=sampling.measured,
            steps=steps,
            steps_left_out=steps_left_out,
            calls=sampling.calls,
            calls_left_out=sampling.calls_left_out,
            because=self._because,
        )

    def _steps(self) -> tuple[int, int]:
        """The steps so far, with the current one, and how many of them were left out."""
        left_out = self._state == "left out"
        current = left_out or self._state == "observed"
        more = sum(many for many, _ in self._ended)
        return self.sampling.steps + more + current, self.sampling.left_out + more + left_out

    def conclude(self, error: str = "") -> None:
        """Report once, at the end of the run, what was left out."""
        with self._deciding:
            if self._concluded:
                return
            self._concluded = True
            failed = bool(error) and not error.startswith("KeyboardInterrupt")
            if failed and (self._broken or self._state in ("left out", "call left out")):
                self._tell(reports.raised(self.step))
            self._close()
            self._state, self._stretch_end_ns = "outside", _NEVER
            governed = self.governed()
            self._recorder.add(governed)
        if self._counts:
            if self._chosen or (governed.because and governed.slowdown > governed.limit):
                self._tell(reports.ended(governed))
            elif governed.lowered or governed.steps_left_out:
                self._tell(reports.kept(self._recorder.keeping(), governed))


def check_slowdown(limit: float | None) -> None:
    """Check a limit given by the user; None for no limit.

    Raises:
        UsageError: The limit is not a number above 1.
    """
    if limit is not None and not 1 < limit < math.inf:
        raise UsageError(
            f"{limit:g} is not a slowdown: the limit must be a number above 1",
            hint="1.5 allows a run 50 % longer",
        )
