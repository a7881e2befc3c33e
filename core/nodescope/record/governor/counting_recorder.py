"""CountingRecorder: a recorder that keeps an account of each node and its recording cost.

An account says at which level a node is recorded, how often it ran, and what recording it cost. The
governor builds on it.

Invariant: results do not change, every observed execution is numbered, and omissions are counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import numpy as np

from nodescope.arrays import ops_of
from nodescope.events import (
    Event,
    GradientReached,
    Level,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    Prices,
    RunFinished,
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import Node
from nodescope.record.batch import QueuedRecord, Skipped
from nodescope.record.governor.node_costs import RECORD_BYTES, Account
from nodescope.record.governor.step_meter import Spent
from nodescope.record.governor.writer_cost import own_clock, read_clock
from nodescope.record.newest.newest_recorder import NewestRecorder

# The cost of calling the recorder and of reading the clock, which is not in the measurement.
_CALL_NS: Final = 300
# One in this many executions is measured where little or nothing of them is kept.
_SAMPLE: Final = 16
# Above this time in the later probes, a debugger is holding the program.
_HELD_NS: Final = 1_000_000
# The writer waits this often for further records, unless the batch has reached this size.
_PATIENCE: Final = 8
_ENOUGH_BYTES: Final = 1 << 20
# The longest that records of unobserved steps stay in the queue if no other record follows.
_UNSEEN_NS: Final = 250_000_000
WITH_ARRAYS: Final = ("values", "summary")
_now = time.perf_counter_ns
_ndarray = np.ndarray


class CountingRecorder(NewestRecorder):
    """Records a run with an account per node. A probe.

    Args:
        path, options: As for `NewestRecorder`; its level and the levels of nodes are upper limits.
        origin_ns: When the run began, by `time.perf_counter_ns`.
        prices: The cost of making events on this machine.

    Raises:
        RecordingError: The file cannot be created.
    """

    def __init__(self, path: str | Path, *, origin_ns: int, prices: Prices, **options: Any) -> None:
        self._prices = prices
        self._origin_ns = origin_ns
        self._accounts: dict[Hashable, Account] = {}
        self._fresh: dict[Hashable, Account] = {}
        self._touched: list[Account] = []
        self._due_ns = 1 << 62
        # Totals of the run: recording on the program's threads; making events, by the price list;
        # nodes defined; the writer.
        self._spent_ns = 0
        self._traced_ns = 0.0
        self._fresh_nodes = 0
        self._written_ns = 0
        self._clock: int | None = None  # the writer's processor time
        self._held: list[tuple[int, int]] = []
        self._left: dict[int, int] = {}
        self._due_unseen_ns = 0
        self._loss_broke = False
        self._arrays = True  # whether some node is recorded with arrays or statistics
        super().__init__(path, **options)
        self._by_node = True
        self._plain = False

    def _weigh(self, now: int, *, early: bool = False) -> None:
        """Called at regular intervals, before an execution is numbered."""

    def _conclude(self, error: str = "") -> None:
        """Called when the run ends."""

    def _must_see(self) -> None:
        """Called when the loss of an unobserved step is the first that is not finite."""

    def _stood_still(self, hold: tuple[int, int]) -> None:
        """Called with the time of a hold when a debugger releases the program; under the lock."""
        self._held.append(hold)

    def emit(self, event: Event) -> None:
        """Number an event and queue it, or leave it out."""
        if self._off:
            return
        if event.__class__ is not NodeFinished:
            if isinstance(event, RunFinished):
                self._conclude(event.error)
            start = _now()
            if not isinstance(event, StepStarted | StepFinished):
                super().emit(event)
                return
            if isinstance(event, StepFinished) and not self._loss_broke:
                self._loss_broke = not all(math.isfinite(loss.value) for loss in event.losses)
                if self._loss_broke and not event.observed:
                    self._must_see()
            if event.observed:
                super().emit(event)
            else:
                self._unseen(event)
            self._spent_ns += _now() - start
            return
        node = event.node
        account = self._accounts.get(node.id)
        if (
            account is None
            or account.shared
            or event.end_ns + self._origin_ns >= self._due_ns
            or self._everything
        ):
            self._finished(event)
            return
        if account.every == 1 or node.id in self._watched:
            if (
                account.level != "timing"
                or account.skipped
                or self._newest
                or self._watched
                or event.lane
                or event.worker
            ):
                self._keep(event, account)
                return
            # `_keep` and `_put` inlined: at this level each nanosecond counts.
            entry = 0 if account.n % _SAMPLE else _now()
            row = (node.id, event.step, event.thread, event.start_ns, event.end_ns)
            with self._lock:
                if account.n == account.seen:
                    self._touched.append(account)
                account.n += 1
                self._traced_ns += account.tracing_ns
                self._seq = seq = self._seq + 1
                if self._queued + RECORD_BYTES > self._queue_bytes:
                    self._lost_executions += 1
                    self._missed.append(node.id)
                else:
                    self._queued += RECORD_BYTES
                    self._queue.append((seq, *row))
            self._here.seq = seq
            if not self._awake:
                self._wake()
            if entry:
                self._took(account, _SAMPLE * (_now() - entry + _CALL_NS))
            return
        # Leaving an execution out must be cheap, or it would save nothing.
        entry = 0 if (account.n + 1) % _SAMPLE else _now()
        with self._lock:
            n = account.n
            if n == account.seen:
                self._touched.append(account)
            account.n = n = n + 1
            self._traced_ns += account.tracing_ns
            interval, level = account.every, account.level
            left_out = not interval or n % interval
            if left_out:
                self._seq = seq = self._seq + 1
                account.left_out += 1
                account.skipped += 1
        if not left_out:
            self._keep(event, account, level)
            return
        self._here.seq = seq
        if entry:
            self._took(account, _SAMPLE * (_now() - entry + _CALL_NS))

    def passed(self, event: Event) -> None:
        """The later probes have handled an event.

        Time held by a debugger there is neither a cost nor the program's own time.
        """
        if isinstance(event, NodeFinished):
            start = self._left.pop(event.thread, 0) or self._origin_ns + event.end_ns
        elif isinstance(event, NodeStarted | NodeFailed | GradientReached):
            start = self._origin_ns + event.start_ns
        else:
            return
        now = _now()
        if now - start > _HELD_NS:
            with self._lock:
                self._stood_still((start, now))

    def _spent_so_far(self) -> Spent:
        written = read_clock(self._clock)
        return Spent(
            self._spent_ns, self._traced_ns, self._fresh_nodes,
            self._written_ns if written is None else written,
        )  # fmt: skip

    def _finished(self, event: NodeFinished) -> None:
        """A node's first or second execution; also any execution at which a decision is due."""
        now = _now()
        if now >= self._due_ns:
            # Before the execution is numbered: messages must not come after it.
            self._weigh(now)
        account = self._account(event.node)
        if account.every == 1 or self._everything or event.node.id in self._watched:
            self._keep(event, account)
            return
        with self._lock:
            if account.n == account.seen:
                self._touched.append(account)
            account.n += 1
            self._traced_ns += account.tracing_ns
            level = account.level
            left_out = not account.every or account.n % account.every
            if left_out:
                self._seq = self._here.seq = self._seq + 1
                account.left_out += 1
                account.skipped += 1
        if not left_out:
            self._keep(event, account, level)

    def _keep(self, event: NodeFinished, account: Account, level: Level | None = None) -> None:
        """Record an execution and sample its cost; without ``level``, count it as well."""
        entry = _now()
        nbytes = 0
        for array in event.outputs:
            nbytes += array.nbytes if array.__class__ is _ndarray else ops_of(array).nbytes(array)
        with self._lock:
            if level is None:
                level = account.level
                if account.n == account.seen:
                    self._touched.append(account)
                account.n += 1
                self._traced_ns += account.tracing_ns
            account.nbytes += nbytes
            if account.skipped:
                # The number of executions between this row and the previous one.
                self._queue.append(QueuedRecord(0, 0, Skipped(event.node.id, account.skipped)))
                account.skipped = 0
        # Another thread may lower the node meanwhile: record it at the level of its count.
        self._here.level = level
        super()._finished(event)
        self._here.level = None
        done = _now()
        self._took(account, done - entry + _CALL_NS)
        self._left[event.thread] = done

    def _took(self, account: Account, nanoseconds: int) -> None:
        account.spent_ns += nanoseconds
        self._spent_ns += nanoseconds

    def _account(self, node: Node) -> Account:
        account = self._accounts.get(node.id)
        if account is None:
            with self._lock:
                account = self._accounts[node.id] = self._open(node)
        elif account.shared:
            # The second execution: the node gets an account of its own.
            separate = Account(
                node.id, node.name, account.ceiling, outputs=len(node.outputs), rung=account.rung,
                by_hand=False, tracing_ns=self._prices.of(node.phase),
            )  # fmt: skip
            with self._lock:
                account = self._accounts[node.id] = separate
        return account

    def _open(self, node: Node) -> Account:
        """The account of a node at its first execution."""
        self._fresh_nodes += 1
        price = self._prices.of(node.phase)
        chosen = self._by_hand(node)
        if chosen is not None:
            self._arrays = self._arrays or chosen in WITH_ARRAYS
            return Account(
                node.id, node.name, chosen, outputs=len(node.outputs), rung=0, by_hand=True,
                tracing_ns=price,
            )  # fmt: skip
        # A program without steps defines a new node at each execution: these are lowered by op.
        key = (node.op, self.level, len(node.outputs), node.phase)
        account = self._fresh.get(key)
        if account is None:
            name = f"new {node.op} nodes"
            account = Account(
                0, name, self.level, outputs=key[2], rung=0, by_hand=False, tracing_ns=price
            )
            self._arrays = self._arrays or self.level in WITH_ARRAYS
            account.shared, account.key = True, key
            self._fresh[key] = account
        return account

    def _level(self, node: Node) -> Level:
        if self._everything or node.id in self._watched:
            return "values"
        account = self._accounts.get(node.id)
        if account is None:
            chosen = self._by_hand(node)
            return self.level if chosen is None else chosen
        level: Level = getattr(self._here, "level", None) or account.level
        if level == "values" and self.level != "values" and not account.by_hand:
            return self.level  # arrays are kept of the first training steps only
        return level

    def _unseen(self, event: StepStarted | StepFinished) -> None:
        """Start or end of an unobserved step: cheap, and written without haste."""
        with self._lock:
            self._seq = seq = self._seq + 1
            self._queued += RECORD_BYTES
            self._queue.append(QueuedRecord(seq, RECORD_BYTES, event))
        self._here.seq = seq
        if event.time_ns >= self._due_unseen_ns:
            self._due_unseen_ns = event.time_ns + _UNSEEN_NS
            self._wake()

    def _gather(self) -> None:
        """Let a batch grow: each has a fixed cost."""
        for _ in range(_PATIENCE):
            super()._gather()
            if self._hurry.is_set() or self._queued > _ENOUGH_BYTES:
                return

    def _write_some(self) -> int:
        if self._clock is None:
            self._clock = own_clock()
        count = super()._write_some()
        self._written_ns = time.thread_time_ns()
        return count
