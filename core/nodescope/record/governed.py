"""GovernedRecorder: a recorder that keeps less of what costs most, so that a run keeps its pace.

It measures what recording takes from the program, asks the governor now and then, and does what it
says. What it leaves out is counted exactly and told: in a line when nodes are lowered, in a
document of the recording, and in a line at the end.

Invariant: results are not touched, every execution is numbered, and what is left out is counted.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Final

from nodescope.errors import UsageError
from nodescope.events import (
    Event,
    GradientReached,
    Level,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    RunFinished,
)
from nodescope.ir.graph import Node
from nodescope.record.accounts import RECORD_BYTES, Account, weight
from nodescope.record.batch import Noted, Skipped
from nodescope.record.governor import Change, Governor, Load, Verdict, Window, price_of_writing
from nodescope.record.pace import ended, lowered, stuck
from nodescope.record.recorder import Recorder
from nodescope.record.rows import Governed

_FIRST_NS: Final = 50_000_000
_LONGEST_NS: Final = 500_000_000
# A decision takes at most about this share of the time between two.
_DECIDING: Final = 50
# How long a line about lowered nodes keeps the next one back.
_QUIET_NS: Final = 5_000_000_000
# What the tracer does for a node, in quarters of what it does between the node and us: measured, it
# is twice as much for the smallest operators, and nearly three times as much for other ops.
_TRACING: Final = 10
# What calling us and reading the clock takes, which we do not see ourselves.
_CALL_NS: Final = 300
# Of executions that are left out, every so manieth is measured.
_SAMPLE: Final = 16
# A node's own events reach us soon after it; what comes later than this waited for something else.
_SOON_NS: Final = 200_000
# More time than this in the probes after us is a debugger that holds the program.
_HELD_NS: Final = 1_000_000
# What writing costs by the price list before anything was written, and what the past counts.
_RATE: Final = 4.0
_FADING: Final = 0.7
_MOST_NODES: Final = 10_000
_now = time.perf_counter_ns


class GovernedRecorder(Recorder):
    """Records a run into a file and keeps the run below a slowdown. A probe.

    Args:
        path, options: As of `Recorder`; its level and the levels of nodes are the ceiling.
        limit: The slowdown, a number above 1.
        tell: Takes each line for the person; called on the program's thread.
        origin_ns: When the run began, by `time.perf_counter_ns`.

    Raises:
        RecordingError: The file cannot be created.
        ValueError: The limit is none.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        limit: float,
        tell: Callable[[str], None],
        origin_ns: int,
        **options: Any,
    ) -> None:
        self._governor = Governor(limit)
        self._tell = tell
        self._origin_ns = origin_ns
        self._accounts: dict[Hashable, Account] = {}
        self._fresh: dict[Hashable, Account] = {}
        self._touched: list[Account] = []
        self._weighing = threading.Lock()
        self._since_ns = _now()
        self._length_ns = _FIRST_NS
        self._due_ns = self._since_ns + _FIRST_NS
        self._traced_ns = 0
        self._deciding_ns = 0
        self._held: list[tuple[int, int]] = []
        self._left: dict[int, int] = {}
        self._written_ns = self._seen_written_ns = self._seen_queued = 0
        # What was asked of the writer and is not written yet: by weight, and by the price list.
        self._asked: deque[tuple[int, float]] = deque()
        self._paid = self._written_seen = 0.0
        self._rate = _RATE
        self._thread_cpu = (0, 0)  # a thread, and its processor time at the last decision
        self._unsaid: dict[Any, Change] = {}
        self._unsaid_before = 0.0
        self._quiet_until_ns = 0
        self._stuck = self._said_stuck = False
        self._concluded = False
        super().__init__(path, **options)
        self._by_node = True
        self._plain = False

    # ------------------------------------------------------------ the program's side

    def emit(self, event: Event) -> None:
        """Number an event and queue it, or leave it out."""
        if self._off:
            return
        if event.__class__ is not NodeFinished:
            if isinstance(event, RunFinished):
                self._conclude()
            super().emit(event)
            return
        account = self._accounts.get(event.node.id)
        if account is None or account.shared or event.end_ns + self._origin_ns >= self._due_ns:
            self._finished(event)
            return
        if account.every == 1:
            self._keep(event, account)
            return
        # What is left out has to be cheap, or leaving it out would be in vain.
        with self._lock:
            n = account.n
            if n == account.seen:
                self._touched.append(account)
            account.n = n = n + 1
            every, level = account.every, account.level
            left_out = not every or n % every
            if left_out:
                self._seq = seq = self._seq + 1
                account.left_out += 1
                account.skipped += 1
        if not left_out:
            self._keep(event, account, level)
            return
        self._here.seq = seq
        if not n % _SAMPLE:
            since = _now() - self._origin_ns - event.end_ns
            if 0 < since < _SOON_NS:
                # Half of it was the tracer's, and half was this.
                self._traced_ns += _SAMPLE * _TRACING * since // 8
                account.spent_ns += _SAMPLE * (since // 2 + _CALL_NS)

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write the rest, with what was left out, and leave one portable file."""
        if not self._forked:
            self._conclude()
        return super().close(timeout_s)

    def passed(self, event: Event) -> None:
        """The probes after this one are done with an event.

        A debugger that holds the program there is neither a cost nor time of the program.
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
                self._held.append((start, now))

    def governed(self) -> Governed:
        """What the governor did so far."""
        with self._lock:
            accounts = {id(each): each for each in self._accounts.values()}
            accounts.update((id(each), each) for each in self._fresh.values())
            missing = [(each.missing(), each) for each in accounts.values()]
        below = [found for found, each in missing if each.rung or any(each.runs[1:])]
        most = heapq.nlargest(
            _MOST_NODES, below, key=lambda each: (each.executions, each.summaries, each.arrays)
        )
        return Governed(
            limit=self._governor.limit,
            slowdown=self._governor.slowdown,
            stuck=self._stuck and self._governor.slowdown > self._governor.limit,
            by_hand=sum(each.by_hand for _, each in missing),
            lowered=len(below),
            executions=sum(each.executions for each in below),
            summaries=sum(each.summaries for each in below),
            arrays=sum(each.arrays for each in below),
            nodes=tuple(most),
        )

    def _finished(self, event: NodeFinished) -> None:
        """An execution of a node that is met for the first or second time; now and then, any."""
        now = _now()
        if now >= self._due_ns:
            # Before the execution is numbered: what is said then must not come after it.
            self._weigh(now)
        account = self._account(event.node)
        if account.every == 1:
            self._keep(event, account)
            return
        with self._lock:
            if account.n == account.seen:
                self._touched.append(account)
            account.n += 1
            level = account.level
            left_out = not account.every or account.n % account.every
            if left_out:
                self._seq = self._here.seq = self._seq + 1
                account.left_out += 1
                account.skipped += 1
        if not left_out:
            self._keep(event, account, level)

    def _keep(self, event: NodeFinished, account: Account, level: Level | None = None) -> None:
        """Record an execution, and look at what that takes; without a level, count it as well."""
        entry = _now()
        gap = entry - self._origin_ns - event.end_ns
        outputs = event.outputs
        nbytes = 0
        for array in outputs:
            nbytes += array.nbytes
        with self._lock:
            if level is None:
                level = account.level
                if account.n == account.seen:
                    self._touched.append(account)
                account.n += 1
            account.nbytes += nbytes
            if account.skipped:
                # How many executions lie between this row and the one before.
                self._queue.append(Noted(0, 0, Skipped(event.node.id, account.skipped)))
                account.skipped = 0
        # Another thread may lower the node meanwhile: it is recorded as it was counted.
        self._here.level = level
        super()._finished(event)
        self._here.level = None
        done = _now()
        if 0 < gap < _SOON_NS and (outputs or not event.node.outputs):
            # What runs many nodes in one call tells of them late, and without arrays.
            self._traced_ns += _TRACING * gap // 4
        account.spent_ns += done - entry + _CALL_NS
        self._left[event.thread] = done

    def _account(self, node: Node) -> Account:
        found = self._accounts.get(node.id)
        if found is None:
            with self._lock:
                found = self._accounts[node.id] = self._open(node)
        elif found.shared:
            # The second time: from now on it stands for itself.
            own = Account(
                node.id, node.name, found.ceiling, outputs=len(node.outputs), rung=found.rung,
                by_hand=False,
            )  # fmt: skip
            with self._lock:
                found = self._accounts[node.id] = own
        return found

    def _open(self, node: Node) -> Account:
        """The account of a node that runs for the first time."""
        chosen = self._by_hand(node)
        if chosen is not None:
            outputs = len(node.outputs)
            return Account(node.id, node.name, chosen, outputs=outputs, rung=0, by_hand=True)
        # A program without steps makes a new node of each execution: they are lowered by op.
        key = (node.op, self.level, len(node.outputs))
        found = self._fresh.get(key)
        if found is None:
            name = f"new {node.op} nodes"
            found = Account(0, name, self.level, outputs=key[2], rung=0, by_hand=False)
            found.shared, found.key = True, key
            self._fresh[key] = found
        return found

    def _level(self, node: Node) -> Level:
        account = self._accounts.get(node.id)
        if account is None:
            chosen = self._by_hand(node)
            return self.level if chosen is None else chosen
        level: Level = getattr(self._here, "level", None) or account.level
        if level == "values" and self.level != "values" and not account.by_hand:
            return self.level  # arrays are kept of the first training steps only
        return level

    # ------------------------------------------------------------ now and then

    def _weigh(self, now: int) -> None:
        """Look at what the window cost, and do what the governor says."""
        if not self._weighing.acquire(blocking=False):
            return
        try:
            stood = self._stood(now)
            lasted = now - self._since_ns - stood
            if lasted < self._length_ns // 2:  # it stood still for most of it
                self._due_ns = now + self._length_ns - lasted
                return
            if not self._touched:  # the program is still getting ready
                self._governor.look(self._window(now, lasted))
                self._due_ns = now + self._length_ns
                return
            verdict = self._governor.decide(self._window(now, lasted))
            self._carry_out(verdict, now)
            self._length_ns = min(2 * self._length_ns, _LONGEST_NS)
            took = _now() - now
            self._deciding_ns = took
            self._due_ns = now + took + max(self._length_ns, _DECIDING * took)
        finally:
            self._weighing.release()

    def _stood(self, now: int) -> int:
        """How long the program was held in this window; threads are held at the same time."""
        with self._lock:
            held = sorted(self._held)
        total, until = 0, self._since_ns
        for start, end in held:
            start, end = max(start, until), min(end, now)
            if end > start:
                total += end - start
                until = end
        return total

    def _window(self, now: int, lasted: int) -> Window:
        """What the window cost; the next one begins."""
        with self._lock:
            touched, self._touched = self._touched, []
            loads = [each.load() for each in touched]
            self._held.clear()
            queued = self._queued
        observing = sum(each.observing_ns for each in loads) + self._traced_ns + self._deciding_ns
        self._traced_ns = self._deciding_ns = 0
        written = self._written_ns - self._seen_written_ns
        self._seen_written_ns += written
        self._since_ns = now
        waited = min(written, self._idle(lasted))
        return Window(
            program_ns=max(lasted - observing - waited, lasted // 50),
            observing_ns=observing,
            writing_ns=self._writing(written, queued, loads),
            loads=loads,
        )

    def _idle(self, lasted: int) -> int:
        """How long this thread did not run: the most that it can have waited for the writer."""
        me, cpu = threading.get_ident(), time.thread_time_ns()
        before, self._thread_cpu = self._thread_cpu, (me, cpu)
        return max(lasted - (cpu - before[1]), 0) if before[0] == me else lasted

    def _writing(self, written: int, queued: int, loads: list[Load]) -> int:
        """What writing costs that was asked for here, though it may still lie in the queue.

        The queue is written in order, so it is known what was written with the time it took.
        """
        asked = sum(weight(each) for each in loads)
        price = price_of_writing(loads)
        self._asked.append((asked, price))
        done = self._seen_queued + asked - queued
        self._seen_queued = queued
        paid = 0.0
        while self._asked and done > 0:
            weighs, worth = self._asked.popleft()
            if weighs > done:
                share = done / weighs
                self._asked.appendleft((weighs - done, worth * (1 - share)))
                worth *= share
            paid += worth
            done -= weighs
        self._paid += paid
        self._written_seen += written
        if self._paid > 0 and self._written_seen > 0:
            self._rate = self._written_seen / self._paid
        # The past counts less and less: what costs how much changes with what is recorded.
        self._paid *= _FADING
        self._written_seen *= _FADING
        return int(price * self._rate)

    def _carry_out(self, verdict: Verdict, now: int) -> None:
        for each in verdict.changes:
            key = each.load.key
            account = self._fresh.get(key) or self._accounts.get(key)
            if account is not None:
                with self._lock:
                    account.place(each.rung)
        down = [each for each in verdict.changes if each.rung > each.load.rung]
        if down:
            self._unsaid_before = self._unsaid_before or verdict.before
            for each in down:
                first = self._unsaid.get(each.load.key)
                load = each.load if first is None else first.load
                saved = each.saved_ns + (first.saved_ns if first is not None else 0.0)
                self._unsaid[each.load.key] = Change(load, each.rung, saved)
        if self._unsaid and now >= self._quiet_until_ns:
            self._tell(
                lowered(
                    tuple(self._unsaid.values()),
                    self._unsaid_before,
                    verdict.after,
                    self._governor.limit,
                )
            )
            self._unsaid, self._unsaid_before = {}, 0.0
            self._quiet_until_ns = now + _QUIET_NS
            self._note(self.governed(), RECORD_BYTES, always=False)
        self._stuck = self._stuck or verdict.stuck
        if verdict.stuck and not verdict.changes and not self._said_stuck:
            self._said_stuck = True
            self._tell(stuck(verdict, self._governor.limit))

    def _conclude(self) -> None:
        """Say at the end of the run what was left out."""
        with self._weighing:
            if self._concluded:
                return
            self._concluded = True
            now = _now()
            self._due_ns = 1 << 62
            lasted = now - self._since_ns - self._stood(now)
            self._governor.look(self._window(now, max(lasted, 0)))
            found = self.governed()
            self._note(found, RECORD_BYTES * (1 + len(found.nodes)), always=True)
        if self._accounts:
            self._tell(ended(found))

    # ------------------------------------------------------------ the recorder's side

    def _write_some(self) -> None:
        super()._write_some()
        self._written_ns = time.thread_time_ns()


class Passed:
    """The last probe of a governed run: tells its recorder when all others are done.

    Args:
        recorder: Of the run.
    """

    def __init__(self, recorder: GovernedRecorder) -> None:
        self.emit = recorder.passed


def recorder_for(
    path: Path,
    max_slowdown: float | None,
    *,
    tell: Callable[[str], None],
    origin_ns: int,
    **options: Any,
) -> Recorder:
    """A recorder, governed if there is a limit; arguments as of `GovernedRecorder`."""
    if max_slowdown is None:
        return Recorder(path, **options)
    return GovernedRecorder(path, limit=max_slowdown, tell=tell, origin_ns=origin_ns, **options)


def check_slowdown(limit: float | None) -> None:
    """Check a limit as it comes from a person; None is none.

    Raises:
        UsageError: It is not a number above 1.
    """
    if limit is not None and not 1 < limit < math.inf:
        raise UsageError(
            f"no run is {limit:g} times as long while it is observed",
            hint="1.5 allows it half as long again",
        )
