"""Node levels: which nodes of a program without training steps are recorded with less.

Where there are no steps to leave out, the costliest nodes are lowered, one rung at a time.

Invariant: no node is ever above its ceiling, and one whose level a person chose is not touched.
Every execution is counted once. A node that was raised too early waits twice as long the next time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from nodescope.events import Level
from nodescope.record.rows import LeftOut

Rung = Literal["values", "summary", "timing", "graph", "thinned", "counted"]
"""A level, or below: ``thinned`` keeps the times of every tenth execution, ``counted`` none."""

EVERY: Final = 10
"""One in this many executions of a thinned node is recorded."""

LADDERS: Final[dict[Level, tuple[Rung, ...]]] = {
    "values": ("values", "summary", "timing", "thinned", "counted"),
    "summary": ("summary", "timing", "thinned", "counted"),
    "timing": ("timing", "thinned", "counted"),
    "graph": ("graph", "counted"),
}
"""The rungs below a level, starting with the level itself."""

# What an execution costs on a rung, as a guess; only the proportions matter. One that is wrong is
# put right by the next decision.
_COSTS: Final[dict[Rung, float]] = {
    "values": 1.0, "summary": 0.6, "timing": 0.15, "graph": 0.15, "thinned": 0.05, "counted": 0.03
}  # fmt: skip
# Shares of the allowance. Above the whole of it, nodes are lowered until the first share is used;
# after a period below the second, the cheapest are raised.
_GOAL: Final = 0.8
_RAISE_BELOW: Final = 0.7
_CALM_NS: Final = 2_000_000_000
_MOST_PATIENCE_NS: Final = 600_000_000_000
# While the run as a whole is above the limit, only this share is used, so that it falls back.
_OWING: Final = 0.5
# A lowering that saves less than this share of the allowance is not worth a change.
_WORTH: Final = 0.001


class Account:
    """Cost and omissions of one node, or of the nodes of one op that have run only once.

    Args:
        node: Its id; 0 for several nodes.
        name: For messages.
        ceiling: The level that was asked for.
        outputs: Of one execution.
        by_hand: Whether a person chose that level.
        tracing_ns: What making the events of one execution takes, by the price list.
    """

    __slots__ = (
        "by_hand", "every", "left_out", "level", "n", "name", "node", "not_before_ns", "outputs",
        "patience_ns", "raised", "rung", "rungs", "runs", "seen", "skipped", "spent_ns",
        "tracing_ns", "weight",
    )  # fmt: skip

    def __init__(
        self, node: int, name: str, ceiling: Level, *, outputs: int, by_hand: bool = False,
        tracing_ns: float = 0.0,
    ) -> None:  # fmt: skip
        self.node, self.name, self.by_hand = node, name, by_hand
        self.outputs, self.tracing_ns = outputs, tracing_ns
        self.rungs = LADDERS[ceiling]
        self.runs = [0] * len(self.rungs)  # executions since the run began, by rung
        self.left_out = 0
        self.skipped = 0  # of these, since the last row
        self.n = self.seen = 0  # executions on this rung; those of earlier windows
        self.spent_ns = self.weight = 0  # of this window: its cost, and bytes for the writer
        self.raised = False
        self.patience_ns, self.not_before_ns = _CALM_NS, 0
        self.rung = 0
        self.place(0)

    def place(self, rung: int) -> None:
        """Move to a rung."""
        self.runs[self.rung] += self.n
        self.n = self.seen = 0
        self.rung, name = rung, self.rungs[rung]
        self.every = 0 if name == "counted" else EVERY if name == "thinned" else 1
        self.level: Level = "timing" if name == "counted" or name == "thinned" else name

    def close_window(self) -> None:
        """The window ends here; another one begins."""
        self.seen, self.spent_ns, self.weight = self.n, 0, 0

    def values(self) -> int:
        """Outputs so far whose statistics were asked for."""
        runs = sum(self.runs) + self.n
        return self.outputs * runs if self.rungs[0] in ("values", "summary") else 0

    def missing(self) -> LeftOut:
        """The omissions so far."""
        runs = list(self.runs)
        runs[self.rung] += self.n
        top = self.rungs[0]
        below = [self.outputs * executions for executions in runs[1:]]
        summaries = {"values": sum(below[1:]), "summary": sum(below)}.get(top, 0)
        return LeftOut(
            node=self.node, name=self.name, level=top, now=self.rungs[self.rung], runs=sum(runs),
            executions=self.left_out, summaries=summaries,
            arrays=sum(below) if top == "values" else 0,
        )  # fmt: skip


class Window(msgspec.Struct, frozen=True):
    """A stretch of the run, in nanoseconds.

    Attributes:
        program_ns: The program's own time.
        observing_ns: Time spent on the program's threads, that of `accounts` included.
        writing_ns: The writer's processor time for what was queued in this window.
        accounts: Of the nodes that ran.
    """

    program_ns: float
    observing_ns: float
    writing_ns: float
    accounts: Sequence[Account]


class Change(msgspec.Struct, frozen=True):
    """A node goes from a rung to another; ``saved_ns`` (of the window) is negative for up."""

    account: Account
    before: int
    rung: int
    saved_ns: float


class Verdict(msgspec.Struct, frozen=True):
    """The decision after a window.

    Attributes:
        before: Estimated slowdown in the window.
        after: Forecast of it with the changes.
        changes: One per node; all down or all up.
        stuck: Every node is at its lowest rung, and the forecast is above the limit.
        by_hand: Forecast without the cost of nodes whose level a person chose.
    """

    before: float
    after: float
    changes: tuple[Change, ...] = ()
    stuck: bool = False
    by_hand: float = 1.0


class NodeLevels:
    """Keeps a run without steps below a slowdown.

    Args:
        limit: The slowdown, such as 1.5.

    Attributes:
        extra_ns: The total cost of observing and writing so far.

    Raises:
        ValueError: It is not a number above 1.
    """

    def __init__(self, limit: float) -> None:
        if not 1 < limit < math.inf:
            raise ValueError(f"a slowdown must be a number above 1, not {limit!r}")
        self.limit = limit
        self.extra_ns = 0.0
        self._program_ns = 0.0
        self._calm_since_ns = 0.0

    @property
    def slowdown(self) -> float:
        """Estimated slowdown of the run so far; 1 before the first window."""
        return _slowdown(self._program_ns, self.extra_ns)

    @property
    def _now_ns(self) -> float:
        return self._program_ns + self.extra_ns

    def look(self, window: Window) -> None:
        """Take a window into account without deciding anything."""
        self._program_ns += max(window.program_ns, 0)
        self.extra_ns += max(window.observing_ns, 0) + max(window.writing_ns, 0)

    def decide(self, window: Window) -> Verdict:
        """Take a window into account, and decide on changes; who asks carries them out."""
        self.look(window)
        program = max(window.program_ns, 0)
        extra = max(window.observing_ns, 0) + max(window.writing_ns, 0)
        before = _slowdown(program, extra)
        if not program:
            return Verdict(before, before)
        room = (self.limit - 1) * program
        owing = self.extra_ns > (self.limit - 1) * self._program_ns
        if owing:
            room *= _OWING
        calm = not owing and extra < _RAISE_BELOW * room
        changes: list[Change] = []
        if extra > room:
            changes = self._lower(window, extra, room)
        elif calm and self._now_ns - self._calm_since_ns >= _CALM_NS:
            changes = self._raise(window, _RAISE_BELOW * room - extra)
        if changes or not calm:
            self._calm_since_ns = self._now_ns
        left = extra - sum(change.saved_ns for change in changes)
        after = _slowdown(program, left)
        hands = sum(
            cost for account, cost in zip(window.accounts, _costs(window), strict=True)
            if account.by_hand
        )  # fmt: skip
        stuck = extra > room and after > self.limit
        return Verdict(before, after, tuple(changes), stuck, _slowdown(program, left - hands))

    def _lower(self, window: Window, extra: float, room: float) -> list[Change]:
        """Lower the costliest nodes, each as far as it must be."""
        costs = _costs(window)
        rungs = [account.rung for account in window.accounts]
        heap: list[tuple[float, int]] = []

        def offer(place: int) -> None:
            account, rung = window.accounts[place], rungs[place]
            if not account.by_hand and rung + 1 < len(account.rungs):
                heapq.heappush(heap, (-_saving(account, costs[place], rung, rung + 1), place))

        for place in range(len(rungs)):
            offer(place)
        while heap and extra > _GOAL * room:
            gain, place = heapq.heappop(heap)
            # A rung that saves nothing is passed on the way to one that may.
            if -gain < _WORTH * room and extra <= room:
                break
            rungs[place] += 1
            extra += gain
            costs[place] += gain
            offer(place)
        changes = []
        for account, rung, left, cost in zip(
            window.accounts, rungs, costs, _costs(window), strict=True
        ):
            if rung == account.rung:
                continue
            changes.append(Change(account, account.rung, rung, cost - left))
            if account.raised:
                account.raised = False
                account.patience_ns = min(2 * account.patience_ns, _MOST_PATIENCE_NS)
            account.not_before_ns = int(self._now_ns) + account.patience_ns
        return changes

    def _raise(self, window: Window, left: float) -> list[Change]:
        """Raise the cheapest nodes by one rung, as many as fit into ``left``."""
        changes = []
        pairs = zip(_costs(window), window.accounts, strict=True)
        for cost, account in sorted(pairs, key=_cost_of):
            ready = account.not_before_ns <= self._now_ns and account.n > account.seen
            if account.by_hand or not account.rung or not ready:
                continue
            added = -_saving(account, cost, account.rung, account.rung - 1)
            if added > left:
                break
            left -= added
            account.raised = True
            changes.append(Change(account, account.rung, account.rung - 1, -added))
        return changes


def _costs(window: Window) -> list[float]:
    """The total cost of each node; what the writer takes is by what it was given to write."""
    total = sum(account.weight for account in window.accounts)
    rate = max(window.writing_ns, 0) / total if total else 0.0
    return [max(account.spent_ns, 0) + rate * account.weight for account in window.accounts]


def _cost_of(pair: tuple[float, Any]) -> float:
    return pair[0]


def _saving(account: Account, cost: float, now: int, rung: int) -> float:
    """What another rung than now saves, by a guess; below 0 if it costs more."""
    return cost * (1 - _COSTS[account.rungs[rung]] / _COSTS[account.rungs[now]])


def _slowdown(program: float, extra: float) -> float:
    """The slowdown factor; infinite if the program itself took no time."""
    if extra <= 0:
        return 1.0
    return (program + extra) / program if program > 0 else math.inf
