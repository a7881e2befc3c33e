"""Stepping: which training steps are observed, so that a run keeps to a slowdown.

A step that is left out takes what the program itself takes; beside it, an observed one tells what
observing costs. It is fed with what each step took, and asked before each whether it may be
observed. It reads no clock.

Invariant: what the steps that may be left out are expected to cost more than plain ones is paid
from what the limit allows of those before them, and never from what it will allow.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

# Of what the limit allows, what is used; and while the run so far is above the limit.
_SHARE: Final = 0.95
_OWING: Final = 0.25
# Steps before this one warm up, so that none of them is a reference.
_WARM: Final = 2
# Observed and plain steps are compared over a stretch with about so many of each at least.
_COMPARED: Final = 12
_MOST_KEPT: Final = 512
# What a step takes now is what so many took last.
_RECENT: Final = 24
_FEW: Final = 3
# Not in the middle: where every second step is another one, the median is either.
_QUANTILES: Final = (0.1, 0.2, 0.3, 0.7, 0.8)
# Where all steps may be observed, one of so many is a reference: at first, later, and where the
# limit is far away.
_SOON: Final = 8
_LATER: Final = 64
_RARELY: Final = 512
_FIRST_REFERENCES: Final = 6
# Without a reference the price list may be wrong by this factor.
_DOUBT: Final = 4.0
# What is above this share of what the limit allows is no longer far below it.
_FAR: Final = 0.3
# After less is recorded, observed steps are taken to record so much of what they did.
_LIGHTER: Final = 0.3
_FADING: Final = 0.9
_MOST_SAVED: Final = 3.0
# A plain step is clean if the writer took less than this share of it.
_CLEAN: Final = 0.04
# What a nanosecond of the writer takes from the program, at most.
_MOST_CONTENTION: Final = 2.5
# At first it is compared after each step, then after every so manieth.
_COMPARING: Final = 8


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


class Stepping:
    """Decides about the steps of a run.

    Args:
        limit: The slowdown.
        defining_ns: What the first execution of a node takes besides, until it is measured.
    """

    def __init__(self, limit: float, *, defining_ns: float = 0.0) -> None:
        self.limit = limit
        self.steps = self.left_out = 0
        self.tracing = 1.0
        """What making events takes, by the price list: measured, once there are references."""
        self._defining_ns = defining_ns
        self.contention = 1.0
        """What a nanosecond of the writer takes from the program."""
        self._plain: deque[tuple[int, float, float]] = deque(maxlen=_MOST_KEPT)  # wall, written
        self._seen: deque[tuple[int, Took]] = deque(maxlen=_MOST_KEPT)
        self._spent: deque[float] = deque(maxlen=_COMPARED // 2)
        self._first: list[Took] = []  # steps that met new nodes, before anything was known
        self.cost_ns = 0.0
        """What observing the next step is expected to take."""
        self._plain_ns = 0.0  # of a step, as it is now
        self._before_lighter = 0.0
        self._recent_written, self._writers = 0.0, 0.0
        # Sums over the run: of all that was observed, and of what was left out.
        self._wall = self._spent_sum = self._tracing_sum = self._written_sum = 0.0
        self._fresh_sum = 0
        self._own_ns = 0.0
        self.saved_ns = 0.0
        """What may be spent on observing steps, saved up from those before."""
        self.only_measured = False
        """Whether the next step, if it is left out, is only left out to be measured."""
        self._since_plain = 0
        self._dice = random.Random(7)
        self._patience = self._dice.random()

    # ------------------------------------------------------------ what is known

    @property
    def measured(self) -> bool:
        """Whether a step that was left out tells what the program takes."""
        return bool(self._plain)

    @property
    def program_ns(self) -> float:
        """What the program took, or would have taken."""
        return max(self._wall - self._extra_inside, self._wall / 100)

    @property
    def extra_ns(self) -> float:
        """What was taken from it."""
        return self._own_ns + self._wall - self.program_ns

    @property
    def slowdown(self) -> float:
        """Of the run so far; 1 before anything was seen."""
        program = self.program_ns
        return 1 + self.extra_ns / program if program > 0 else 1.0

    @property
    def of_observed(self) -> float:
        """The slowdown of a step that is observed, as things are."""
        plain = self._typical
        return 1 + self.cost_ns / plain if plain > 0 else 1.0

    def _cost(self) -> float:
        if not self._seen and not self._first:
            return 0.0
        recent = [each for _, each in self._last_seen()] or self._first
        spent = median(self._spent) if self._spent else self._before_lighter
        tracing = self.tracing * median([each.tracing_ns for each in recent])
        return spent + tracing + self.contention * self._recent_written / max(self._writers, 1.0)

    @property
    def share(self) -> float:
        """About which share of the steps may be observed."""
        cost = self.cost_ns
        return min(_SHARE * (self.limit - 1) * self._typical / cost, 1.0) if cost > 0 else 1.0

    @property
    def defining_ns(self) -> float:
        """What the first execution of a node takes besides."""
        return self._defining_ns

    @property
    def _typical(self) -> float:
        """What a step takes unobserved; without a reference, by the price list."""
        if self._plain:
            return self._plain_ns
        recent = [each for _, each in self._last_seen()] or self._first
        if not recent:
            return 0.0
        wall = median([each.wall_ns for each in recent])
        return max(wall - self.cost_ns, wall / 50)

    @property
    def _extra_inside(self) -> float:
        return (
            self._spent_sum
            + self.tracing * self._tracing_sum
            + self.contention * self._written_sum
            + self._defining_ns * self._fresh_sum
        )

    # ------------------------------------------------------------ what happened

    def observed(self, took: Took) -> None:
        """A step was observed."""
        self.steps += 1
        self._since_plain += 1
        self.outside(took)
        self._recent_written = _FADING * self._recent_written + took.written_ns
        self._writers = _FADING * self._writers + 1
        if self.steps <= _WARM or took.fresh:
            self._first.append(took)
            if len(self._first) > _COMPARED:
                del self._first[0]
        else:
            self._seen.append((self.steps, took))
        self._spent.append(took.spent_ns)
        self._ended()
        self.saved_ns = max(self.saved_ns - self.cost_ns, 0.0)
        self._patience = self._dice.random()

    def skipped(self, took: Took) -> None:
        """A step was left out; ``spent_ns`` is what its beginning and end took."""
        self.steps += 1
        self.left_out += 1
        self._since_plain = 0
        self.outside(took)
        self._plain.append((self.steps, max(took.wall_ns - took.spent_ns, 0.0), took.written_ns))
        self._recent_written += took.written_ns
        self._ended()

    def outside(self, took: Took) -> None:
        """Something ran that belongs to no step."""
        self._wall += took.wall_ns
        self._spent_sum += took.spent_ns
        self._tracing_sum += took.tracing_ns
        self._written_sum += took.written_ns
        self._fresh_sum += took.fresh

    def own(self, nanoseconds: float) -> None:
        """So much was taken between steps, for deciding about them."""
        self._own_ns += nanoseconds

    def lighter(self) -> None:
        """Less is recorded of nodes from now on, or more: what was spent is no guide any more."""
        if self._spent:
            self._before_lighter = _LIGHTER * median(self._spent)
        self._spent.clear()
        self.cost_ns = self._cost()

    # ------------------------------------------------------------ what follows

    def wants(self) -> bool:
        """Whether the next step may be observed."""
        self.only_measured = False
        if self.steps < _WARM:
            return True
        allowed = (self.limit - 1) * self._typical
        cost = self.cost_ns
        if not self._plain:
            return _DOUBT * cost < allowed
        if len(self._seen) < 2 and self.steps < 2 * _WARM + 2:
            return self._since_plain == 0  # at first in turns, to have something to compare
        owing = self.extra_ns > (self.limit - 1) * self.program_ns
        if cost < _SHARE * allowed and not owing:
            often = _RARELY if cost < _FAR * allowed else _LATER
            if len(self._plain) < _FIRST_REFERENCES:
                often = _SOON  # a few may be steps of another kind
            self.only_measured = self._since_plain >= often
            return not self.only_measured
        # Not at regular distances: every second step of a program may be another one.
        return self.saved_ns >= cost * (1 + self._patience)

    def _ended(self) -> None:
        """Another step has passed: so much may be spent on later ones."""
        if self.steps <= 4 * _COMPARING or not self.steps % _COMPARING:
            self._compare()
        self.cost_ns = self._cost()
        owing = self.extra_ns > (self.limit - 1) * self.program_ns
        share = _OWING if owing else _SHARE
        most = _MOST_SAVED * self.cost_ns
        self.saved_ns = min(self.saved_ns + share * (self.limit - 1) * self._typical, most)

    def _compare(self) -> None:
        """Compare observed steps with plain ones of the same time."""
        if not self._plain:
            return
        self._contend()
        seen = list(self._seen)
        # The same stretch of both, for programs whose steps grow.
        since = min([each[-_COMPARED:][0][0] for each in (seen, list(self._plain)) if each])
        if len(seen) == _MOST_KEPT:
            since = max(since, seen[0][0])
        if len(self._plain) == _MOST_KEPT:
            since = max(since, self._plain[0][0])
        plain = self._undisturbed([each for each in self._plain if each[0] >= since])
        found = [each for step, each in seen if step >= since]
        if found and plain:
            rests = sorted(map(self._rest, found))
            priced = median([each.tracing_ns for each in found])
            if priced >= 1:  # a nanosecond; less is no work that could be measured
                more = median([_quantile(rests, q) - _quantile(plain, q) for q in _QUANTILES])
                self.tracing = max(more, 0.0) / priced
        fresh = sum(each.fresh for each in self._first)
        if fresh:
            rest = sum(self._rest(each) - self.tracing * each.tracing_ns for each in self._first)
            self._defining_ns = max(rest - len(self._first) * _quantile(plain, 0.5), 0.0) / fresh
        last = self.steps - _RECENT
        now = [wall - self.contention * written for step, wall, written in self._plain
               if step > last]  # fmt: skip
        now += [self._rest(each) - self.tracing * each.tracing_ns for step, each in seen
                if step > last]  # fmt: skip
        least = median([wall for _, wall, _ in self._plain]) / 50
        self._plain_ns = max(median(now), least) if now else self._plain_ns

    def _last_seen(self) -> list[tuple[int, Took]]:
        return list(self._seen)[-_COMPARED:]

    def _rest(self, took: Took) -> float:
        """What a step took besides what is known: the program, and the making of events."""
        return took.wall_ns - took.spent_ns - self.contention * took.written_ns

    def _contend(self) -> None:
        """Find out what the writer takes from plain steps."""
        clean = [wall for _, wall, written in self._plain if written < _CLEAN * wall]
        if len(clean) < _FEW or len(clean) == len(self._plain):
            return
        free = median(clean)
        found = [
            (wall - free) / written
            for _, wall, written in self._plain
            if written > 0 and written >= _CLEAN * wall
        ]
        if len(found) >= _FEW:
            self.contention = min(max(median(found), 0.0), _MOST_CONTENTION)

    def _undisturbed(self, plain: Sequence[tuple[int, float, float]]) -> list[float]:
        """What plain steps took, in order: the clean ones, if there are a few."""
        clean = [wall for _, wall, written in plain if written < _CLEAN * wall]
        if len(clean) < _FEW:
            clean = [max(wall - self.contention * written, 0.0) for _, wall, written in plain]
        return sorted(clean)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of numbers in order, with what lies between two of them."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
