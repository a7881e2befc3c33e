"""Cost model: what observing takes from a program, by comparing its steps.

An unobserved step takes the program's own time, once caches are warm and the writer stands still:
such steps are references. Observed ones, and those that run unobserved soon after, take more.
Its input is the time of each step; it reads no clock.

Invariant: robust: a disturbance of a few steps has no effect; only what most steps of a kind have
in common counts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

import msgspec

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
# What meeting a node takes is at most so many times what it was measured to take on this machine.
_MOST_DEFINING: Final = 10.0
# The cost of writing a byte of the queue until it is measured, in nanoseconds; the past fades.
_WRITING: Final = 5.0
_FADING: Final = 0.7


class StepCost(msgspec.Struct, frozen=True):
    """The cost of a step, or of a stretch between steps, in nanoseconds of the stepping thread.

    Attributes:
        wall_ns: From its start to the next one's, without time held by a debugger.
        spent_ns: Measured time in the recorder.
        tracing_ns: The cost of making the events by the price list; only proportions matter once
            there is a reference.
        written_ns: The writer's processor time meanwhile. It slows the program by an amount that
            depends on the machine: both share the interpreter's lock, and maybe a processor.
        fresh: Nodes defined in it.
    """

    wall_ns: float
    spent_ns: float = 0.0
    tracing_ns: float = 0.0
    written_ns: float = 0.0
    fresh: int = 0

    @property
    def clean(self) -> bool:
        """Whether the writer hardly disturbed it."""
        return self.written_ns < _CLEAN * self.wall_ns

    @property
    def rest_ns(self) -> float:
        """The unmeasured time: the program itself, making events, and what the writer takes."""
        return max(self.wall_ns - self.spent_ns, 0.0)


Steps = deque[tuple[int, StepCost]]


class CostModel:
    """Estimates from the steps of a run.

    Args:
        defining_ns: What the first execution of a node takes besides, until it is measured.

    Attributes:
        tracing: What observed steps take beyond what is measured, as a multiple of the price list:
            making events, and the writer meanwhile.
        disturbed_ns: What an unobserved step takes more that is no reference.
        defining_ns: What the first execution of a node takes besides.
        plain_ns: What a step takes unobserved, as it is now; 0 without a reference.
    """

    def __init__(self, *, defining_ns: float = 0.0) -> None:
        self.tracing = 1.0
        self.disturbed_ns = self.plain_ns = 0.0
        self.price(defining_ns)
        self._references: Steps = deque(maxlen=_MOST_KEPT)
        self._observed: Steps = deque(maxlen=_MOST_KEPT)
        self._disturbed: Steps = deque(maxlen=_MOST_KEPT)
        self._first: Steps = deque(maxlen=COMPARED)  # steps that met new nodes

    def price(self, defining_ns: float) -> None:
        """What the first execution of a node takes besides, until it is measured here."""
        self.defining_ns = self._priced_defining_ns = defining_ns

    @property
    def references(self) -> int:
        """Steps that show the program's own time."""
        return len(self._references)

    @property
    def compared(self) -> int:
        """Observed steps that references can be compared with."""
        return len(self._observed)

    def observed(self, step: int, took: StepCost) -> None:
        """A step was observed."""
        (self._first if step <= WARM or took.fresh else self._observed).append((step, took))

    def left_out(self, step: int, took: StepCost, *, reference: bool) -> None:
        """A step was left out; ``reference``: nothing disturbed it."""
        (self._references if reference else self._disturbed).append((step, took))

    def cost_ns(self) -> float:
        """The current cost of observing a step, without its effect on later ones."""
        recent = self._recent()
        if not recent:
            return 0.0
        spent = median([took.spent_ns for took in recent[-COMPARED // 2 :]])
        if not self._references:  # the price list knows nothing of writing
            spent += median([took.written_ns for took in recent])
        return spent + self.tracing * median([took.tracing_ns for took in recent])

    def typical_ns(self, cost_ns: float) -> float:
        """The time of an unobserved step; without a reference, by the price list."""
        if self._references:
            return self.plain_ns
        recent = self._recent()
        if not recent:
            return 0.0
        wall = median([took.wall_ns for took in recent])
        return max(wall - cost_ns, wall / 50)

    def compare(self, steps: int) -> None:
        """Compare steps of the same period; ``steps`` is their number so far."""
        if not self._references:
            return
        # The same stretch of both, for programs whose steps grow.
        kinds = [list(kind) for kind in (self._observed, self._references) if kind]
        since = min(kind[-COMPARED:][0][0] for kind in kinds)
        since = max([since, *(kind[0][0] for kind in kinds if len(kind) == _MOST_KEPT)])
        plain = sorted(_plain(took) for took in _since(self._references, since, COMPARED // 2))
        observed = _since(self._observed, since)
        if observed:
            priced = median([took.tracing_ns for took in observed])
            if priced >= 1:  # a nanosecond; less is no work that could be measured
                extra = _more(sorted(took.rest_ns for took in observed), plain)
                self.tracing = max(extra, 0.0) / priced
        disturbed = _since(self._disturbed, since)
        if len(disturbed) >= _FEW:
            extra = _more(sorted(took.rest_ns for took in disturbed), plain)
            self.disturbed_ns = max(extra, 0.0)
        fresh = sum(took.fresh for _, took in self._first)
        if fresh:  # a first step also compiles, imports and fills caches
            most = _MOST_DEFINING * self._priced_defining_ns or math.inf
            unexplained = sum(self._undone(took) for _, took in self._first)
            rest = max(unexplained - len(self._first) * _quantile(plain, 0.5), 0.0)
            self.defining_ns = min(rest / fresh, most)
        now = [
            *map(_plain, _since(self._references, steps - _RECENT + 1)),
            *(self._undone(took) for took in _since(self._observed, steps - _RECENT + 1)),
            *(took.rest_ns - self.disturbed_ns
              for took in _since(self._disturbed, steps - _RECENT + 1)),
        ]  # fmt: skip
        if now:
            self.plain_ns = max(median(now), _quantile(plain, 0.5) / 50)

    def _undone(self, took: StepCost) -> float:
        """The time of an observed step without what observing took."""
        return took.rest_ns - self.tracing * took.tracing_ns

    def _recent(self) -> list[StepCost]:
        return [took for _, took in list(self._observed or self._first)[-COMPARED:]]


class WritingCost:
    """Charges the writer's work to the stretch of the run that asked for it."""

    def __init__(self) -> None:
        self._rate = _WRITING  # nanoseconds of the writer for a byte of the queue
        self._queued = 0
        self._done = self._written = 0.0

    def charge(self, written_ns: float, weight: int, queued: int) -> float:
        """The nanoseconds of writing that a window asked for, done or not.

        Args:
            written_ns: Processor time of the writer in the window.
            weight: Bytes that went into the queue.
            queued: Bytes in the queue at its end.
        """
        self._done += max(self._queued + weight - queued, 0)
        self._written += written_ns
        self._queued = queued
        if self._done and self._written:
            self._rate = self._written / self._done
        # The past fades: costs change with what is recorded.
        self._done *= _FADING
        self._written *= _FADING
        return weight * self._rate


def _since(steps: Steps, since: int, at_least: int = 0) -> list[StepCost]:
    """Those from a step on, but at least so many of the last."""
    many = max(sum(step >= since for step, _ in steps), at_least)
    return [took for _, took in list(steps)[-many:]] if many else []


def _plain(took: StepCost) -> float:
    """The time of a reference; of one that the writer disturbed, with all that it may have."""
    return took.rest_ns if took.clean else max(took.rest_ns - took.written_ns, 0.0)


def _more(observed: Sequence[float], plain: Sequence[float]) -> float:
    """The extra time of steps over references; both ascending."""
    return fmean([_quantile(observed, share) - _quantile(plain, share) for share in _QUANTILES])


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of numbers in order, with what lies between two of them."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
