"""Governor: keeps a run below a slowdown limit by observing less of it.

It is the `Policy` of a recorder, and the bus consults it at the start of each step and call. Whole
training steps run unobserved; what is outside of steps is recorded in less detail.

Invariant: results do not change, every observed execution is numbered, and omissions are counted. A
step is observed as a whole or not at all, and left out only while nothing needs to see every node.
"""

from __future__ import annotations

import copy
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from operator import sub
from typing import Final, Literal

from nodescope.console_output import factor
from nodescope.errors import UsageError
from nodescope.events import Bus, Demand, Level, Loss, NodeFinished
from nodescope.ir.graph import Node
from nodescope.record.capture_levels import WITH_ARRAYS, Detail
from nodescope.record.governor import reports
from nodescope.record.governor.cost_model import StepCost
from nodescope.record.governor.step_sampling import StepSampling
from nodescope.record.kept.kept_report import kept
from nodescope.record.recorder import Recorder
from nodescope.record.rows import Governed, LeftOut

# The assumed cost of making the events of one execution, until it is measured.
TRACING_NS = 3_800.0  # in steps and calls
STEPLESS_TRACING_NS = 6_300.0  # outside, where each call is looked up by its line
TOGETHER_TRACING_NS, READING_NS = 1_500.0, 0.1  # if reported together; for each byte read then
# With the default limit, half of the allowance is left for the start and the end of the run, which
# cannot be measured, and a run is observed whole until its delay is long enough to be noticed.
_BY_DEFAULT: Final = {"share": 0.5, "unnoticed_ns": 40e6}
_FEW_NODES, _MOST_NODES = 100, 10_000  # nodes in a document during the run, and at its end
# Interval of documents; length of a stretch; without steps, that of a call before it is cut.
_TELLING_NS, _STRETCH_NS, _CALL_NS = 2_000_000_000, 20_000_000, 1_000_000_000
_LEAVING_OUT_NS, _LEAVING_OUT_SHARE = 20_000, 0.2  # cost of leaving out a step; at most this of it
_IN_VAIN = 10  # consecutive stretches of counts above the limit after which it cannot be met
_WORTH_SAYING, _RELIABLE = 0.9, 12  # share of observed steps, and references, to tell the user

_Unit = Literal["step", "call", "outside"]


