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
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Final

from nodescope.errors import UsageError
from nodescope.events import Event, Level, NodeFinished, RunFinished
from nodescope.ir.graph import Node
from nodescope.record.batch import Noted, Skipped
from nodescope.record.governor import EVERY, Change, Governor, Load, Rung, Verdict, Window, ladder
from nodescope.record.pace import ended, lowered, stuck
from nodescope.record.recorder import Recorder
from nodescope.record.rows import Governed, LeftOut

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
# A node's own events reach us soon after it; what comes later than this waited for something else.
_SOON_NS: Final = 200_000
# More time than this in the probes after us is a debugger that holds the program.
_HELD_NS: Final = 1_000_000
_MOST_NODES: Final = 10_000
_RECORD_BYTES: Final = 320
_ARRAY_BYTES: Final = 160
_now = time.perf_counter_ns


class _Account:
    """What one node, or nodes that have run only once, cost and left out."""

    __slots__ = (
        "by_hand", "every", "key", "left_out", "level", "name", "nbytes", "node", "outputs", "rung",
        "rungs", "runs", "shared", "skipped", "spent_ns", "tally", "turn", "window_outputs",
    )  # fmt: skip

    def __init__(self, node: int, name: str, ceiling: Level, *, rung: int, by_hand: bool) -> None:
        self.node, self.name, self.by_hand = node, name, by_hand
        self.key: Any = node
        self.shared = False
        self.rungs = ladder(ceiling)
        self.place(rung)
        # Since the run began, by rung: executions and their outputs.
        self.tally = [0] * len(self.rungs)
        self.outputs = [0] * len(self.rungs)
        self.left_out = 0
        self.skipped = 0  # since the last row
        self.turn = 0
        # In this window.
        self.runs = self.window_outputs = self.nbytes = self.spent_ns = 0

    def place(self, rung: int) -> None:
        """Go to a rung."""
        name = self.rungs[rung]
        self.rung = rung
        self.every = 0 if name == "counted" else EVERY if name == "thinned" else 1
        self.level: Level = "timing" if name == "counted" or name == "thinned" else name

    def load(self) -> Load:
        """The window that ends here; another one begins."""
        found = Load(
            self.key, self.name, self.rungs, self.rung, self.runs, self.window_outputs,
            self.nbytes, self.spent_ns, self.by_hand,
        )  # fmt: skip
        self.runs = self.window_outputs = self.nbytes = self.spent_ns = 0
        return found

    def missing(self) -> LeftOut:
        """What was left out so far."""
        below = self.outputs[1:]
        top: Rung = self.rungs[0]
        return LeftOut(
            node=self.node,
            name=self.name,
            level=top,
            now=self.rungs[self.rung],
            runs=sum(self.tally),
            executions=self.left_out,
            summaries=sum(below[1 if top == "values" else 0 :]) if top in _WITH_VALUES else 0,
            arrays=sum(below) if top == "values" else 0,
        )


