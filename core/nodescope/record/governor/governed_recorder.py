"""GovernedRecorder: a recorder that keeps less of what costs most, to stay below a slowdown limit.

It measures what recording takes from the program, consults the governor regularly, and applies its
decisions; `boundaries` leaves out whole training steps. Omissions are counted exactly and reported:
in a line when nodes are lowered, in a document of the recording, and in a line at the end.

Invariant: results do not change, every observed execution is numbered, and omissions are counted.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from nodescope.errors import UsageError
from nodescope.events import (
    Bus,
    Demand,
    Event,
    Prices,
    RunStarted,
)
from nodescope.record import shutdown
from nodescope.record.governor.counting_recorder import WITH_ARRAYS, CountingRecorder
from nodescope.record.governor.decisions import Change, Governor, Verdict, Window
from nodescope.record.governor.node_costs import RECORD_BYTES
from nodescope.record.governor.reports import ended, kept, lowered, raised, stuck
from nodescope.record.governor.step_meter import StepMeter
from nodescope.record.governor.step_sampling import ASKED, Pace, StepSampling
from nodescope.record.governor.writer_cost import IdleTime, WriterCost, stood
from nodescope.record.newest.newest_recorder import NewestRecorder
from nodescope.record.rows import Governed, Keeping

_FIRST_NS: Final = 50_000_000
_LONGEST_NS: Final = 500_000_000
# A decision takes at most about this share of the time between two.
_DECIDING: Final = 50
# How long a line about lowered nodes keeps the next one back.
_QUIET_NS: Final = 5_000_000_000
# A program that took no time itself was slowed down by this.
_MOST: Final = 1e6
# Nobody asked for a limit: the start and the end of a run, which cannot be measured, count as well;
# and what is over before anybody notices is better seen whole.
_UNASKED: Final = Pace(share=0.65, unnoticed_ns=100e6)
_MOST_NODES: Final = 10_000
# Of a document that is written while the run goes on, and how often.
_FEW_NODES: Final = 100
_TELLING_NS: Final = 2_000_000_000
_now = time.perf_counter_ns


class GovernedRecorder(CountingRecorder):
    """Records a run into a file and keeps the run below a slowdown. A probe.

    Args:
        path, options: As of `Recorder`; its level and the levels of nodes are the ceiling.
        limit: The slowdown, a number above 1.
        tell: Takes each line for the person; called on the program's thread.
        origin_ns: When the run began, by `time.perf_counter_ns`.
        bus: Of the run: where steps are left out, and where it is said that nobody wants arrays.
            Without one, no step is left out.
        prices: What making events takes on this machine.
        chosen_limit: Whether a person chose the limit; by default nothing is said on the way.

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
        bus: Bus | None = None,
        prices: Prices | None = None,
        chosen_limit: bool = True,
        **options: Any,
    ) -> None:
        bus = bus if bus is not None else Bus()
        self._governor = Governor(limit)
        self._bus = bus
        self._tell_end = tell
        self._tell = tell if chosen_limit else _say_nothing
        self._chosen_limit = chosen_limit
        self._pace = ASKED if chosen_limit else _UNASKED
        self._weighing = threading.Lock()
        self._length_ns = _FIRST_NS
        self._had_traced_ns, self._had_fresh = 0.0, 0
        self._deciding_ns = 0
        self._seen_written_ns = 0
        self._writer_cost, self._idle = WriterCost(), IdleTime()
        self._unsaid: dict[Any, Change] = {}
        self._quiet_until_ns = 0
        self._stuck = self._said_stuck = False
        self._concluded = False
        self._told_counts = (0, 0)
        super().__init__(path, origin_ns=origin_ns, prices=prices or Prices(), **options)
        self._since_ns = self._told_ns = _now()
        self._due_ns = self._since_ns + _FIRST_NS
        self._step_meter = StepMeter(
            bus, limit=limit, pace=self._pace,
            defining_ns=self._prices.defining_ns, spent=self._spent_so_far,
            weigh=self._at_step, hush=self._hush, tell=self._tell,
        )  # fmt: skip
        bus.leaves_out = self._leaves_out
        bus.leaves_out_call = self._leaves_out_call

    # ------------------------------------------------------------ the program's side

    def emit(self, event: Event) -> None:
        """As of `CountingRecorder`."""
        if event.__class__ is RunStarted:
            self._since_ns = self._told_ns = now = _now()
            self._origin_ns = self._bus.origin_ns
            self._due_ns = now + self._length_ns
            self._idle.since(0)
            self._step_meter.begin()
        super().emit(event)

    def close(
        self, timeout_s: float = shutdown.STILL_S, slow: Callable[[], None] = lambda: None
    ) -> bool:
        """Write the rest, with what was left out, and leave one portable file."""
        if not self._forked:
            self._conclude()
        return super().close(timeout_s, slow)

    def governed(self, most_nodes: int = _MOST_NODES) -> Governed:
        """What the governor did so far, with so many nodes at most."""
        with self._lock:
            accounts = {id(account): account for account in self._accounts.values()}
            accounts.update((id(account), account) for account in self._fresh.values())
            missing = [(account.missing(), account) for account in accounts.values()]
        below = [left_out for left_out, account in missing if account.rung or any(account.runs[1:])]
        foremost = heapq.nlargest(
            most_nodes, below, key=lambda row: (row.executions, row.summaries, row.arrays)
        )
        steps = self._step_meter.stepping
        slowdown = steps.slowdown if steps.steps else self._governor.slowdown
        return Governed(
            limit=self._governor.limit,
            slowdown=min(slowdown, _MOST),
            extra_s=(steps.extra_ns if steps.steps else self._governor.extra_ns) / 1e9,
            stuck=self._stuck and slowdown > self._governor.limit,
            by_hand=sum(account.by_hand for _, account in missing),
            lowered=len(below),
            executions=sum(row.executions for row in below),
            summaries=sum(row.summaries for row in below),
            arrays=sum(row.arrays for row in below),
            nodes=tuple(foremost),
            measured=steps.measured,
            steps=steps.steps + self._step_meter.running,
            steps_left_out=steps.left_out + self._step_meter.running_left_out,
            calls=steps.calls,
            calls_left_out=steps.calls_left_out,
            because=self._step_meter.because,
        )

    def _share(self, now_ns: int = 0) -> None:
        """As of `NewestRecorder`; who looks finds the counts of steps up to here as well."""
        super()._share(now_ns)
        if not (now_ns or self._off or self._concluded):
            governed = self.governed(_FEW_NODES)
            if (governed.steps, governed.calls) != self._told_counts:
                self._told_counts = (governed.steps, governed.calls)
                self._enqueue(governed, RECORD_BYTES)

    def keeping(self) -> Keeping:
        """As of `Recorder`."""
        return msgspec.structs.replace(super().keeping(), limit=self._governor.limit)

    def use_prices(self, prices: Prices) -> None:
        """What making events takes has been measured; before nodes of the library have run."""
        self._prices = prices
        self._step_meter.stepping.known.price(prices.defining_ns)

    def keep_whole(self, *, everything: bool, nodes: frozenset[int]) -> None:
        """As of `NewestRecorder`; while everything is kept, no step is left out."""
        super().keep_whole(everything=everything, nodes=nodes)
        self._want()

    def _want(self) -> None:
        whole = "recording everything was requested" if self._everything else ""
        self._bus.want(self, Demand(arrays=self._arrays, whole=whole))

    # ------------------------------------------------------------ now and then

    def _leaves_out(self, step: int) -> bool:
        """See `Bus.leaves_out`; a recorder that was switched off leaves nothing out."""
        if self._off or self not in self._bus.probes:
            return False
        return self._step_meter.leaves_out(step)

    def _leaves_out_call(self, begins: int) -> bool:
        """See `Bus.leaves_out_call`."""
        if self._off or self not in self._bus.probes:
            return False
        if begins < 1:
            self._step_meter.call_ended(broken=begins < 0)
            return False
        leave = self._step_meter.leaves_out_call()
        if not leave:
            self._call_begins()
        return leave

    def _must_see(self) -> None:
        self._step_meter.observe_next()

    @property
    def _unnoticed(self) -> bool:
        """Whether observing has taken so little so far that nothing is to be left out."""
        steps = self._step_meter.stepping
        extra = steps.extra_ns if steps.steps else self._governor.extra_ns
        return extra < self._pace.unnoticed_ns

    def _at_step(self, now: int, left_out_ns: int, early: bool) -> None:
        """A training step begins; what was left out before it is no part of the window."""
        if left_out_ns:
            with self._lock:
                self._since_ns += left_out_ns
                self._due_ns += left_out_ns
            self._idle.since(0)
        if early or now >= self._due_ns:
            self._weigh(now, early=early)
        if self._steps() is None:  # the first of them: from here on executions are not left out
            with self._lock:
                for account in (*self._accounts.values(), *self._fresh.values()):
                    if account.rung > account.least_whole():
                        account.place(account.least_whole())
        self._want()
        if self._step_meter.stepping.left_out and now - self._told_ns > _TELLING_NS:
            self._told_ns = now
            self._note(self.governed(_FEW_NODES), RECORD_BYTES, always=False)

    def _weigh(self, now: int, *, early: bool = False) -> None:
        """Look at what the window cost, and do what the governor says."""
        if not self._weighing.acquire(blocking=False):
            return
        try:
            lasted = now - self._since_ns - self._stood_since(now)
            if lasted < self._length_ns // 2 and not early:  # it stood still for most of it
                self._due_ns = now + self._length_ns - lasted
                return
            # Getting ready, nothing to be decided, or nothing that anybody would notice.
            if not self._touched or self._everything or self._unnoticed:
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

    def _stood_still(self, hold: tuple[int, int]) -> None:
        super()._stood_still(hold)
        self._step_meter.held.append(hold)

    def _stood_since(self, now: int) -> int:
        with self._lock:
            return stood(self._held, self._since_ns, now)

    def _window(self, now: int, lasted: int) -> Window:
        """What the window cost; the next one begins."""
        steps = self._steps()
        with self._lock:
            touched, self._touched = self._touched, []
            loads = [account.load(whole=steps is not None) for account in touched]
            self._held.clear()
            queued = self._queued
            traced, self._had_traced_ns = self._traced_ns - self._had_traced_ns, self._traced_ns
            fresh, self._had_fresh = self._fresh_nodes - self._had_fresh, self._fresh_nodes
        if steps is None:
            extra = traced + fresh * self._prices.defining_ns
        else:
            # Nodes are met once: what that takes says nothing of the steps to come.
            extra = traced * steps.known.tracing
            lasted = max(lasted - int(fresh * steps.known.defining_ns), 0)
        observing = sum(load.observing_ns for load in loads) + int(extra) + self._deciding_ns
        self._deciding_ns = 0
        written = self._written_ns - self._seen_written_ns
        self._seen_written_ns += written
        self._since_ns = now
        waited = min(written, self._idle.since(lasted))
        return Window(
            program_ns=max(lasted - observing - waited, lasted // 50),
            observing_ns=observing,
            writing_ns=self._writer_cost.charge(written, queued, loads),
            loads=loads,
        )

    def _steps(self) -> StepSampling | None:
        """The training steps, if there are any."""
        return self._step_meter.stepping if self._step_meter.step else None

    def _carry_out(self, verdict: Verdict, now: int) -> None:
        for change in verdict.changes:
            key = change.load.key
            account = self._fresh.get(key) or self._accounts.get(key)
            if account is not None:
                with self._lock:
                    account.place(change.rung)
        steps = self._steps()
        if verdict.changes:
            with self._lock:
                all_accounts = (*self._accounts.values(), *self._fresh.values())
                self._arrays = any(candidate.level in WITH_ARRAYS for candidate in all_accounts)
            if steps is not None:
                steps.lighter()
        down = [change for change in verdict.changes if change.rung > change.load.rung]
        if down:
            for change in down:
                first = self._unsaid.get(change.load.key)
                load = change.load if first is None else first.load
                saved = change.saved_ns + (first.saved_ns if first is not None else 0.0)
                self._unsaid[change.load.key] = Change(load, change.rung, saved)
        if self._unsaid and now >= self._quiet_until_ns:
            self._tell(
                lowered(
                    tuple(self._unsaid.values()), verdict.before, verdict.after,
                    self._governor.limit, steps=steps is not None,
                )
            )  # fmt: skip
            self._unsaid = {}
            self._quiet_until_ns = now + _QUIET_NS
            self._note(self.governed(), RECORD_BYTES, always=False)
        if steps is not None:
            return  # what is still too much is for steps that are left out
        self._stuck = self._stuck or verdict.stuck
        if verdict.stuck and not verdict.changes and not self._said_stuck:
            self._said_stuck = True
            self._tell(stuck(verdict, self._governor.limit))

    def _conclude(self, error: str = "") -> None:
        """Say at the end of the run what was left out."""
        with self._weighing:
            if self._concluded:
                return
            self._concluded = True
            if error and self._step_meter.in_the_dark:
                self._tell(raised(self._step_meter.step))
            self._step_meter.end()
            now = _now()
            self._due_ns = 1 << 62
            lasted = now - self._since_ns - self._stood_since(now)
            self._governor.look(self._window(now, max(lasted, 0)))
            governed = self.governed()
            self._note(governed, RECORD_BYTES * (1 + len(governed.nodes)), always=True)
        if self._accounts:
            if self._chosen_limit:
                self._tell_end(ended(governed))
            elif governed.lowered or governed.steps_left_out:
                self._tell_end(kept(self.keeping(), governed))


def _say_nothing(text: str) -> None:
    """What the governor does by default is told at the end, and on the page."""


class EndProbe:
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
    bus: Bus,
    **options: Any,
) -> NewestRecorder:
    """A recorder, governed if there is a limit; arguments as of `GovernedRecorder`."""
    if max_slowdown is None:
        options.pop("chosen_limit", None)
        return NewestRecorder(path, **options)
    return GovernedRecorder(
        path, limit=max_slowdown, tell=tell, origin_ns=bus.origin_ns, bus=bus, **options,
    )  # fmt: skip


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