class Governor:
    """Decides how much is recorded, so that a run stays below a slowdown.

    What runs is divided into units: steps, calls outside of steps, and what runs between them.

    Args:
        limit: The slowdown. Raises `UsageError` if it is not a number above 1.
        tell: Shows a line to the user; called on the program's thread.
        bus: The bus of the run, which consults the governor about steps.
        chosen: Whether the user chose the limit; if not, messages come at the end only.

    Attributes:
        sampling: Decides which steps are observed; it counts those that have ended.
        step: The number of the last step that began; 0 before the first.
    """

    def __init__(
        self, limit: float, *, tell: Callable[[str], None], bus: Bus, chosen: bool = True
    ) -> None:  # fmt: skip
        if not 1 < limit < math.inf:
            what = f"{limit:g} is not a slowdown: the limit must be a number above 1"
            raise UsageError(what, hint="1.5 allows a run 50 % longer")
        self.limit = limit
        self.sampling = StepSampling(limit, **({} if chosen else _BY_DEFAULT))
        self._bus, self._tell, self._chosen, self._concluded = bus, tell, chosen, False
        # By node, what was left out, and executions since its last row; all outputs wanted.
        self._rows: dict[int, LeftOut] = {}
        self._unsaid: Counter[int] = Counter()
        self._values = 0
        # Of the run: time spent recording, in part by the user's choice; assumed cost of events.
        self._spent_ns = self._by_hand_ns = self._traced_ns = 0.0
        self._tracing_ns = STEPLESS_TRACING_NS
        self._deciding = threading.RLock()  # a signal handler may begin a step, too
        self.step, self.notes = 0, False
        self._unit: _Unit = "outside"
        self._began = StepCost(0.0)  # the cost of the run before this unit
        self._unobserved = self._broken = False  # whether this unit is; or one raised that was
        self._wanted = self._loss_broke = False
        self._because = ""  # why a step could not be left out that should have been
        self._said: set[str] = set()  # messages already shown
        self._stretch_end_ns, self._in_vain, self._told_ns, self._told = math.inf, 0, 0.0, (0, 0)

    def govern(self, recorder: Recorder) -> None:
        """Become the policy of a recorder, before any event reaches the recorder."""
        self._recorder, self._levels, self._lock = recorder, recorder.levels, recorder.lock
        self._bus.leaves_out = self._leaves_out
        self.started()

    def started(self) -> None:
        """Note that the program begins; earlier time, as for starting a server, does not count."""
        self._began = self._totals()
        self._stretch_end_ns = self._began.wall_ns + _STRETCH_NS

    def admit(self, event: NodeFinished) -> Level | None:
        """The level at which an execution is recorded; None if it is only counted."""
        if event.end_ns - self._bus.held_ns >= self._stretch_end_ns:
            self._stretch_ends()  # before the execution is numbered, so that messages precede it
        node, levels = event.node, self._levels
        level = levels.of(node)
        outputs = len(node.outputs) if level in WITH_ARRAYS else 0
        with self._lock:
            self._traced_ns += self._tracing_ns
            self._values += outputs
            if levels.detail != "whole" and levels.lowers(node):
                row = self._rows.get(node.id)
                if first := row is None:
                    row = self._rows[node.id] = LeftOut(node.id, node.name, level)
                if not (first and self.step):  # with steps, the first such execution is whole
                    row.summaries += outputs
                    row.arrays += outputs * (level == "values")
                    level = "timing" if outputs else level
                if levels.detail == "counted" and not first:
                    row.executions += 1
                    self._unsaid[node.id] += 1
                    return None
            if self._unsaid and node.id in self._unsaid:
                self._recorder.skipped(node.id, self._unsaid.pop(node.id))
        return level

    def admit_together(self, many: int, outputs: int, nbytes: int = 0) -> None:
        """Count executions that are reported together, all of which are recorded."""
        with self._lock:
            self._values += outputs * (self._levels.top in WITH_ARRAYS)
            self._traced_ns += TOGETHER_TRACING_NS * many + READING_NS * nbytes

    def took(self, node: Node | None, nanoseconds: int) -> None:
        """Add the time that recording an execution took."""
        self._spent_ns += nanoseconds
        if node is not None and not self._levels.uniform and self._levels.by_hand(node):
            self._by_hand_ns += nanoseconds

    def steps_unobserved(self, many: int) -> None:
        """Note that further steps of this unit began."""
        with self._deciding:
            self.step += many

    def losses_known(self, losses: Sequence[Loss], *, observed: bool) -> None:
        """Have the next step observed if the first non-finite loss is in an unobserved step."""
        if not self._loss_broke and not all(math.isfinite(loss.value) for loss in losses):
            self._loss_broke, self._wanted = True, not observed

    def demand(self) -> None:
        """Declare on the bus what the recorder needs; while everything is kept, every step."""
        with self._lock:  # from now on, executions may come together again
            for node, times in self._unsaid.items():
                self._recorder.skipped(node, times)
            self._unsaid.clear()
        whole = "recording everything was requested" if self._levels.everything else ""
        self._bus.want(self._recorder, Demand(arrays=self._levels.with_arrays, whole=whole))

    def _leaves_out(self, begins: int, unit: _Unit) -> int:
        """See `Bus.leaves_out`; it decides for several steps at once, because a decision takes a
        tenth of the time of a short one. ``begins`` is 0 if the unit has ended, -1 if it raised.
        """
        recorder, inside = self._recorder, self._unit == ("outside" if begins > 0 else unit)
        idle = self._concluded or recorder.off or recorder not in self._bus.probes
        if idle or not (inside or (unit == "step" and begins > 0)):
            return 0
        with self._deciding:
            # With steps, nodes are recorded as asked from now on.
            steps, length_ns = self.step or unit == "step", _CALL_NS if begins > 0 else _STRETCH_NS
            self._stretch_end_ns = math.inf if steps else self._bus.ran_ns() + length_ns
            self._broken = begins < 0 and self._unobserved
            self._close()
            leave = begins > 0 and self._may_leave_out(unit)
            owing = begins <= 0 and self.sampling.left_ns() < 0
            self._open(unit if begins > 0 else "outside", "times" if owing else "whole", leave)
            certain = self.sampling.left_out_for_certain() if leave and unit == "step" else 0
        return leave + certain

    def _may_leave_out(self, unit: _Unit) -> bool:
        """Whether the unit that begins need not be observed, and nothing needs to see it."""
        sampling, limit, reason = self.sampling, self.limit, self._bus.demand.seen_whole
        if unit == "call":
            return not (sampling.wants_call() or reason)
        due, self._wanted = self._wanted, False
        learns = self._bus.learns is not None and self._bus.learns()
        if sampling.wants(behind=self._recorder.writer.behind) or due or learns:
            return False
        slowdown, share = sampling.of_observed, sampling.share
        if slowdown <= limit:
            return not reason
        if reason:
            self._because = self._because or reason
            self._say_once("a training step", slowdown, reports.SEEN_WHOLE, reason)
        elif sampling.model.references >= _RELIABLE and share < _WORTH_SAYING:
            self._say_once("a training step", slowdown, reports.FEWER_STEPS, max(100 * share, 0.01))
        return not reason

    def _stretch_ends(self) -> None:
        """In a program without steps, decide how much is recorded of the next stretch."""
        # Never waits: a signal handler that computes may have interrupted the queue's lock.
        if not self._deciding.acquire(blocking=False):
            return
        try:
            if self._bus.ran_ns() < self._stretch_end_ns:
                return  # another thread has decided, or begun a step
            sampling, detail = self.sampling, self._levels.detail
            self._close()
            following = sampling.next_stretch(detail, behind=self._recorder.writer.behind)
            following = "whole" if self._levels.everything else following
            slowdown = sampling.of_stretch(detail)
            if following != "whole":
                self._say_once("the program", slowdown, reports.LESS_DETAIL)
            if detail == "counted" and self._in_vain < _IN_VAIN:
                # A single stretch may be slow only because the writer is busy.
                self._in_vain = self._in_vain + 1 if slowdown > self.limit else 0
                if self._in_vain == _IN_VAIN:
                    others = slowdown * (1 - self._by_hand_ns / self._began.wall_ns)
                    text = reports.IN_VAIN_BY_HAND if others < slowdown else reports.IN_VAIN
                    self._say_once("the program, only counted,", slowdown, text, factor(others))
            self._open("outside", following, unobserved=False)
            self._stretch_end_ns = self._bus.ran_ns() + _STRETCH_NS
        finally:
            self._deciding.release()

    def _open(self, unit: _Unit, detail: Detail, unobserved: bool) -> None:
        """Begin a unit, which bears the cost of the decision about it."""
        self.step += unit == "step"
        self._unit, self._unobserved = unit, unobserved
        self._tracing_ns = STEPLESS_TRACING_NS if unit == "outside" else TRACING_NS
        self.notes = self.step > 0 and detail == "whole"  # without steps, executions end stretches
        if unit == "call" and not unobserved:
            self._recorder.call_begins()
        if detail != self._levels.detail and not unobserved:
            self._levels.detail = detail
            self.demand()
        self.tell_counts(_TELLING_NS)
        self._spent_ns += self._bus.ran_ns() - self._began.wall_ns

    def _close(self) -> None:
        """End a unit."""
        now, many = self._totals(), self.step - self.sampling.steps
        cost, self._began = StepCost(*map(sub, now, self._began)), now
        if self._unit == "call":
            self.sampling.call_ended(cost, left_out=self._unobserved)
        elif self._unit == "outside":
            self.sampling.outside(cost, self._levels.detail)
        elif self._unobserved:
            more_ns = min(many * _LEAVING_OUT_NS, _LEAVING_OUT_SHARE * cost.wall_ns)
            cost = cost._replace(spent_ns=cost.spent_ns + more_ns)
            self.sampling.step_ended(cost, left_out=many)
        else:
            self.sampling.step_ended(cost)

    def _totals(self) -> StepCost:
        """The cost of the run so far."""
        recorder = self._recorder
        recorder.number_times()  # which counts executions that were noted
        return StepCost(
            self._bus.ran_ns(), self._spent_ns + self._bus.watched_ns, self._traced_ns,
            recorder.writer.cpu_ns(), recorder.operations + recorder.leaves,
        )  # fmt: skip

    def _say_once(self, what: str, slowdown: float, text: str, *facts: float | str) -> None:
        if self._chosen and text not in self._said:
            self._said.add(text)
            exceeded = what, factor(slowdown), factor(self.limit), text.format(*facts)
            self._tell(reports.EXCEEDED.format(*exceeded))

    def tell_counts(self, every_ns: int = 0) -> None:
        """Record what was left out so far: if that changed, for a reader; or after so much time."""
        if not every_ns and self._bus.tell_steps is not None:
            self._bus.tell_steps()
        now_ns, counts = self._bus.ran_ns(), (self.step, self.sampling.calls)
        due = now_ns - self._told_ns > every_ns if every_ns else counts != self._told
        if due and not self._concluded:
            self._told_ns, self._told = now_ns, counts
            self._recorder.enqueue(self.governed(_FEW_NODES))

    def governed(self, most_nodes: int = _MOST_NODES) -> Governed:
        """What was left out so far, for at most this number of nodes."""
        with self._lock:
            rows = [copy.copy(row) for row in self._rows.values() if row.executions + row.summaries]
        rows.sort(key=lambda row: (row.executions, row.summaries, row.arrays), reverse=True)
        sampling, running = self.sampling, self.step - self.sampling.steps
        return Governed(
            limit=self.limit, slowdown=sampling.slowdown, extra_s=sampling.extra_ns / 1e9,
            measured=sampling.model.references > 0, because=self._because,
            stuck=self._in_vain >= _IN_VAIN and sampling.slowdown > self.limit,
            steps=self.step, steps_left_out=sampling.left_out + self._unobserved * running,
            calls=sampling.calls, calls_left_out=sampling.calls_left_out,
            by_hand=self._levels.nodes_by_hand,
            executions=sum(row.executions for row in rows),
            summaries=sum(row.summaries for row in rows),
            arrays=sum(row.arrays for row in rows),
            values=self._values, lowered=len(rows), nodes=tuple(rows[:most_nodes]),
        )  # fmt: skip

    def conclude(self, error: str = "") -> None:
        """Report once, at the end of the run, what was left out."""
        if self._bus.tell_steps is not None:
            self._bus.tell_steps()
        with self._deciding:
            if self._concluded:
                return
            self._concluded = True
            unobserved = self._broken or self._unobserved
            if error and unobserved and not error.startswith("KeyboardInterrupt"):
                self._tell(reports.RAISED.format(self.step))
            self._close()
            self._open("outside", self._levels.detail, unobserved=False)
            self._stretch_end_ns, governed = math.inf, self.governed()
            self._recorder.add(governed)
        if self._recorder.operations:
            if self._chosen or (governed.because and governed.slowdown > governed.limit):
                self._tell(reports.ended(governed))
            elif governed.lowered or governed.steps_left_out:
                self._tell(kept(self._recorder.keeping(), governed))
