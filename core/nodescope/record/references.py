"""References: what observing a step takes, found by comparing observed steps with others.

A step that is left out takes what the program itself takes, once the machine has settled: the first
ones after an observed step find cold caches. Settled ones are references; beside them, the others
tell what observing takes. It is fed with what each step took, and reads no clock.

Invariant: what one disturbance makes of a few steps moves nothing; only what most of a kind have in
common does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

# Steps before this one warm up, so that none of them is compared.
WARM: Final = 2
# Observed and left out ones are compared over a stretch with about so many of each at least.
_COMPARED: Final = 12
_MOST_KEPT: Final = 256
# What a step takes now is what so many took last.
_RECENT: Final = 24
_FEW: Final = 3
# Not in the middle: where every second step is another one, the median is either. What observing
# takes is more for some steps, as the writer is at work or not; its mean lies above its median.
_QUANTILES: Final = (0.2, 0.3, 0.7, 0.75, 0.8)
# A step is clean if the writer took less than this share of it.
_CLEAN: Final = 0.04
# What a nanosecond of the writer takes from the program, at most.
_MOST_CONTENTION: Final = 2.5


class Took(msgspec.Struct, frozen=True):
    """What a step took, or a stretch between steps. All in nanoseconds of the thread that steps.

    Attributes:
        wall_ns: From its start to the next one's, without what a debugger held.
        spent_ns: In the recorder, measured.
        tracing_ns: What making the events takes by the price list; only its proportion matters
            once there is a reference.
        written_ns: Processor time of the writer meanwhile. It slows the program, by how much
            depends on the machine: the two share the interpreter's lock, and maybe a processor.
        fresh: Nodes that were met for the first time.
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


