"""Cost model: estimates what observing costs a program by comparing its steps.

An unobserved step takes the program's own time if caches are warm: such steps are references.
Observed steps take longer, and so do the disturbed ones after them. It reads no clock.

Invariant: a disturbance of a few steps has no effect.
"""

from __future__ import annotations

from collections import deque
from operator import sub
from statistics import fmean, median, quantiles
from typing import Final, Literal, NamedTuple, get_args

BLOCK_TRACING_NS: Final = 1_500.0
"""The assumed cost of making the events of one execution that is reported in a block."""

WARM: Final = 2
"""Steps up to this one are warm-up and are not compared."""

# How many steps of each kind a reliable comparison needs, it has at least, and are remembered.
_COMPARED, _AT_LEAST, _WINDOW = 12, 6, 256
# Of so many observed steps, the waits for the writer are averaged. The program waits at most this
# many times as long as the writer works: a product on all processors waits for the slowest.
_WAITS, _MOST_WAIT = 24, 3.0
# The writer was idle if it worked for less than this share of the time.
_IDLE: Final = 0.04
# Of twentieths: 20, 30, 70, 75 and 80 %. With two kinds of steps, a median may be of either.
_PLACES: Final = (3, 5, 13, 14, 15)

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
        spent_ns, written_ns = min(cost.spent_ns, cost.wall_ns), min(cost.written_ns, cost.wall_ns)
        return cost._replace(spent_ns=spent_ns, written_ns=written_ns)

    def toward(self, later: StepCost, wall_ns: float) -> StepCost:
        """The totals at a moment before later ones, if costs are spread evenly."""
        part = (wall_ns - self.wall_ns) / max(later.wall_ns - self.wall_ns, 1.0)
        part = min(max(part, 0.0), 1.0)
        return StepCost(*[a + part * (b - a) for a, b in zip(self, later, strict=True)])


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
        """Add a step that has ended, or several unobserved ones with the cost of all, which are
        compared as one of their mean time; ``step`` is the number of the last. Return how long the
        program waited for the writer, if that is known.
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
        idle = cost.written_ns < _IDLE * cost.wall_ns
        plain_ns = rest_ns if idle else max(rest_ns - cost.written_ns, 0.0)
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
        # Once there are references, `tracing` includes what the writer takes, but for waits.
        alone, tracing = not self.references, self.tracing
        waits = fmean(self._waits) if len(self._waits) >= _AT_LEAST and not alone else 0.0
        return waits + median([
            cost.spent_ns + tracing * cost.tracing_ns + alone * cost.written_ns
            for cost in self._latest()
        ])  # fmt: skip

    def compare(self) -> bool:
        """Compare the steps of each kind that ran in the same period. Return whether there are
        enough observed steps and references for a reliable result.
        """
        observed, references, disturbed = map(self._recent, self._steps)
        if references and observed:
            extra = _excess(observed, references)
            if disturbed:
                extra += _excess(disturbed, references) * len(disturbed) / len(observed)
            self.tracing = extra / max(median([ended.cost.tracing_ns for ended in observed]), 1.0)
        own = [ended.plain_ns for ended in references[-_COMPARED:]]
        if len(own) < _AT_LEAST:  # a few may all be of one kind
            own += map(self._own_ns, self._latest())
        self.plain_ns = median(own)
        return min(self.references, len(self._steps["observed"])) >= _COMPARED

    def _latest(self) -> list[StepCost]:
        """The costs of the latest observed steps."""
        return [ended.cost for ended in self._steps["observed"][-_COMPARED:]] or [self._first]

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


def _excess(steps: list[_Steps], references: list[_Steps]) -> float:
    """How much longer steps take than references, at least 0."""
    longer = _cuts([ended.rest_ns for ended in steps])
    plain = _cuts([ended.plain_ns for ended in references])
    return max(fmean([longer[place] - plain[place] for place in _PLACES]), 0.0)


def _cuts(times: list[float]) -> list[float]:
    return quantiles(times if times[1:] else 2 * times, n=20, method="inclusive")
