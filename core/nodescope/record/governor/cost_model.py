"""Cost model: estimates what observing costs a program by comparing its steps.

An unobserved step takes the program's own time if caches are warm and the writer is idle: such
steps are references. Observed steps take longer, and so do the steps after them. The input is the
time of each step; the model reads no clock.

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
_COMPARED, _AT_LEAST = 12, 6
# Of so many observed steps, the waits for the writer are averaged. The program waits at most this
# many times as long as the writer works: a product on all processors waits for the slowest.
_WAITS, _MOST_WAIT = 24, 3.0
_WINDOW: Final = 256
_FEW: Final = 3
_QUANTILES: Final = (0.2, 0.3, 0.7, 0.75, 0.8)  # with two kinds of steps, a median may be of either
_CLEAN: Final = 0.04

Kind = Literal["observed", "reference", "disturbed"]


class StepCost(NamedTuple):
    """The cost of a step, of a call, of a stretch or of the run so far, in nanoseconds.

    Attributes:
        wall_ns: The time that passed, without time held by a debugger.
        spent_ns: The measured time in the recorder, on the program's threads.
        tracing_ns: The assumed cost of making the events.
        written_ns: The processor time of the writer meanwhile. How much of it the program loses
            depends on the machine: they share the interpreter's lock, and maybe a processor.
        fresh: The number of nodes that were defined.
        in_blocks: The number of executions that were reported in blocks.
    """

    wall_ns: float
    spent_ns: float = 0.0
    tracing_ns: float = 0.0
    written_ns: float = 0.0
    fresh: float = 0
    in_blocks: float = 0

    def since(self, before: StepCost) -> StepCost:
        """The cost since an earlier moment; measured parts are at most the time that passed."""
        wall_ns, spent_ns, tracing_ns, written_ns, fresh, in_blocks = map(sub, self, before)
        wall_ns = max(wall_ns, 0.0)
        measured = min(spent_ns, wall_ns), tracing_ns, min(written_ns, wall_ns)
        return StepCost(wall_ns, *measured, fresh, in_blocks)

    def toward(self, later: StepCost, wall_ns: float) -> StepCost:
        """The totals at a moment before later ones, if costs are spread evenly."""
        part = (wall_ns - self.wall_ns) / max(later.wall_ns - self.wall_ns, 1.0)
        part = min(max(part, 0.0), 1.0)
        return StepCost(*[a + part * (b - a) for a, b in zip(self, later, strict=True)])

    @property
    def clean(self) -> bool:
        """Whether the writer was idle except for a small share of the time."""
        return self.written_ns < _CLEAN * self.wall_ns

    @property
    def rest_ns(self) -> float:
        """The time that is not explained by `spent_ns`."""
        return max(self.wall_ns - self.spent_ns, 0.0)


class _Steps(NamedTuple):
    """Consecutive steps of a kind: the number of the last, their mean times, and their cost.

    `rest_ns` is without waits for the writer. In references, `plain_ns` is the program's own time.
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
        waits_ns: How long the program waits for the writer from an observed step to the next.
        plain_ns: The time that a step takes unobserved now.
    """

    def __init__(self) -> None:
        self.references = 0
        self.tracing = 1.0
        self.plain_ns = self.waits_ns = 0.0
        self._steps: dict[Kind, list[_Steps]] = {kind: [] for kind in get_args(Kind)}
        self._first = StepCost(0.0)
        self._in_blocks = False
        # The program's waits for the writer, from the start of an observed step to the next one.
        self._waits: deque[float] = deque(maxlen=_WAITS)

    def add(self, step: int, kind: Kind, cost: StepCost, many: int = 1) -> float:
        """Add a step that has ended, or several unobserved ones, which are compared as one step of
        their mean time. Return how long the program waited for the writer, if that is known.

        Args:
            step: The number of the last of them.
            cost: The cost of all of them.
        """
        rest_ns = cost.rest_ns
        # The program waits for the interpreter lock while the writer holds it. Such waits are long
        # but occur in few steps, so quantiles do not show them.
        longer_ns = max(rest_ns - many * self.plain_ns, 0.0) if self.references else 0.0
        waited_ns = min(_MOST_WAIT * cost.written_ns, longer_ns)
        if not self._in_blocks and 2 * BLOCK_TRACING_NS * cost.in_blocks > cost.tracing_ns:
            # The first step mostly in blocks: costs of earlier ones say nothing about later ones.
            self._in_blocks, self.tracing = True, 1.0
            self._steps["observed"].clear()
            self._steps["disturbed"].clear()
            self._waits.clear()
        if kind == "observed" and (step <= WARM or cost.fresh):
            self._first = cost
            return waited_ns
        # Unless the writer was idle, it may have taken time from the program.
        plain_ns = rest_ns if cost.clean else max(rest_ns - cost.written_ns, 0.0)
        self.references += many * (kind == "reference")
        times = (rest_ns - waited_ns) / many, plain_ns / many
        self._steps[kind].append(_Steps(step, *times, cost))
        del self._steps[kind][:-_WINDOW]
        if kind == "observed":
            self._waits.append(0.0)
        if self._waits:
            self._waits[-1] += waited_ns
        return waited_ns

    def cost_ns(self) -> float:
        """The cost of observing a step now, including its effect on later steps."""
        recent = [ended.cost for ended in self._steps["observed"][-_COMPARED:]] or [self._first]
        spent = median([cost.spent_ns for cost in recent])
        if not self.references:  # `tracing` does not include the writer yet
            spent += median([cost.written_ns for cost in recent])
        return spent + self.waits_ns + self.tracing * median([cost.tracing_ns for cost in recent])

    def compare(self) -> bool:
        """Compare the steps of each kind that ran in the same period.

        Return whether there are enough observed steps and references for a reliable result.
        """
        observed, references, disturbed = map(self._recent, self._steps)
        if references and observed:
            plain = sorted([ended.plain_ns for ended in references])
            extra = _excess(observed, plain)
            if len(disturbed) >= _FEW:
                extra += _excess(disturbed, plain) * len(disturbed) / len(observed)
            if len(self._waits) >= _AT_LEAST:  # before that, definitions take most time
                self.waits_ns = fmean(self._waits)
            assumed = median([ended.cost.tracing_ns for ended in observed])
            if assumed >= 1:  # otherwise there was nothing to observe
                self.tracing = extra / assumed
        own = [ended.plain_ns for ended in references[-_COMPARED:]]
        if len(own) < _AT_LEAST:
            own += [self._own_ns(ended.cost) for ended in observed[-_COMPARED:]]
        self.plain_ns = median(own or [self._own_ns(self._first)])
        return min(self.references, len(self._steps["observed"])) >= _COMPARED

    def _own_ns(self, cost: StepCost) -> float:
        """The program's own time in an observed step."""
        own_ns = cost.rest_ns - self.tracing * cost.tracing_ns
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
