"""Cost model: estimates what observing costs a program by comparing its steps.

An unobserved step takes the program's own time if caches are warm and the writer is idle: such
steps are references. Observed steps take longer, and so do the disturbed ones after them. It reads
no clock.

Invariant: a disturbance of a few steps has no effect.
"""

from __future__ import annotations

from collections import deque
from operator import sub
from statistics import fmean, median
from typing import Final, Literal, NamedTuple, get_args

BLOCK_TRACING_NS: Final = 1_500.0
"""The assumed cost of making the events of one execution that is reported in a block."""

WARM: Final = 2
"""Steps up to this one are warm-up and are not compared."""

# The number of steps of each kind that a reliable comparison needs, and at least has.
_COMPARED, _AT_LEAST, _WINDOW = 12, 6, 256
# Of so many observed steps, the waits for the writer are averaged. The program waits at most this
# many times as long as the writer works: a product on all processors waits for the slowest.
_WAITS, _MOST_WAIT = 24, 3.0
_QUANTILES: Final = (0.2, 0.3, 0.7, 0.75, 0.8)  # with two kinds of steps, a median may be of either
_CLEAN: Final = 0.04

Kind = Literal["observed", "reference", "disturbed"]


class StepCost(NamedTuple):
    """The cost of a step, of a call, of a stretch or of the run so far, in nanoseconds.

    Attributes:
        wall_ns: The time that passed, without time held by a debugger.
        spent_ns: The measured time in the recorder, on the program's threads.
        tracing_ns: The assumed cost of making the events.
        written_ns: The writer's processor time. How much of it the program loses depends on the
            machine: they share the interpreter's lock, and maybe a processor.
        fresh, in_blocks: How many nodes were defined, and executions reported in blocks.
    """

    wall_ns: float
    spent_ns: float = 0.0
    tracing_ns: float = 0.0
    written_ns: float = 0.0
    fresh: float = 0
    in_blocks: float = 0

    def since(self, before: StepCost) -> StepCost:
        """The cost since an earlier moment; measured parts are at most the time that passed."""
        cost = StepCost(*map(sub, self, before))
        wall_ns = max(cost.wall_ns, 0.0)
        spent_ns, written_ns = min(cost.spent_ns, wall_ns), min(cost.written_ns, wall_ns)
        return cost._replace(wall_ns=wall_ns, spent_ns=spent_ns, written_ns=written_ns)

    def toward(self, later: StepCost, wall_ns: float) -> StepCost:
        """The totals at a moment before later ones, if costs are spread evenly."""
        part = (wall_ns - self.wall_ns) / max(later.wall_ns - self.wall_ns, 1.0)
        part = min(max(part, 0.0), 1.0)
        return StepCost(*[a + part * (b - a) for a, b in zip(self, later, strict=True)])

    @property
    def clean(self) -> bool:
        """Whether the writer was idle except for a small share of the time."""
        return self.written_ns < _CLEAN * self.wall_ns


class _Steps(NamedTuple):
    """Consecutive steps of a kind: the number of the last, their mean times, and their cost.

    `rest_ns` is what neither the recorder took nor waits for the writer, `plain_ns` what the writer
    cannot have taken either: in references, the program's own time.
    """

    number: int
    rest_ns: float
    plain_ns: float
    cost: StepCost


