"""Governor: keeps a run below a slowdown limit by observing less of it.

The `Policy` of a recorder. With training steps, whole steps run unobserved (`StepSampling`);
without any, the costliest nodes are recorded with less (`NodeLevels`). Omissions are counted
exactly and reported: in a line, in a document of the recording, and at the end.

Invariant: results do not change, every observed execution is numbered, and omissions are counted.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

from nodescope.errors import UsageError
from nodescope.events import Bus, Demand, Level, NodeFinished, Prices, StepFinished
from nodescope.ir.graph import Node
from nodescope.record.capture_levels import WITH_ARRAYS
from nodescope.record.governor.cost_model import WritingCost
from nodescope.record.governor.node_levels import Account, Change, NodeLevels, Verdict, Window
from nodescope.record.governor.reports import ended, kept, lowered, raised, stuck
from nodescope.record.governor.step_meter import Spent, StepMeter
from nodescope.record.governor.step_sampling import ASKED, Pace, StepSampling
from nodescope.record.recorder import Recorder
from nodescope.record.rows import Governed

# Nodes are looked at after so long at first, and later.
_FIRST_NS: Final = 50_000_000
_LONGEST_NS: Final = 500_000_000
_NEVER: Final = 1 << 62
# A decision takes at most about this share of the time between two.
_DECIDING: Final = 50
# How long a line about lowered nodes keeps the next one back.
_QUIET_NS: Final = 5_000_000_000
# A program that took no time itself was slowed down by this.
_MOST: Final = 1e6
# Nobody asked for a limit: the start and the end of a run, which cannot be measured, count as well;
# and what is over before anybody notices is better seen whole.
_UNASKED: Final = Pace(share=0.5, unnoticed_ns=40e6)
_MOST_NODES: Final = 10_000
# Of a document that is written while the run goes on, and how often.
_FEW_NODES: Final = 100
_TELLING_NS: Final = 2_000_000_000
# The cost of calling the recorder and of reading the clock, which is not in the measurement.
_CALL_NS: Final = 300


class Governor:
    """Decides how much is recorded, so that a run stays below a slowdown.

    Args:
        limit: The slowdown, a number above 1.
        tell: Takes each line for the person; called on the program's thread.
        bus: Of the run: where steps are left out, and where it is said that nobody wants arrays.
        prices: What making events takes on this machine.
        chosen: Whether a person chose the limit; by default nothing is said on the way.

    Raises:
        ValueError: The limit is none.
    """

    def __init__(
        self, limit: float, *, tell: Callable[[str], None], bus: Bus | None = None,
        prices: Prices | None = None, chosen: bool = True,
    ) -> None:  # fmt: skip
        self.limit = limit
        self._bus = bus = bus if bus is not None else Bus()
        self._prices = prices or Prices()
        self._chosen = chosen
        self._tell_end = tell
        self._tell = tell if chosen else _say_nothing
        self._pace = ASKED if chosen else _UNASKED
        self._nodes = NodeLevels(limit)
        sampling = StepSampling(limit, pace=self._pace, defining_ns=self._prices.defining_ns)
        self.steps = StepMeter(
            bus, sampling, spent=self._spent, hush=lambda still: self._recorder.hush(still),
            behind=lambda: self._recorder.behind, tell=self._tell,
        )  # fmt: skip
        self._accounts: dict[int, Account] = {}
        self._fresh: dict[Hashable, Account] = {}
        self._touched: list[Account] = []
        # Totals of the run: recording on the program's threads; making events, by the price list;
        # nodes that were met. They are of the window since these were what is in `_before`.
        self._spent_ns = self._fresh_nodes = 0
        self._traced_ns = 0.0
        self._before = Spent()
        self._weighing = threading.Lock()
        self._length_ns = _FIRST_NS
        self._since_ns = self._told_ns = bus.ran_ns()
        self._due_ns = self._since_ns + _FIRST_NS
        self._writing = WritingCost()
        self._thread_before = (0, 0)  # that looked last, and its processor time
        self._unsaid: dict[Account, Change] = {}
        self._quiet_until_ns = 0
        self._stuck = self._said_stuck = self._concluded = self._loss_broke = False
        self._told_counts = (0, 0)
        bus.leaves_out, bus.leaves_out_call = self._leaves_out, self._leaves_out_call

    # ------------------------------------------------------------ of a recorder

    def govern(self, recorder: Recorder) -> None:
        """Decide for a recorder, whose policy this is, before anything reaches it."""
        self._recorder = recorder
        self._levels = recorder.levels
        self._lock = recorder.lock
        self._arrays = recorder.levels.with_arrays  # whether some node is recorded with these

    def started(self) -> None:
        """The program begins."""
        self._since_ns = self._told_ns = now = self._bus.ran_ns()
        self._due_ns = now + self._length_ns
        self._idle_ns(0)
        self.steps.begin()

    def use_prices(self, prices: Prices) -> None:
        """What making events takes has been measured; before nodes of the library have run."""
        self._prices = prices
        self.steps.sampling.model.price(prices.defining_ns)

    def admit(self, event: NodeFinished) -> Level | None:
        """The level at which an execution is recorded; None: it is only counted."""
        if event.end_ns - self._bus.held_ns >= self._due_ns:
            self._weigh()  # before the execution is numbered: messages must not come after it
        levels, node = self._levels, event.node
        with self._lock:
            account = self._accounts.get(node.id)
            if account is None or not account.node:
                account = self._account(node, account)
            if account.n == account.seen:
                self._touched.append(account)
            account.n = n = account.n + 1
            self._traced_ns += account.tracing_ns
            if not levels.uniform and (levels.everything or node.id in levels.watched):
                level: Level = "values"
            elif account.every != 1 and (not account.every or n % account.every):
                account.left_out += 1
                account.skipped += 1
                return None
            else:
                level = account.level
            if account.skipped:
                self._recorder.skipped(node, account.skipped)
                account.skipped = 0
        if level == "values" and levels.top == "summary" and not account.by_hand:
            return levels.of(node)  # arrays are kept of the first training steps only
        return level

    def took(self, node: Node | None, weight: int, nanoseconds: int) -> None:
        """What recording an execution took, and how much it left to the writer."""
        nanoseconds += _CALL_NS
        self._spent_ns += nanoseconds
        account = self._accounts.get(node.id) if node is not None else None
        if account is not None:
            account.spent_ns += nanoseconds
            account.weight += weight

    def level_of(self, node: Node) -> Level:
        """The level of a node now."""
        account = self._accounts.get(node.id)
        return self._levels.of(node) if account is None else account.level

    def step_ended(self, event: StepFinished) -> None:
        """After the first loss that is not finite and that nobody saw, the next step is seen."""
        if not self._loss_broke and not all(math.isfinite(loss.value) for loss in event.losses):
            self._loss_broke = True
            if not event.observed:
                self.steps.observe_next()

    def demand(self) -> None:
        """Say on the bus what the recorder needs; while everything is kept, every step."""
        whole = "recording everything was requested" if self._levels.everything else ""
        self._bus.want(self._recorder, Demand(arrays=self._arrays, whole=whole))

    def tell_counts(self) -> None:
        """Who looks finds the counts of steps up to here."""
        counts = (self.steps.steps, self.steps.sampling.calls)
        if not self._concluded and counts != self._told_counts:
            self._told_counts = counts
            self._recorder.enqueue(self.governed(_FEW_NODES))

    def governed(self, most_nodes: int = _MOST_NODES) -> Governed:
        """What was done so far, with so many nodes at most."""
        with self._lock:
            accounts = {*self._accounts.values(), *self._fresh.values()}
            missing = [(account.missing(), account) for account in accounts]
            values = sum(account.values() for account in accounts)
        below = [left_out for left_out, account in missing if account.rung or any(account.runs[1:])]
        foremost = heapq.nlargest(
            most_nodes, below, key=lambda row: (row.executions, row.summaries, row.arrays)
        )
        steps, sampling = self.steps, self.steps.sampling
        source = sampling if sampling.steps else self._nodes
        return Governed(
            limit=self.limit,
            slowdown=min(source.slowdown, _MOST),
            extra_s=source.extra_ns / 1e9,
            stuck=self._stuck and source.slowdown > self.limit,
            by_hand=sum(account.by_hand for account in accounts),
            lowered=len(below),
            executions=sum(row.executions for row in below),
            summaries=sum(row.summaries for row in below),
            arrays=sum(row.arrays for row in below),
            values=values,
            nodes=tuple(foremost),
            measured=sampling.measured,
            steps=steps.steps,
            steps_left_out=steps.left_out,
            calls=sampling.calls,
            calls_left_out=sampling.calls_left_out,
            because=steps.because,
        )

    def conclude(self, error: str = "") -> None:
        """Say at the end of the run what was left out; once."""
        with self._weighing:
            if self._concluded:
                return
            self._concluded = True
            if error and self.steps.in_the_dark:
                self._tell_end(raised(self.steps.step))
            self.steps.end()
            self._due_ns = _NEVER
            self._nodes.look(self._window(self._bus.ran_ns()))
            governed = self.governed()
            self._recorder.add(governed)
        if self._accounts:
            if self._chosen or (governed.because and governed.slowdown > governed.limit):
                self._tell_end(ended(governed))
            elif governed.lowered or governed.steps_left_out:
                self._tell_end(kept(self._recorder.keeping(), governed))

    # ------------------------------------------------------------ steps

    def _leaves_out(self, step: int) -> bool:
        """See `Bus.leaves_out`; a recorder that was switched off leaves nothing out."""
        if self._recorder.off or self._recorder not in self._bus.probes:
            return False
        if step > 0 and not self.steps.step:
            self._first_step_begins()
        leave = self.steps.leaves_out(step)
        now = self._bus.ran_ns()
        if step > 0 and self.steps.left_out and now - self._told_ns > _TELLING_NS:
            self._told_ns = now
            self._recorder.add(self.governed(_FEW_NODES))
        return leave

    def _first_step_begins(self) -> None:
        """From here on steps are left out; nodes are recorded as it was asked for."""
        self._due_ns = _NEVER
        with self._lock:
            for account in (*self._accounts.values(), *self._fresh.values()):
                account.place(0)
        self._arrays = self._levels.with_arrays
        self.demand()

    def _leaves_out_call(self, begins: int) -> bool:
        """See `Bus.leaves_out_call`."""
        if self._recorder.off or self._recorder not in self._bus.probes:
            return False
        leave = self.steps.leaves_out_call(begins)
        if begins > 0 and not leave:
            self._recorder.call_begins()
        return leave

    def _spent(self) -> Spent:
        written_ns = self._recorder.writer_ns()
        observing_ns = self._spent_ns + self._bus.watched_ns
        return Spent(observing_ns, self._traced_ns, self._fresh_nodes, written_ns)

    # ------------------------------------------------------------ nodes, without steps

    def _account(self, node: Node, shared: Account | None) -> Account:
        """The account of a node at its first execution, or its own at the second."""
        by_hand = self._levels.by_hand(node)
        ceiling = by_hand or self._levels.top
        outputs, price = len(node.outputs), self._prices.of(node.phase)
        account: Account | None
        self._fresh_nodes += shared is None
        if shared is not None or by_hand is not None:
            account = Account(
                node.id, node.name, ceiling if shared is None else shared.rungs[0],  # type: ignore[arg-type]
                outputs=outputs, by_hand=by_hand is not None, tracing_ns=price,
            )  # fmt: skip
            account.place(0 if shared is None else shared.rung)
        else:
            # A program without steps defines a new node at each execution: these are lowered by op.
            key = (node.op, ceiling, outputs, node.phase)
            account = self._fresh.get(key)
            if account is None:
                name = f"new {node.op} nodes"
                account = Account(0, name, ceiling, outputs=outputs, tracing_ns=price)
                self._fresh[key] = account
        self._accounts[node.id] = account
        return account

    def _weigh(self) -> None:
        """Look at what the window cost, and do what is decided."""
        if not self._weighing.acquire(blocking=False):
            return
        try:
            now = self._bus.ran_ns()
            window = self._window(now)
            unnoticed = self._nodes.extra_ns < self._pace.unnoticed_ns
            if self._levels.everything or unnoticed or not window.accounts:
                self._nodes.look(window)
                self._due_ns = now + self._length_ns
            else:
                self._carry_out(self._nodes.decide(window), now)
                self._length_ns = min(2 * self._length_ns, _LONGEST_NS)
                took = self._bus.ran_ns() - now
                self._spent_ns += took
                self._due_ns = now + took + max(self._length_ns, _DECIDING * took)
            for account in window.accounts:
                account.close_window()
        finally:
            self._weighing.release()

    def _window(self, now: int) -> Window:
        """What the window cost; the next one begins."""
        with self._lock:
            accounts, self._touched = self._touched, []
            spent, before = self._spent(), self._before
            self._before = spent
            queued = self._recorder.queued
        written = spent.written_ns - before.written_ns
        observing = (
            spent.recording_ns - before.recording_ns
            + spent.tracing_ns - before.tracing_ns
            + (spent.fresh - before.fresh) * self._prices.defining_ns
        )  # fmt: skip
        lasted, self._since_ns = now - self._since_ns, now
        waited = min(written, self._idle_ns(lasted))
        weight = sum(account.weight for account in accounts)
        return Window(
            program_ns=max(lasted - observing - waited, lasted / 50),
            observing_ns=observing,
            writing_ns=self._writing.charge(written, weight, queued),
            accounts=accounts,
        )

    def _idle_ns(self, lasted: int) -> int:
        """The idle time of this thread in a stretch that ends now: so much it may have waited."""
        thread, cpu_ns = threading.get_ident(), time.thread_time_ns()
        before, self._thread_before = self._thread_before, (thread, cpu_ns)
        return max(lasted - (cpu_ns - before[1]), 0) if before[0] == thread else lasted

    def _carry_out(self, verdict: Verdict, now: int) -> None:
        with self._lock:
            for change in verdict.changes:
                change.account.place(change.rung)
            if verdict.changes:
                accounts = (*self._accounts.values(), *self._fresh.values())
                self._arrays = any(account.level in WITH_ARRAYS for account in accounts)
        self.demand()
        for change in verdict.changes:
            if change.rung > change.before:
                first = self._unsaid.get(change.account, change)
                saved_ns = change.saved_ns + (first.saved_ns if first is not change else 0.0)
                change_to_report = Change(change.account, first.before, change.rung, saved_ns)
                self._unsaid[change.account] = change_to_report
        if self._unsaid and now >= self._quiet_until_ns:
            changes = tuple(self._unsaid.values())
            self._tell(lowered(changes, verdict.before, verdict.after, self.limit))
            self._unsaid = {}
            self._quiet_until_ns = now + _QUIET_NS
            self._recorder.add(self.governed())
        self._stuck = self._stuck or verdict.stuck
        if verdict.stuck and not verdict.changes and not self._said_stuck:
            self._said_stuck = True
            self._tell(stuck(verdict, self.limit))


def _say_nothing(text: str) -> None:
    """What the governor does by default is told at the end, and on the page."""


def check_slowdown(limit: float | None) -> None:
    """Check a limit as it comes from a person; None is none.

    Raises:
        UsageError: It is not a number above 1.
    """
    if limit is not None and not 1 < limit < math.inf:
        raise UsageError(
            f"{limit:g} is not a slowdown: the limit must be a number above 1",
            hint="1.5 allows a run 50 % longer",
        )