class References:
    """What is known of the steps of a run.

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
        self.defining_ns = defining_ns
        # By step: what references took, with the writer's part; observed ones; unsettled ones.
        self._plain: deque[tuple[int, float, float]] = deque(maxlen=_MOST_KEPT)
        self._seen: deque[tuple[int, Took]] = deque(maxlen=_MOST_KEPT)
        self._unsettled: deque[tuple[int, Took]] = deque(maxlen=_MOST_KEPT)
        self._spent: deque[float] = deque(maxlen=_COMPARED // 2)
        self._first: list[Took] = []  # steps that met new nodes, before anything was known
        self._before_lighter = 0.0
        self._lighter_since = 0

    def __len__(self) -> int:
        return len(self._plain)

    @property
    def compared(self) -> int:
        """Observed steps that references can be compared with."""
        return len(self._seen)

    def observed(self, step: int, took: Took) -> None:
        """A step was observed."""
        if step <= WARM or took.fresh:
            self._first.append(took)
            if len(self._first) > _COMPARED:
                del self._first[0]
        else:
            self._seen.append((step, took))
        self._spent.append(took.spent_ns)

    def left_out(self, step: int, took: Took, *, settled: bool, count: int = 1) -> None:
        """A step was left out, or some in a row, which are no references."""
        if count > 1:
            return
        if settled:
            wall = max(took.wall_ns - took.spent_ns, 0.0)
            self._plain.append((step, wall, took.written_ns))
        else:
            self._unsettled.append((step, took))

    def lighter(self, step: int, share: float) -> None:
        """Less is recorded of nodes from this step on: so much of what was spent on it before."""
        self._lighter_since = step
        if self._spent:
            self._before_lighter = share * median(self._spent)
        self._spent.clear()

    def cost_ns(self) -> float:
        """What observing a step takes, as things are; without what it takes from later ones."""
        recent = self._recent()
        if not recent:
            return 0.0
        spent = median(self._spent) if self._spent else self._before_lighter
        if not self._plain:  # the price list knows nothing of writing
            spent += median([each.written_ns for each in recent])
        return spent + self.tracing * median([each.tracing_ns for each in recent])

    def typical_ns(self, cost_ns: float) -> float:
        """What a step takes unobserved; without a reference, by the price list."""
        if self._plain:
            return self.plain_ns
        recent = self._recent()
        if not recent:
            return 0.0
        wall = median([each.wall_ns for each in recent])
        return max(wall - cost_ns, wall / 50)

    def compare(self, steps: int) -> None:
        """Compare steps of the same time; so many there were."""
        if not self._plain:
            return
        self._contend()
        kinds = (list(self._seen), list(self._plain))
        # The same stretch of both, for programs whose steps grow.
        since = min([each[-_COMPARED:][0][0] for each in kinds if each])
        since = max([since, *(each[0][0] for each in kinds if len(each) == _MOST_KEPT)])
        of_then = sum(each[0] >= since for each in kinds[1])
        plain = self._undisturbed(kinds[1][-max(of_then, _COMPARED // 2) :])
        found = [each for step, each in kinds[0] if step >= since]
        lighter = [each for step, each in kinds[0] if step >= self._lighter_since]
        if len(lighter) >= _FEW:
            found = found[-len(lighter) :]
        if found:
            priced = median([each.tracing_ns for each in found])
            if priced >= 1:  # a nanosecond; less is no work that could be measured
                more = _more(sorted([_rest(each) for each in found]), plain)
                self.tracing = max(more, 0.0) / priced
        unsettled = [self._quiet(each) for step, each in self._unsettled if step >= since]
        if len(unsettled) >= _FEW:
            self.settling_ns = max(_more(sorted(unsettled), plain), 0.0)
        fresh = sum(each.fresh for each in self._first)
        if fresh:
            rest = sum(_rest(each) - self.tracing * each.tracing_ns for each in self._first)
            self.defining_ns = max(rest - len(self._first) * _quantile(plain, 0.5), 0.0) / fresh
        last = steps - _RECENT
        now = [wall - self.contention * written for step, wall, written in self._plain
               if step > last]  # fmt: skip
        now += [self._quiet(each) - self.settling_ns for step, each in self._unsettled
                if step > last]  # fmt: skip
        now += [_rest(each) - self.tracing * each.tracing_ns for step, each in kinds[0]
                if step > last]  # fmt: skip
        least = median([wall for _, wall, _ in self._plain]) / 50
        self.plain_ns = max(median(now), least) if now else self.plain_ns

    def _recent(self) -> list[Took]:
        return [each for _, each in list(self._seen)[-_COMPARED:]] or self._first

    def _quiet(self, took: Took) -> float:
        """What a step that was left out would have taken without the writer."""
        return _rest(took) - self.contention * took.written_ns

    def _contend(self) -> None:
        """Find out what the writer takes from steps that are left out."""
        clean = [wall for _, wall, written in self._plain if written < _CLEAN * wall]
        if len(clean) < _FEW or len(clean) == len(self._plain):
            return
        free = median(clean)
        found = sorted(
            [
                ((wall - free) / written, written)
                for _, wall, written in self._plain
                if written > 0 and written >= _CLEAN * wall
            ]
        )
        if len(found) >= _FEW:
            kept = found[len(found) // 10 : len(found) - len(found) // 10]
            share = sum(each * written for each, written in kept) / sum(each for _, each in kept)
            self.contention = min(max(share, 0.0), _MOST_CONTENTION)

    def _undisturbed(self, plain: Sequence[tuple[int, float, float]]) -> list[float]:
        """What references took, in order: the clean ones, if there are a few."""
        clean = [wall for _, wall, written in plain if written < _CLEAN * wall]
        if len(clean) < _FEW:
            clean = [max(wall - self.contention * written, 0.0) for _, wall, written in plain]
        return sorted(clean)


def _rest(took: Took) -> float:
    """What a step took besides what was measured: the program, and the making of events."""
    return took.wall_ns - took.spent_ns


def _more(some: Sequence[float], others: Sequence[float]) -> float:
    """How much more some take than others, both in order."""
    return median([_quantile(some, q) - _quantile(others, q) for q in _QUANTILES])


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of numbers in order, with what lies between two of them."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
