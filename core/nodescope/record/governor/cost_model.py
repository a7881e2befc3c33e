"""Cost model: estimates what observing costs a program by comparing its steps.

An unobserved step takes the program's own time if caches are warm and the writer is idle: such
steps are references. Observed steps take longer, and so do the steps after them. The input is the
time of each step; the model reads no clock.

Invariant: a disturbance of a few steps has no effect.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from operator import itemgetter
from statistics import fmean, median
from typing import Final, Literal, NamedTuple

import msgspec

TRACING_NS: Final = 3_500.0
"""The assumed cost of making the events of one execution, until it is measured."""

BLOCK_TRACING_NS: Final = 1_500.0
"""The same for executions that are reported in blocks."""

STEPLESS_TRACING_NS: Final = 8_000.0
"""The same in a program without steps, where each call is looked up by its line."""

DEFINING_NS: Final = 60_000.0
"""The assumed additional cost of the first execution of a node."""

WARM: Final = 2
"""Steps up to this one are warm-up and are not compared."""

COMPARED: Final = 12
"""The number of steps of each kind that a reliable comparison needs."""

_WINDOW: Final = 256
_AT_LEAST: Final = COMPARED // 2
_FEW: Final = 3
_QUANTILES: Final = (0.2, 0.3, 0.7, 0.75, 0.8)  # with two kinds of steps, a median may be of either
_CLEAN: Final = 0.04

Kind = Literal["observed", "reference", "disturbed"]


class StepCost(msgspec.Struct, frozen=True):
    """The cost of a step, of a call, of a stretch or of the run so far, in nanoseconds.

    Attributes:
        wall_ns: The time that passed, without time held by a debugger.
        spent_ns: The measured time in the recorder, on the program's threads.
        tracing_ns: The assumed cost of making the events.
        written_ns: The processor time of the writer meanwhile. How much of it the program loses
            depends on the machine: they share the interpreter's lock, and maybe a processor.
        fresh: The number of nodes that were defined.
        by_hand_ns: The part of `spent_ns` for nodes whose level the user chose.
        in_blocks: The number of executions that were reported in blocks.
    """

    wall_ns: float
    spent_ns: float = 0.0
    tracing_ns: float = 0.0
    written_ns: float = 0.0
    fresh: int = 0
    by_hand_ns: float = 0.0
    in_blocks: int = 0

    def since(self, before: StepCost) -> StepCost:
        """The cost since an earlier moment; measured parts are at most the time that passed."""
        wall_ns = max(self.wall_ns - before.wall_ns, 0.0)
        return StepCost(
            wall_ns,
            min(self.spent_ns - before.spent_ns, wall_ns),
            self.tracing_ns - before.tracing_ns,
            min(self.written_ns - before.written_ns, wall_ns),
            self.fresh - before.fresh,
            self.by_hand_ns - before.by_hand_ns,
            self.in_blocks - before.in_blocks,
        )

    def at(self, wall_ns: float, written_ns: float | None = None) -> StepCost:
        """The totals at a later moment of the run, if nothing was recorded until then."""
        return StepCost(
            wall_ns, self.spent_ns, self.tracing_ns,
            self.written_ns if written_ns is None else written_ns,
            self.fresh, self.by_hand_ns, self.in_blocks,
        )  # fmt: skip

    @property
    def clean(self) -> bool:
        """Whether the writer was idle except for a small share of the time."""
        return self.written_ns < _CLEAN * self.wall_ns

    @property
    def rest_ns(self) -> float:
        """The time that is not explained by `spent_ns`."""
        return max(self.wall_ns - self.spent_ns, 0.0)

    @property
    def plain_ns(self) -> float:
        """The program's own time in a reference, minus any time the writer may have taken."""
        return self.rest_ns if self.clean else max(self.rest_ns - self.written_ns, 0.0)


class _Step(NamedTuple):
    """A step that has ended: its number, its cost, and the times derived from that."""

    number: int
    rest_ns: float
    plain_ns: float
    cost: StepCost


_NUMBER: Final = itemgetter(0)


