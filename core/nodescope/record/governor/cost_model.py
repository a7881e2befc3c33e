"""Cost model: estimates what observing costs a program by comparing its steps.

An unobserved step takes the program's own time if caches are warm: such steps are references.
Observed steps take longer, and so do the disturbed ones after them.

Invariant: it reads no clock, and a disturbance of a few steps has no effect.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean, median, quantiles
from typing import Literal, NamedTuple, get_args

WARM = 2  # first steps, and calls after a step, that are observed and not compared
SETTLING = 2  # steps after an observed one that are disturbed
_COMPARED = 12  # steps of each kind for a reliable comparison
_AT_LEAST = 6  # steps of a kind that are compared at least, if there are so many
_WINDOW = 256  # steps of each kind that are remembered
_WAITS = 24  # observed steps over which waits for the writer are averaged
_MOST_WAIT = 3.0  # longest wait by writer's time: a product on all processors waits for the slowest
_LIGHTER = 0.7  # share of the first steps' events below which costs of earlier steps are forgotten
_PLACES = (3, 5, 13, 14, 15)  # of the 5 % quantiles: 20, 30, 70, 75 and 80 %

Kind = Literal["observed", "reference", "disturbed"]


class StepCost(NamedTuple):
    """The cost of a step, of a call, of a stretch or of the run so far, in nanoseconds.

    How much of the writer's time the program loses depends on the machine: they share the
    interpreter's lock, and maybe a processor.
    """

    wall_ns: float  # the time that passed, without time held by a debugger
    spent_ns: float = 0.0  # the measured time in the recorder, on the program's threads
    tracing_ns: float = 0.0  # the assumed cost of making the events
    written_ns: float = 0.0  # the writer's processor time
    fresh: float = 0  # how many nodes were defined


class _Steps(NamedTuple):
    """Consecutive steps of a kind."""

    number: int  # the number of the last step
    rest_ns: float  # the mean time without that of the recorder and of waits for the writer
    plain_ns: float  # the same without the writer's time: in references, the program's own time
    cost: StepCost


class CostModel:
    """Estimates from the steps of a run.

    Attributes:
        references: The number of steps that showed the program's own time.
        tracing: The cost of observing a step beyond what is measured, as a multiple of the assumed
            cost of making its events. It includes the effect on later steps, but not the writer.
        plain_ns, cost_ns: The time that a step takes unobserved, and the cost of observing it,
            including its effect on later steps; as `compare` found them last.
    """

    def __init__(self) -> None:
        self.references, self.tracing, self.plain_ns, self.cost_ns = 0, 1.0, 1.0, 0.0
        self._steps: dict[Kind, list[_Steps]] = {kind: [] for kind in get_args(Kind)}
        self._first, self._lighter = StepCost(0.0), False
        # How long the program waited for the writer, from each observed step to the next one.
        self._waits: deque[float] = deque(maxlen=_WAITS)

    def add(self, step: int, kind: Kind, cost: StepCost, many: int = 1) -> float:
        """Add a step, or a series of unobserved ones that ends with it, as one step of mean length.
        Return how long the program waited for the writer, as far as that is known.
        """
        # The program waits for the interpreter lock while the writer holds it. Such waits are long
        # but occur in few steps, so quantiles do not show them.
        rest_ns = max(cost.wall_ns - cost.spent_ns, 0.0)
        longer_ns = max(rest_ns - many * self.plain_ns, 0.0) if self.references else 0.0
        waited_ns = min(_MOST_WAIT * cost.written_ns, longer_ns)
        if kind == "observed":
            if step <= WARM or cost.fresh:
                self._first = cost
                return waited_ns
            if not self._lighter and cost.tracing_ns < _LIGHTER * self._first.tracing_ns:
                self._lighter, self.tracing = True, 1.0
                for past in (self._steps["observed"], self._steps["disturbed"], self._waits):
                    past.clear()
            self._waits.append(0.0)
        # With a processor of its own, the writer takes less than half of the program's time.
        plain_ns = max(rest_ns - cost.written_ns, rest_ns / 2)
        self.references += many * (kind == "reference")
        steps = self._steps[kind]
        steps.append(_Steps(step, (rest_ns - waited_ns) / many, plain_ns / many, cost))
        del steps[:-_WINDOW]
        if self._waits:
            self._waits[-1] += waited_ns
        return waited_ns

    def compare(self) -> bool:
        """Compare steps of one period. Return whether they are enough for a reliable result."""
        observed, references, disturbed = map(self._recent, self._steps)
        if references and observed:
            plain_ns = _typical([ended.plain_ns for ended in references])
            extra = max(_typical([ended.rest_ns for ended in observed]) - plain_ns, 0.0)
            if disturbed:  # by observed steps, or by what is between steps
                later = max(_typical([ended.rest_ns for ended in disturbed]) - plain_ns, 0.0)
                extra += later * min(len(disturbed) / len(observed), SETTLING)
            self.tracing = extra / max(median([ended.cost.tracing_ns for ended in observed]), 1.0)
        latest = [ended.cost for ended in self._steps["observed"][-_COMPARED:]] or [self._first]
        waits = fmean(self._waits) if len(self._waits) >= _AT_LEAST and self.references else 0.0
        self.cost_ns = waits + median(map(self._cost_of, latest))
        own = [ended.plain_ns for ended in references[-_COMPARED:]]
        own = own or [max(cost.wall_ns - self._cost_of(cost), cost.wall_ns / 50) for cost in latest]
        self.plain_ns = max(median(own), 1.0)
        return min(self.references, len(self._steps["observed"])) >= _COMPARED

    def _cost_of(self, cost: StepCost) -> float:
        """The cost of an observed step, without waits for the writer."""
        # Once there are references, `tracing` includes the effect of the writer.
        written_ns = 0.0 if self.references else cost.written_ns
        return cost.spent_ns + self.tracing * cost.tracing_ns + written_ns

    def _recent(self, kind: Kind) -> list[_Steps]:
        """The latest steps of a kind, from a period with enough steps of each kind to compare."""
        kinds = [self._steps[other] for other in ("observed", "reference") if self._steps[other]]
        since = min((steps[-_COMPARED:][0].number for steps in kinds), default=0)
        since = max([since, *(steps[0].number for steps in kinds if len(steps) == _WINDOW)])
        recent = [ended for ended in self._steps[kind] if ended.number >= since]
        return recent if len(recent) >= _AT_LEAST else self._steps[kind][-_AT_LEAST:]


def _typical(times: list[float]) -> float:
    """A mean of quantiles, because with two kinds of steps, a median may be of either."""
    cuts = quantiles(times if times[1:] else 2 * times, n=20, method="inclusive")
    return fmean([cuts[place] for place in _PLACES])
