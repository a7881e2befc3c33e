"""Baseline: estimates the cost of observing a step by comparing observed with unobserved steps.

An unobserved step takes the program's own time, once caches are warm: the first ones after an
observed step find them cold. Warm steps are references; compared with them, observed steps show the
cost of observing. Its input is the time of each step; it reads no clock.

Invariant: robust: a disturbance of a few steps has no effect; only what most steps of a kind have
in common counts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

# Steps before this one are warm-up and are not compared.
WARM: Final = 2
COMPARED: Final = 12
"""Steps are compared over a stretch with at least about this many observed and unobserved ones."""
_MOST_KEPT: Final = 256
# The current time of a step is the median of this many recent ones.
_RECENT: Final = 24
_FEW: Final = 3
# Not the median: where two kinds of steps alternate, it may be either. The cost of observing varies
# with the writer's activity, so its mean lies above its median.
_QUANTILES: Final = (0.2, 0.3, 0.7, 0.75, 0.8)
# A step is clean if the writer used less than this share of it.
_CLEAN: Final = 0.04
# Upper limit of the program's loss per nanosecond of the writer.
_MOST_CONTENTION: Final = 2.5
# What meeting a node takes is at most so many times what it was measured to take on this machine.
_MOST_DEFINING: Final = 10.0


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


class Baseline:
    """Estimates from the steps of a run.

    Args:
        defining_ns: What the first execution of a node takes besides, until it is measured.

    Attributes:
        tracing: What making events takes, by the price list; with it, what writing takes from
            steps that are observed.
        contention: What a nanosecond of the writer takes from a step that is left out.
        settling_ns: What a step takes more if it follows an observed one.
        defining_ns: What the first execution of a node takes besides.
        plain_ns: What a step takes unobserved, as it is now; 0 without a reference.
    """

    def __init__(self, *, defining_ns: float = 0.0) -> None:
        self.tracing = self.contention = 1.0
        self.settling_ns = self.plain_ns = 0.0
        self.price(defining_ns)
        # By step: what references took, with the writer's part; observed ones; unsettled ones.
        self._plain: deque[tuple[int, float, float]] = deque(maxlen=_MOST_KEPT)
        self._seen: deque[tuple[int, StepCost]] = deque(maxlen=_MOST_KEPT)
        self._unsettled: deque[tuple[int, StepCost]] = deque(maxlen=_MOST_KEPT)
        self._spent: deque[float] = deque(maxlen=COMPARED // 2)
        self._first: list[StepCost] = []  # steps that met new nodes, before anything was known
        self._before_lighter = 0.0
        self._lighter_since = 0

    def price(self, defining_ns: float) -> None:
        """What the first execution of a node takes besides, until it is measured here."""
        self.defining_ns = self._priced_defining_ns = defining_ns

    def __len__(self) -> int:
        return len(self._plain)

    @property
    def compared(self) -> int:
        """Observed steps that references can be compared with."""
        return len(self._seen)

    def observed(self, step: int, took: StepCost) -> None:
        """A step was observed."""
        if step <= WARM or took.fresh:
            self._first.append(took)
            if len(self._first) > COMPARED:
                del self._first[0]
        else:
            self._seen.append((step, took))
        self._spent.append(took.spent_ns)

    def left_out(self, step: int, took: StepCost, *, settled: bool, count: int = 1) -> None:
        """A step was left out, or some in a row, which are no references."""
        if count > 1:
            return
        if settled:
            wall = max(took.wall_ns - took.spent_ns, 0.0)
            self._plain.append((step, wall, took.written_ns))
        else:
            self._unsettled.append((step, took))

    def lighter(self, step: int, share: float) -> None:
        """Less is recorded from this step on: ``share`` of the previous cost."""
        self._lighter_since = step
        if self._spent:
            self._before_lighter = share * median(self._spent)
        self._spent.clear()

    def cost_ns(self) -> float:
        """The current cost of observing a step, without its effect on later ones."""
        recent = self._recent()
        if not recent:
            return 0.0
        spent = median(self._spent) if self._spent else self._before_lighter
        if not self._plain:  # the price list knows nothing of writing
            spent += median([step.written_ns for step in recent])
        return spent + self.tracing * median([step.tracing_ns for step in recent])

    def typical_ns(self, cost_ns: float) -> float:
        """The time of an unobserved step; without a reference, by the price list."""
        if self._plain:
            return self.plain_ns
        recent = self._recent()
        if not recent:
            return 0.0
        wall = median([step.wall_ns for step in recent])
        return max(wall - cost_ns, wall / 50)

    def compare(self, steps: int) -> None:
        """Compare steps of the same period; ``steps`` is their number so far."""
        if not self._plain:
            return
        self._contend()
        kinds = (list(self._seen), list(self._plain))
        # The same stretch of both, for programs whose steps grow.
        since = min([kind[-COMPARED:][0][0] for kind in kinds if kind])
        since = max([since, *(kind[0][0] for kind in kinds if len(kind) == _MOST_KEPT)])
        of_then = sum(entry[0] >= since for entry in kinds[1])
        plain = self._undisturbed(kinds[1][-max(of_then, COMPARED // 2) :])
        observed = [took for step, took in kinds[0] if step >= since]
        lighter = [took for step, took in kinds[0] if step >= self._lighter_since]
        if len(lighter) >= _FEW:
            observed = observed[-len(lighter) :]
        if observed:
            priced = median([took.tracing_ns for took in observed])
            if priced >= 1:  # a nanosecond; less is no work that could be measured
                extra = _more(sorted([_rest(took) for took in observed]), plain)
                self.tracing = max(extra, 0.0) / priced
        unsettled = [self._quiet(took) for step, took in self._unsettled if step >= since]
        if len(unsettled) >= _FEW:
            self.settling_ns = max(_more(sorted(unsettled), plain), 0.0)
        fresh = sum(took.fresh for took in self._first)
        if fresh:  # a first step also compiles, imports and fills caches
            most = _MOST_DEFINING * self._priced_defining_ns or math.inf
            unexplained = sum(_rest(took) - self.tracing * took.tracing_ns for took in self._first)
            rest = max(unexplained - len(self._first) * _quantile(plain, 0.5), 0.0)
            self.defining_ns = min(rest / fresh, most)
        last = steps - _RECENT
        now = [wall - self.contention * written for step, wall, written in self._plain
               if step > last]  # fmt: skip
        now += [self._quiet(took) - self.settling_ns for step, took in self._unsettled
                if step > last]  # fmt: skip
        now += [_rest(took) - self.tracing * took.tracing_ns for step, took in kinds[0]
                if step > last]  # fmt: skip
        least = median([wall for _, wall, _ in self._plain]) / 50
        self.plain_ns = max(median(now), least) if now else self.plain_ns

    def _recent(self) -> list[StepCost]:
        return [took for _, took in list(self._seen)[-COMPARED:]] or self._first

    def _quiet(self, took: StepCost) -> float:
        """The time of an unobserved step without the writer's effect."""
        return _rest(took) - self.contention * took.written_ns

    def _contend(self) -> None:
        """Estimate the writer's effect on unobserved steps."""
        clean = [wall for _, wall, written in self._plain if written < _CLEAN * wall]
        if len(clean) < _FEW or len(clean) == len(self._plain):
            return
        free = median(clean)
        rates = sorted(
            [
                ((wall - free) / written, written)
                for _, wall, written in self._plain
                if written > 0 and written >= _CLEAN * wall
            ]
        )
        if len(rates) >= _FEW:
            middle = rates[len(rates) // 10 : len(rates) - len(rates) // 10]
            total = sum(written for _, written in middle)
            share = sum(rate * written for rate, written in middle) / total
            self.contention = min(max(share, 0.0), _MOST_CONTENTION)

    def _undisturbed(self, plain: Sequence[tuple[int, float, float]]) -> list[float]:
        """The times of references in ascending order: of clean ones, if there are enough."""
        clean = [wall for _, wall, written in plain if written < _CLEAN * wall]
        if len(clean) < _FEW:
            clean = [max(wall - self.contention * written, 0.0) for _, wall, written in plain]
        return sorted(clean)


def _rest(took: StepCost) -> float:
    """The unmeasured time of a step: the program itself, and making events."""
    return took.wall_ns - took.spent_ns


def _more(observed: Sequence[float], plain: Sequence[float]) -> float:
    """The extra time of observed steps over unobserved ones; both ascending."""
    return median([_quantile(observed, q) - _quantile(plain, q) for q in _QUANTILES])


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of numbers in order, with what lies between two of them."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