class CostModel:
    """Estimates from the steps of a run.

    Attributes:
        references: The number of steps that showed the program's own time.
        tracing: The cost of observing a step beyond what is measured, as a multiple of the assumed
            cost of making its events. It includes the writer, and the effect on later steps.
        plain_ns: The time that a step takes unobserved now.
    """

    def __init__(self) -> None:
        self.references = 0
        self.tracing = 1.0
        self.plain_ns = 0.0
        self._steps: dict[Kind, deque[_Step]] = {
            "observed": deque(maxlen=_WINDOW),
            "reference": deque(maxlen=_WINDOW),
            "disturbed": deque(maxlen=_WINDOW),
        }
        self._first = StepCost(0.0)
        self._in_blocks = False
        # Totals over all steps: the writer's time, and the time beyond `plain_ns`; then the same
        # totals before each of the latest observed steps.
        self._written_ns = self._longer_ns = 0.0
        self._before_observed: deque[tuple[float, float]] = deque(maxlen=COMPARED)

    @property
    def reliable(self) -> bool:
        """Whether there are enough observed steps and references to compare."""
        return min(self.references, len(self._steps["observed"])) >= COMPARED

    def begin_blocks(self, cost: StepCost) -> bool:
        """Return whether an observed step is the first that was mostly reported in blocks.

        If so, earlier observed steps are forgotten: their costs say nothing about later ones.
        """
        if self._in_blocks or 2 * BLOCK_TRACING_NS * cost.in_blocks <= cost.tracing_ns:
            return False
        self._in_blocks = True
        self._steps["observed"].clear()
        self._before_observed.clear()
        self._steps["disturbed"].clear()
        self.tracing = 1.0
        return True

    def add(self, step: int, kind: Kind, cost: StepCost, many: int = 1) -> None:
        """Add a step that has ended, or several unobserved ones, which are compared as one step of
        their mean time.

        Args:
            step: The number of the last of them.
            cost: The cost of all of them.
        """
        if kind == "observed" and (step <= WARM or cost.fresh):
            self._first = cost
            return
        if kind == "observed":
            self._before_observed.append((self._written_ns, self._longer_ns))
        self._written_ns += cost.written_ns
        if self.plain_ns:
            self._longer_ns += max(cost.rest_ns - many * self.plain_ns, 0.0)
        self.references += many * (kind == "reference")
        self._steps[kind].append(_Step(step, cost.rest_ns / many, cost.plain_ns / many, cost))

    def cost_ns(self) -> float:
        """The cost of observing a step now, including its effect on later steps."""
        recent = [ended.cost for ended in self._steps["observed"]][-COMPARED:] or [self._first]
        spent = median([cost.spent_ns for cost in recent])
        if not self.references:  # `tracing` does not include the writer yet
            spent += median([cost.written_ns for cost in recent])
        return spent + self.tracing * median([cost.tracing_ns for cost in recent])

    def compare(self) -> None:
        """Compare the steps of each kind that ran in the same period."""
        observed, references, disturbed = map(self._recent, self._steps)
        if references and observed:
            plain = sorted([ended.plain_ns for ended in references])
            extra = _excess([ended.rest_ns for ended in observed], plain)
            if len(disturbed) >= _FEW:
                later = _excess([ended.rest_ns for ended in disturbed], plain)
                extra += later * len(disturbed) / len(observed)
            if len(self._before_observed) >= _AT_LEAST:  # before that, definitions take most time
                extra = max(extra, self._waited_ns())
            assumed = median([ended.cost.tracing_ns for ended in observed])
            if assumed >= 1:  # otherwise there was nothing to observe
                self.tracing = extra / assumed
        own = [ended.plain_ns for ended in references[-COMPARED:]]
        own += [self._own_ns(ended.cost) for ended in observed[-COMPARED:]]
        self.plain_ns = median(own or [self._own_ns(self._first)])

    def _waited_ns(self) -> float:
        """How long the program waits, per observed step, for the interpreter lock while the writer
        holds it. Such waits are long but occur in few steps, so quantiles do not show them.
        """
        written_ns, longer_ns = self._before_observed[0]
        waited_ns = min(self._written_ns - written_ns, self._longer_ns - longer_ns)
        return waited_ns / len(self._before_observed)

    def _own_ns(self, cost: StepCost) -> float:
        """The program's own time in an observed step."""
        own_ns = cost.rest_ns - self.tracing * cost.tracing_ns
        return max(own_ns if self.references else own_ns - cost.written_ns, cost.wall_ns / 50)

    def _recent(self, kind: Kind) -> list[_Step]:
        """The latest steps of a kind, from a period with enough steps of each kind to compare."""
        kinds = [self._steps[kind] for kind in ("observed", "reference") if self._steps[kind]]
        since = min((steps[max(len(steps) - COMPARED, 0)].number for steps in kinds), default=0)
        since = max([since, *(steps[0].number for steps in kinds if len(steps) == _WINDOW)])
        steps = list(self._steps[kind])
        return steps[min(bisect_left(steps, since, key=_NUMBER), max(len(steps) - _AT_LEAST, 0)) :]


def _excess(times: list[float], plain: list[float]) -> float:
    """How much longer steps take than references, at least 0; ``plain`` is sorted."""
    longer = sorted(times)
    return max(fmean([_at(longer, share) - _at(plain, share) for share in _QUANTILES]), 0.0)


def _at(ordered: list[float], share: float) -> float:
    """An interpolated quantile of sorted numbers."""
    low, part = divmod(share * (len(ordered) - 1), 1)
    following = ordered[min(int(low) + 1, len(ordered) - 1)]
    return ordered[int(low)] + (following - ordered[int(low)]) * part