class CostModel:
    """Estimates from the steps of a run.

    Attributes:
        references: The number of steps that showed the program's own time.
        tracing: The cost of observing a step beyond what is measured, as a multiple of the assumed
            cost of making its events. It includes the effect on later steps, but not the writer.
        plain_ns: The time that a step takes unobserved now.
    """

    def __init__(self) -> None:
        self.references, self.tracing, self.plain_ns = 0, 1.0, 0.0
        self._steps: dict[Kind, list[_Steps]] = {kind: [] for kind in get_args(Kind)}
        self._first = StepCost(0.0)
        self._in_blocks = False
        # How long the program waited for the writer, from each observed step to the next one.
        self._waits: deque[float] = deque(maxlen=_WAITS)

    def add(self, step: int, kind: Kind, cost: StepCost, many: int = 1) -> float:
        """Add a step that has ended, or several unobserved ones, which are compared as one step of
        their mean time. Return how long the program waited for the writer, if that is known.

        Args:
            step: The number of the last of them.
            cost: The cost of all of them.
        """
        # The program waits for the interpreter lock while the writer holds it. Such waits are long
        # but occur in few steps, so quantiles do not show them.
        rest_ns = max(cost.wall_ns - cost.spent_ns, 0.0)
        longer_ns = max(rest_ns - many * self.plain_ns, 0.0) if self.references else 0.0
        waited_ns = min(_MOST_WAIT * cost.written_ns, longer_ns)
        if not self._in_blocks and 2 * BLOCK_TRACING_NS * cost.in_blocks > cost.tracing_ns:
            # The first step mostly in blocks: costs of earlier ones say nothing about later ones.
            self._in_blocks, self.tracing = True, 1.0
            for past in (self._steps["observed"], self._steps["disturbed"], self._waits):
                past.clear()
        if kind == "observed" and (step <= WARM or cost.fresh):
            self._first = cost
            return waited_ns
        # Unless the writer was idle, it may have taken time from the program.
        plain_ns = rest_ns if cost.clean else max(rest_ns - cost.written_ns, 0.0)
        self.references += many * (kind == "reference")
        steps = self._steps[kind]
        steps.append(_Steps(step, (rest_ns - waited_ns) / many, plain_ns / many, cost))
        del steps[:-_WINDOW]
        if kind == "observed":
            self._waits.append(0.0)
        if self._waits:
            self._waits[-1] += waited_ns
        return waited_ns

    def cost_ns(self) -> float:
        """The cost of observing a step now, including its effect on later steps."""
        recent = [ended.cost for ended in self._steps["observed"][-_COMPARED:]] or [self._first]
        spent, tracing, written = (
            median(costs) for costs in zip(*[cost[1:4] for cost in recent], strict=True)
        )
        # Later, `tracing` includes what the writer takes, but for waits.
        waits = fmean(self._waits) if len(self._waits) >= _AT_LEAST else 0.0
        return spent + self.tracing * tracing + (waits if self.references else written)

    def compare(self) -> bool:
        """Compare the steps of each kind that ran in the same period.

        Return whether there are enough observed steps and references for a reliable result.
        """
        observed, references, disturbed = map(self._recent, self._steps)
        if references and observed:
            plain = sorted([ended.plain_ns for ended in references])
            extra = _excess(observed, plain)
            if disturbed:
                extra += _excess(disturbed, plain) * len(disturbed) / len(observed)
            self.tracing = extra / max(median([ended.cost.tracing_ns for ended in observed]), 1.0)
        own = [ended.plain_ns for ended in references[-_COMPARED:]]
        if len(own) < _AT_LEAST:
            own += [self._own_ns(ended.cost) for ended in observed[-_COMPARED:]]
        self.plain_ns = median(own or [self._own_ns(self._first)])
        return min(self.references, len(self._steps["observed"])) >= _COMPARED

    def _own_ns(self, cost: StepCost) -> float:
        """The program's own time in an observed step."""
        own_ns = cost.wall_ns - cost.spent_ns - self.tracing * cost.tracing_ns
        return max(own_ns if self.references else own_ns - cost.written_ns, cost.wall_ns / 50)

    def _recent(self, kind: Kind) -> list[_Steps]:
        """The latest steps of a kind, from a period with enough steps of each kind to compare."""
        kinds = [self._steps[other] for other in ("observed", "reference") if self._steps[other]]
        since = min((steps[-_COMPARED:][0].number for steps in kinds), default=0)
        since = max([since, *(steps[0].number for steps in kinds if len(steps) == _WINDOW)])
        recent = [ended for ended in self._steps[kind] if ended.number >= since]
        return recent if len(recent) >= _AT_LEAST else self._steps[kind][-_AT_LEAST:]


def _excess(steps: list[_Steps], plain: list[float]) -> float:
    """How much longer steps take than references, at least 0; ``plain`` is sorted."""
    longer = sorted([ended.rest_ns for ended in steps])
    return max(fmean([_at(longer, share) - _at(plain, share) for share in _QUANTILES]), 0.0)


def _at(ordered: list[float], share: float) -> float:
    """An interpolated quantile of sorted numbers."""
    low, part = divmod(share * (len(ordered) - 1), 1)
    first, following = ordered[int(low)], ordered[min(int(low) + 1, len(ordered) - 1)]
    return first + (following - first) * part