_WITH_VALUES: Final = ("values", "summary")


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
        self._accounts: dict[Hashable, _Account] = {}
        self._fresh: dict[Hashable, _Account] = {}
        self._touched: list[_Account] = []
        self._weighing = threading.Lock()
        self._since_ns = _now()
        self._length_ns = _FIRST_NS
        self._due_ns = self._since_ns + _FIRST_NS
        self._traced_ns = 0
        self._deciding_ns = 0
        self._held: list[tuple[int, int]] = []
        self._left: dict[int, int] = {}
        self._written_ns = self._seen_written_ns = self._seen_queued = 0
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
        if event.__class__ is NodeFinished:
            self._finished(event)
            return
        if isinstance(event, RunFinished):
            self._conclude()
        super().emit(event)
        thread = getattr(event, "thread", None)
        if thread is not None:
            self._left[thread] = _now()

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write the rest, with what was left out, and leave one portable file."""
        if not self._forked:
            self._conclude()
        return super().close(timeout_s)

    def passed(self, event: Event) -> None:
        """The probes after this one are done with an event.

        What they take is a cost of observing, but for a debugger that holds the program: that is
        neither a cost nor time of the program.
        """
        left = self._left.get(getattr(event, "thread", -1))
        if left is not None:
            now = _now()
            if now - left > _HELD_NS:
                with self._lock:
                    self._held.append((left, now))
            else:
                self._traced_ns += now - left

    def governed(self) -> Governed:
        """What the governor did so far."""
        with self._lock:
            accounts = {id(each): each for each in self._accounts.values()}
            accounts.update((id(each), each) for each in self._fresh.values())
            missing = [(each.missing(), each) for each in accounts.values()]
        below = [
            found for found, each in missing if each.rung or found.executions or any(each.tally[1:])
        ]
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
        entry = _now()
        outputs = event.outputs
        gap = entry - self._origin_ns - event.end_ns
        if entry >= self._due_ns:
            # Before the execution is numbered: what is said then must not come after it.
            self._weigh(entry)
            entry = _now()
        account = self._account(event.node)
        nbytes = 0
        for array in outputs:
            nbytes += array.nbytes
        with self._lock:
            if not account.runs:
                self._touched.append(account)
            account.runs += 1
            account.window_outputs += len(outputs)
            account.nbytes += nbytes
            rung = account.rung
            account.tally[rung] += 1
            account.outputs[rung] += len(outputs)
            every = account.every
            if every != 1:
                account.turn += 1
                if not every or account.turn % every:
                    account.left_out += 1
                    account.skipped += 1
                    self._seq = self._here.seq = self._seq + 1
                    every = 0
            if every and account.skipped:
                self._say_skipped(account)
        if every:
            super()._finished(event)
        done = _now()
        if 0 < gap < _SOON_NS and (outputs or not event.node.outputs):
            # What runs many nodes in one call tells of them late, and without arrays.
            self._traced_ns += _TRACING * gap // 4
        account.spent_ns += done - entry + _CALL_NS
        self._left[event.thread] = done

    def _account(self, node: Node) -> _Account:
        found = self._accounts.get(node.id)
        if found is None:
            with self._lock:
                found = self._accounts[node.id] = self._open(node)
        elif found.shared:
            # The second time: from now on it stands for itself.
            own = _Account(node.id, node.name, _ceiling(found), rung=found.rung, by_hand=False)
            with self._lock:
                found = self._accounts[node.id] = own
        return found

    def _open(self, node: Node) -> _Account:
        """The account of a node that runs for the first time."""
        chosen = self._by_hand(node)
        if chosen is not None:
            return _Account(node.id, node.name, chosen, rung=0, by_hand=True)
        # A program without steps makes a new node of each execution: they are lowered by op.
        key = (node.op, self.level)
        found = self._fresh.get(key)
        if found is None:
            found = _Account(0, f"new {node.op} nodes", self.level, rung=0, by_hand=False)
            found.shared, found.key = True, key
            self._fresh[key] = found
        return found

    def _level(self, node: Node) -> Level:
        account = self._accounts.get(node.id)
        if account is None:
            chosen = self._by_hand(node)
            return self.level if chosen is None else chosen
        if account.level == "values" and self.level != "values" and not account.by_hand:
            return self.level  # arrays are kept of the first training steps only
        return account.level

    def _say_skipped(self, account: _Account) -> None:
        """Queue, under the lock, how many executions lie between this row and the last one."""
        self._queue.append(Noted(0, 0, Skipped(account.node, account.skipped)))
        account.skipped = 0

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
        grown, self._seen_queued = queued - self._seen_queued, queued
        self._since_ns = now
        waited = min(written, self._idle(lasted))
        return Window(
            program_ns=max(lasted - observing - waited, lasted // 50),
            observing_ns=observing,
            writing_ns=self._writing(written, grown, loads),
            loads=loads,
        )

    def _idle(self, lasted: int) -> int:
        """How long this thread did not run: the most that it can have waited for the writer."""
        me, cpu = threading.get_ident(), time.thread_time_ns()
        before, self._thread_cpu = self._thread_cpu, (me, cpu)
        return max(lasted - (cpu - before[1]), 0) if before[0] == me else lasted

    def _writing(self, written: int, grown: int, loads: list[Load]) -> int:
        """What writing costs that was asked for here; part of it may still lie in the queue."""
        asked = sum(_weight(each) for each in loads)
        done = asked - grown
        if grown > 0 and done < asked // 4:
            return max(written, int(self._governor.priced_ns(loads)))
        return int(written * asked / done) if grown > 0 else written

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
            self._note(self.governed(), _RECORD_BYTES, always=False)
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
            self._note(found, _RECORD_BYTES * (1 + len(found.nodes)), always=True)
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


def _ceiling(account: _Account) -> Level:
    top = account.rungs[0]
    assert top != "thinned"
    assert top != "counted"
    return top


def _weight(load: Load) -> int:
    """About what the executions weighed in the queue."""
    rung = load.rungs[load.rung]
    if rung == "counted":
        return 0
    if rung == "thinned":
        return _RECORD_BYTES * load.runs // EVERY
    if rung == "timing" or rung == "graph":
        return _RECORD_BYTES * load.runs
    return _RECORD_BYTES * load.runs + _ARRAY_BYTES * load.outputs + load.nbytes


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
