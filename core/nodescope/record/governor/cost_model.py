"""Cost model: what observing takes from a program, by comparing its steps.

An unobserved step takes the program's own time, once caches are warm and the writer stands still:
such steps are references. Observed ones, and those that run unobserved soon after, take more.
Its input is the time of each step; it reads no clock.

Invariant: robust: a disturbance of a few steps has no effect; only what most steps of a kind have
in common counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Final, Literal

import msgspec

TRACING_NS: Final = 3_500.0
"""What making the events of one execution is assumed to take, until it is measured."""

STEPLESS_TRACING_NS: Final = 8_000.0
"""The same where no steps are told apart, so that each call is looked up by its line."""

DEFINING_NS: Final = 60_000.0
"""What the first execution of a node is assumed to take besides, until it is measured."""

_MOST_DEFINING_NS: Final = 400_000.0

WARM: Final = 2
"""Steps up to this one are warm-up and are not compared."""

COMPARED: Final = 12
"""Steps are compared over a stretch with at least about this many of each kind."""

_MOST_KEPT: Final = 256
# The current time of a step is the median of this many recent ones.
_RECENT: Final = 24
_FEW: Final = 3
# Not the median: where two kinds of steps alternate, it may be either.
_QUANTILES: Final = (0.2, 0.3, 0.7, 0.75, 0.8)
# A step is clean if the writer used less than this share of it.
_CLEAN: Final = 0.04

Kind = Literal["observed", "reference", "disturbed"]


class StepCost(msgspec.Struct, frozen=True):
    """The cost of a step, a call, a stretch or the run so far, in nanoseconds.

    Attributes:
        wall_ns: How long it took, without time held by a debugger.
        spent_ns: Measured time in the recorder, on the program's threads.
        tracing_ns: The assumed cost of making the events.
        written_ns: The writer's processor time meanwhile. It slows the program by an amount that
            depends on the machine: both share the interpreter's lock, and maybe a processor.
        fresh: Nodes defined in it.
        by_hand_ns: Of `spent_ns`, for nodes whose level a person chose.
    """

    wall_ns: float
    spent_ns: float = 0.0
    tracing_ns: float = 0.0
    written_ns: float = 0.0
    fresh: int = 0
    by_hand_ns: float = 0.0

    def since(self, before: StepCost) -> StepCost:
        """What came to it since a moment of the run; not more than has passed."""
        wall_ns = max(self.wall_ns - before.wall_ns, 0.0)
        return StepCost(
            wall_ns,
            min(self.spent_ns - before.spent_ns, wall_ns),
            self.tracing_ns - before.tracing_ns,
            min(self.written_ns - before.written_ns, wall_ns),
            self.fresh - before.fresh,
            self.by_hand_ns - before.by_hand_ns,
        )

    @property
    def clean(self) -> bool:
        """Whether the writer hardly disturbed it."""
        return self.written_ns < _CLEAN * self.wall_ns

    @property
    def rest_ns(self) -> float:
        """The unmeasured time: the program itself, making events, and what the writer takes."""
        return max(self.wall_ns - self.spent_ns, 0.0)

    @property
    def plain_ns(self) -> float:
        """The time of a reference; of one that the writer disturbed, with all that it may have."""
        return self.rest_ns if self.clean else max(self.rest_ns - self.written_ns, 0.0)


Steps = deque[tuple[int, StepCost]]


class CostModel:
    """Estimates from the steps of a run.

    Attributes:
        tracing: What observed steps take beyond what is measured, as a multiple of what making the
            events is assumed to take; the writer meanwhile is part of it.
        defining_ns: What the first execution of a node takes besides.
        disturbed_ns: What an unobserved step takes more that is no reference.
        plain_ns: What a step takes unobserved, as it is now.
    """

    def __init__(self) -> None:
        self.tracing = 1.0
        self.defining_ns = DEFINING_NS
        self.disturbed_ns = self.plain_ns = 0.0
        self._steps: dict[Kind, Steps] = {
            "observed": deque(maxlen=_MOST_KEPT),
            "reference": deque(maxlen=_MOST_KEPT),
            "disturbed": deque(maxlen=_MOST_KEPT),
        }
        self._recent: deque[tuple[Kind, StepCost]] = deque(maxlen=_RECENT)
        self._first: deque[StepCost] = deque([StepCost(0.0)], maxlen=COMPARED)

    @property
    def references(self) -> int:
        """Steps that show the program's own time."""
        return len(self._steps["reference"])

    @property
    def compared(self) -> int:
        """Observed steps that references can be compared with."""
        return len(self._steps["observed"])

    def add(self, step: int, kind: Kind, took: StepCost) -> None:
        """A step has ended."""
        if kind == "observed" and (step <= WARM or took.fresh):
            self._first.append(took)
        else:
            self._steps[kind].append((step, took))
            self._recent.append((kind, took))

    def cost_ns(self) -> float:
        """The current cost of observing a step, without its effect on later ones."""
        recent = [took for _, took in self._steps["observed"]][-COMPARED:] or [self._first[-1]]
        spent = median([took.spent_ns for took in recent])
        if not self.references:  # in which writing is not yet part of tracing
            spent += median([took.written_ns for took in recent])
        return spent + self.tracing * median([took.tracing_ns for took in recent])

    def compare(self) -> None:
        """Compare the steps of each kind that ran in the same period."""
        if self.references:
            # The same stretch of both, for programs whose steps grow.
            kinds = [list(self._steps[kind]) for kind in ("observed", "reference")]
            kinds = [kind for kind in kinds if kind]
            since = min(kind[-COMPARED:][0][0] for kind in kinds)
            since = max([since, *(kind[0][0] for kind in kinds if len(kind) == _MOST_KEPT)])
            plain = sorted(took.plain_ns for took in self._since("reference", since, COMPARED // 2))
            observed = self._since("observed", since)
            priced = median([took.tracing_ns for took in observed]) if observed else 0.0
            if priced >= 1:  # a nanosecond; less is no work that could be measured
                self.tracing = _more((took.rest_ns for took in observed), plain) / priced
            disturbed = self._since("disturbed", since)
            if len(disturbed) >= _FEW:
                self.disturbed_ns = _more((took.rest_ns for took in disturbed), plain)
            fresh = sum(took.fresh for took in self._first)
            if fresh:  # a first step also compiles, imports and fills caches
                beyond = sum(self._own_ns("observed", took) for took in self._first)
                beyond = max(beyond - len(self._first) * median(plain), 0.0)
                self.defining_ns = min(beyond / fresh, _MOST_DEFINING_NS)
        recent = [*self._recent] or [("observed", self._first[-1])]
        self.plain_ns = median([self._own_ns(*step) for step in recent])

    def _own_ns(self, kind: Kind, took: StepCost) -> float:
        """The time of a step without what observing took."""
        if kind == "reference":
            own_ns = took.plain_ns
        elif kind == "disturbed":
            own_ns = took.rest_ns - self.disturbed_ns
        else:
            own_ns = took.rest_ns - self.tracing * took.tracing_ns
            if not self.references:
                own_ns -= took.written_ns
        return max(own_ns, took.wall_ns / 50)

    def _since(self, kind: Kind, since: int, at_least: int = 0) -> list[StepCost]:
        """Those from a step on, but at least so many of the last."""
        steps = self._steps[kind]
        many = max(sum(step >= since for step, _ in steps), at_least)
        return [took for _, took in list(steps)[-many:]] if many else []


def _more(times: Iterable[float], plain: Sequence[float]) -> float:
    """The extra time of steps over references, which are in order; at least 0."""
    ordered = sorted(times)
    extra = fmean([_quantile(ordered, share) - _quantile(plain, share) for share in _QUANTILES])
    return max(extra, 0.0)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of numbers in order, with what lies between two of them."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
