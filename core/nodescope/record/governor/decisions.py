"""Governor: decides which nodes are recorded with less, so that a run stays below a slowdown limit.

Its input is the cost of each stretch of the run, node by node; its output the nodes to lower or to
raise. It reads no clock and touches no recording.

Invariant: no node is ever above its ceiling, and one that was set by hand is not touched. A node
that was raised too early waits twice as long the next time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from nodescope.events import Level

Rung = Literal["values", "summary", "timing", "graph", "thinned", "counted"]
"""A level, or below: ``thinned`` keeps the times of every tenth execution, ``counted`` none."""

EVERY: Final = 10
"""One in this many executions of a thinned node is recorded."""

# Shares of the allowance. Above the whole of it, nodes are lowered until the first share is used;
# after a period below the second, the cheapest are raised.
_GOAL: Final = 0.8
_RAISE_BELOW: Final = 0.7
_CALM_NS: Final = 2_000_000_000
# While the run as a whole is above the limit, only this share is used, so that it falls back.
_OWING: Final = 0.5
_MOST_PATIENCE_NS: Final = 600_000_000_000
# A lowering that saves less than this share of the allowance is not worth a change.
_WORTH: Final = 0.001
_LADDERS: Final[dict[Level, tuple[Rung, ...]]] = {
    "values": ("values", "summary", "timing", "thinned", "counted"),
    "summary": ("summary", "timing", "thinned", "counted"),
    "timing": ("timing", "thinned", "counted"),
    "graph": ("graph", "counted"),
}
# Approximate cost in nanoseconds per execution, per output and per byte. Only the proportions
# matter: measurements scale them.
_Price = tuple[float, float, float]
_OBSERVING: Final[dict[Rung, _Price]] = {
    "values": (1500.0, 800.0, 0.2),
    "summary": (1500.0, 600.0, 0.2),
    "timing": (1200.0, 0.0, 0.0),
    "graph": (1200.0, 0.0, 0.0),
    "thinned": (600.0, 0.0, 0.0),
    "counted": (500.0, 0.0, 0.0),
}
_WRITING: Final[dict[Rung, _Price]] = {
    "values": (1500.0, 10_000.0, 1.6),
    "summary": (1500.0, 6000.0, 0.6),
    "timing": (1500.0, 0.0, 0.0),
    "graph": (1500.0, 0.0, 0.0),
    "thinned": (150.0, 0.0, 0.0),
    "counted": (0.0, 0.0, 0.0),
}


def ladder(ceiling: Level) -> tuple[Rung, ...]:
    """The rungs below a level, starting with the level itself."""
    return _LADDERS[ceiling]


class Load(msgspec.Struct, frozen=True, gc=False):
    """The cost of one node in a window.

    Attributes:
        key: The node; nodes at their first execution share a load.
        name: The name for messages.
        rungs: Its ladder.
        rung: The node's place on it; 0 is its ceiling.
        runs: Executions.
        outputs, nbytes: Of all executions together.
        observing_ns: On the program's threads.
        by_hand: The user chose its level.
    """

    key: Hashable
    name: str
    rungs: tuple[Rung, ...]
    rung: int
    runs: int
    outputs: int = 0
    nbytes: int = 0
    observing_ns: int = 0
    by_hand: bool = False


class Window(msgspec.Struct, frozen=True):
    """A stretch of the run.

    Attributes:
        program_ns: The program's own time.
        observing_ns: Time spent on the program's threads, `loads` included.
        writing_ns: The writer's processor time for what was queued in this window.
        loads: The nodes that ran.
    """

    program_ns: int
    observing_ns: int
    writing_ns: int
    loads: Sequence[Load]


class Change(msgspec.Struct, frozen=True):
    """A node goes up or down its ladder; ``saved_ns`` (of the window) is negative for up."""

    load: Load
    rung: int
    saved_ns: float


class Verdict(msgspec.Struct, frozen=True):
    """The decision after a window.

    Attributes:
        before: Estimated slowdown in the window.
        after: Forecast of it with the changes.
        changes: One per node; all down or all up.
        stuck: Every node is at its lowest rung, and the forecast is above the limit.
        by_hand: Forecast without the cost of nodes whose level the user chose.
    """

    before: float
    after: float
    changes: tuple[Change, ...] = ()
    stuck: bool = False
    by_hand: float = 1.0


class _Known(msgspec.Struct):
    """Measurements of a node: its cost per execution by rung, and when it may be raised."""

    costs: dict[int, float] = msgspec.field(default_factory=dict)
    raised: bool = False
    patience_ns: int = _CALM_NS
    not_before_ns: int = 0

    def learn(self, rung: int, cost: float) -> None:
        """Add a measurement; scales the costs of the other rungs alike."""
        old = self.costs.get(rung, 0.0)
        if old > 0:
            share = (old + cost) / (2 * old)
            self.costs = {
                other_rung: share * other_cost for other_rung, other_cost in self.costs.items()
            }
        else:
            self.costs[rung] = cost


class Governor:
    """Keeps a run below a slowdown.

    Args:
        limit: The slowdown, such as 1.5.

    Raises:
        ValueError: It is not a number above 1.
    """

    def __init__(self, limit: float) -> None:
        if not 1 < limit < math.inf:
            raise ValueError(f"a slowdown must be a number above 1, not {limit!r}")
        self.limit = limit
        self._known: dict[Hashable, _Known] = {}
        self._now_ns = 0
        self._calm_since_ns = 0
        self._program_ns = 0
        self._extra_ns = 0
        self._writing = 1.0  # the cost of writing relative to the price list

    @property
    def slowdown(self) -> float:
        """Estimated slowdown of the run so far; 1 before the first window."""
        return _slowdown(self._program_ns, self._extra_ns)

    @property
    def extra_ns(self) -> int:
        """The total cost of observing and writing so far."""
        return self._extra_ns

    def look(self, window: Window) -> None:
        """Take a window into account without deciding anything."""
        program = max(window.program_ns, 0)
        extra = max(window.observing_ns, 0) + max(window.writing_ns, 0)
        self._program_ns += program
        self._extra_ns += extra
        self._now_ns += program + extra

    def decide(self, window: Window) -> Verdict:
        """Take a window into account, and decide on changes."""
        self.look(window)
        program = max(window.program_ns, 0)
        extra = max(window.observing_ns, 0) + max(window.writing_ns, 0)
        before = _slowdown(program, extra)
        if not program:
            return Verdict(before, before)
        costs = self._costs(window)
        room = (self.limit - 1) * program
        owing = self._extra_ns > (self.limit - 1) * self._program_ns
        if owing:
            room *= _OWING
        if extra > room:
            self._calm_since_ns = self._now_ns
            return self._lower(window, costs, program, extra, room)
        changes: list[Change] = []
        if not owing and extra < _RAISE_BELOW * room:
            if self._now_ns - self._calm_since_ns >= _CALM_NS:
                changes = self._raise(window, costs, _RAISE_BELOW * room - extra)
        else:
            self._calm_since_ns = self._now_ns
        if changes:
            self._calm_since_ns = self._now_ns
        after = extra - sum(change.saved_ns for change in changes)
        return Verdict(before, _slowdown(program, after), tuple(changes))

    def _costs(self, window: Window) -> list[float]:
        """The total cost of each load; also updates the measurements."""
        shares = [_price(_WRITING, load, load.rung) for load in window.loads]
        priced = sum(shares)
        if priced > 0 and window.writing_ns > 0:
            self._writing = window.writing_ns / priced
        costs = []
        for load, share in zip(window.loads, shares, strict=True):
            cost = max(load.observing_ns, 0) + share * self._writing
            costs.append(cost)
            if load.runs > 0:
                self._of(load).learn(load.rung, cost / load.runs)
        return costs

    def _lower(
        self, window: Window, costs: Sequence[float], program: int, extra: float, room: float
    ) -> Verdict:
        before = _slowdown(program, extra)
        rungs = [load.rung for load in window.loads]
        saved = [0.0] * len(rungs)
        heap: list[tuple[float, int]] = []
        least = _WORTH * room

        def offer(place: int) -> None:
            load = window.loads[place]
            if not load.by_hand and rungs[place] + 1 < len(load.rungs):
                now = costs[place] - saved[place]
                gain = now - self._forecast(load, costs[place], rungs[place] + 1)
                heapq.heappush(heap, (-max(gain, 0.0), place))

        for place in range(len(rungs)):
            offer(place)
        while heap and extra > _GOAL * room:
            gain, place = heapq.heappop(heap)
            # A rung that saves nothing is passed on the way to one that may.
            if -gain < least and extra <= room:
                break
            rungs[place] += 1
            saved[place] -= gain
            extra += gain
            offer(place)
        changes = [
            Change(load, rung, gain)
            for load, rung, gain in zip(window.loads, rungs, saved, strict=True)
            if rung != load.rung
        ]
        for change in changes:
            history = self._of(change.load)
            if history.raised:
                history.raised = False
                history.patience_ns = min(2 * history.patience_ns, _MOST_PATIENCE_NS)
            history.not_before_ns = self._now_ns + history.patience_ns
        after = _slowdown(program, extra)
        hands = sum(cost for load, cost in zip(window.loads, costs, strict=True) if load.by_hand)
        return Verdict(
            before,
            after,
            tuple(changes),
            stuck=after > self.limit,
            by_hand=_slowdown(program, extra - hands),
        )

    def _raise(self, window: Window, costs: Sequence[float], left: float) -> list[Change]:
        """Raise the cheapest nodes by one rung, as many as fit into ``left``."""
        offers = []
        for place, load in enumerate(window.loads):
            if load.by_hand or load.rung == 0 or not load.runs:
                continue
            if self._of(load).not_before_ns <= self._now_ns:
                added = self._forecast(load, costs[place], load.rung - 1) - costs[place]
                offers.append((max(added, 0.0), place))
        changes = []
        for added, place in sorted(offers):
            if added > left:
                break
            left -= added
            load = window.loads[place]
            self._of(load).raised = True
            changes.append(Change(load, load.rung - 1, -added))
        return changes

    def _forecast(self, load: Load, cost: float, rung: int) -> float:
        """The load's cost on another rung, as measured there or by the price list."""
        measured = self._of(load).costs.get(rung)
        if measured is not None:
            return measured * load.runs
        now = self._priced(load, load.rung)
        guess = cost * self._priced(load, rung) / now if now > 0 else 0.0
        return min(guess, cost) if rung > load.rung else max(guess, cost)

    def _priced(self, load: Load, rung: int) -> float:
        return _price(_OBSERVING, load, rung) + self._writing * _price(_WRITING, load, rung)

    def _of(self, load: Load) -> _Known:
        history = self._known.get(load.key)
        if history is None:
            history = self._known[load.key] = _Known()
        return history


def price_of_writing(loads: Iterable[Load]) -> float:
    """The cost of writing loads by the price list: a proportion, not a time."""
    return sum(_price(_WRITING, load, load.rung) for load in loads)


def _price(prices: dict[Rung, _Price], load: Load, rung: int) -> float:
    run, output, byte = prices[load.rungs[rung]]
    return run * load.runs + output * load.outputs + byte * load.nbytes


def _slowdown(program: float, extra: float) -> float:
    """The slowdown factor; infinite if the program itself took no time."""
    if extra <= 0:
        return 1.0
    return (program + extra) / program if program > 0 else math.inf
