"""Live watches: watch rules on a running program, and the actions of their hits.

The watcher comes before the gate, so that a hit stops at the very node that caused it.

Invariant: without watches, the watcher is not among the probes and costs nothing. A finding changes
nothing except through its actions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from nodescope.debug.gate.gate import Gate
from nodescope.debug.watch import get
from nodescope.debug.watch.first_step import WORD as RECOMMENDED
from nodescope.debug.watch.first_step import FirstStepProbe
from nodescope.debug.watch.recommend import recommend_for
from nodescope.debug.watch.rule import WatchError
from nodescope.debug.watch.watch import Hit, Watch, describe, parse_watch
from nodescope.debug.watch.watcher import Watcher
from nodescope.events import Array, Bus, Demand, Event, Level, Logged, NodeFinished
from nodescope.ir.demands import StopsAt
from nodescope.ir.graph import Node
from nodescope.protocol import WatchSeen, WatchStatus
from nodescope.record.compiled_functions import captured_graphs
from nodescope.record.recording import Recording

EXIT_STATUS: Final = 3  # the status of a run that a watch ended
RECENT: Final = 8  # the number of latest hits of a watch that are reported


class WatchEnd(SystemExit):
    """A watch with the action ``end`` was hit: the run ends here."""


class LiveWatches:
    """The watches of a run.

    Args:
        bus: The run's bus.
        gate: The gate, which stops the program and reports watches to controllers.
        seq_source: Returns the calling thread's last recorded seq.
        keep: Saves the elements of a value: node, value id, array, seq, step.
        recording: Opens the recording so far; returns None if there is none.
    """

    def __init__(
        self,
        bus: Bus,
        gate: Gate,
        *,
        seq_source: Callable[[], int],
        keep: Callable[[Node, int, Array, int, int], None],
        recording: Callable[[], Recording | None] = lambda: None,
    ) -> None:
        self._bus, self._gate, self._keep, self._recording = bus, gate, keep, recording
        self._lock = threading.Lock()
        self._here = threading.local()
        self._statuses: dict[int, WatchStatus] = {}
        self._watcher = Watcher(
            (), on_hit=self._hit, on_fault=self._fault, seq_source=seq_source,
            held_ns=lambda: bus.held_ns,
        )  # fmt: skip
        self._present = False
        # Executions before the first stop to evaluate later: event, seq, and the ids of watches.
        self._missed: deque[tuple[NodeFinished, int, frozenset[int]]] = deque()

    def emit(self, event: Event) -> None:
        """Evaluate the watches on an event."""
        began = time.perf_counter_ns()
        try:
            if type(event) is NodeFinished:
                while self._missed:
                    self._here.event, seq, watches = self._missed.popleft()
                    self._watcher.catch_up(self._here.event, seq, watches)
                self._here.event = event
            self._watcher.emit(event)
        finally:
            self._here.event = None
            self._bus.watched_ns += time.perf_counter_ns() - began

    def block_level(self) -> Level | None:
        """See `Bus.block_level`: watches are evaluated at each execution."""
        return None if self._watcher.watches else "graph"

    def replace(self, texts: Iterable[str]) -> None:
        """Replace the whole set of watches, given as text.

        Raises:
            WatchError: A watch is invalid; nothing is changed.
        """
        with self._lock:
            ids = {_name(status.text): status.id for status in self._statuses.values()}
        watches = []
        for watch in map(parse_watch, texts):
            known_id = ids.pop(_name(describe(watch)), 0)
            lack = self._gate.shortfall("gradients")
            if not known_id and lack is not None and _only_gradients(watch):
                raise WatchError(f"{watch.rule}: {lack.text}", hint=lack.hint)
            watches.append(msgspec.structs.replace(watch, id=known_id))
        if watches and not self._present:
            self._present = True
            self._bus.add(self, before=self._gate)
            self._tell_what_was_met()
        self._watcher.replace(watches)
        if self._present:
            seen = "watches are set" if self._watcher.watches else ""
            stops_at = _stopping(self._watcher.watches)
            demand = Demand(opened=(self._watcher.wants,), whole=seen, stops_at=stops_at)
            self._bus.want(self, demand)
        with self._lock:
            by_name = {_name(status.text): status for status in self._statuses.values()}
            before = set(self._statuses)
            self._statuses = {watch.id: _status(watch, by_name) for watch in self._watcher.watches}
            new = frozenset(self._statuses) - before
        self._catch_up(new)
        self._tell()

    @property
    def texts(self) -> tuple[str, ...]:
        """The watches as text."""
        with self._lock:
            return tuple(status.text for status in self._statuses.values())

    def add(self, texts: Iterable[str]) -> None:
        """Add watches that are not set yet. Raises `WatchError` as `replace` does."""
        now = self.texts
        names = {_name(text) for text in now}
        new = [text for text in texts if _name(describe(parse_watch(text))) not in names]
        if new:
            self.replace((*now, *new))

    def begin(self, texts: Iterable[str]) -> None:
        """Add the watches with which a run begins; ``recommended`` takes effect after one step.

        Raises:
            WatchError: A watch is invalid; nothing is changed.
        """
        specs = list(texts)
        self.add(spec for spec in specs if spec.strip() != RECOMMENDED)
        if RECOMMENDED in map(str.strip, specs):
            self._bus.add(FirstStepProbe(self._recommend))

    def _catch_up(self, new: frozenset[int]) -> None:
        """At the entry stop, schedule new watches for the leaves that the stopped node reads.

        These ran before the stop, when no watch could be set. The program's thread evaluates them
        when it continues.
        """
        stop = self._gate.info.stop
        recording = self._recording() if new and stop and stop.reason == "entry" else None
        if recording is None or stop is None:
            return
        with recording:
            leaves = {row.node.outputs[0]: row.node for row in recording.nodes()
                      if row.node.is_leaf}  # fmt: skip
        now = self._bus.now_ns()
        for thread, node in self._gate.held_nodes().items():
            for value in dict.fromkeys(node.inputs):
                array = self._gate.live_value(value)
                if value in leaves and array is not None:
                    read = NodeFinished(leaves[value], (), (array,), stop.step, thread, now, now)
                    self._missed.append((read, stop.seq, new))

    def _tell_what_was_met(self) -> None:
        recording = self._recording()
        if recording is not None:
            with recording:
                self._watcher.tell(
                    (row.node for row in recording.nodes()),
                    ((row.value, row.gradient) for row in recording.gradients()),
                    (row.value for row in recording.values()),
                    captured_graphs(recording),
                )

    def _recommend(self, step_ended: bool) -> None:
        recording = self._recording() if step_ended else None
        if recording is None:
            self._log("no training step ended, so no watches can be recommended", 0)
            return
        with recording:
            watches = [recommended.watch for recommended in recommend_for(recording)]
        self.add(map(describe, watches))
        self._log(f"recommended watches set: {', '.join(watch.rule for watch in watches)}", 0)

    def _hit(self, hit: Hit) -> None:
        with self._lock:
            status = self._statuses.get(hit.watch)
            if status is not None:
                sighting = WatchSeen(hit.node, hit.seq, hit.step, hit.text)
                self._statuses[hit.watch] = msgspec.structs.replace(
                    status, hits=status.hits + 1, last=hit.text, node=hit.node, seq=hit.seq,
                    step=hit.step, recent=(sighting, *status.recent[: RECENT - 1]),
                )  # fmt: skip
        self._tell()
        if "save" in hit.actions:
            self._save(hit)
        if "log" in hit.actions or "end" in hit.actions:
            self._log(f"watch {hit.watch}, {hit.text}", hit.step)
        if "end" in hit.actions:
            raise WatchEnd(EXIT_STATUS)
        if "stop" in hit.actions:
            self._gate.break_here(f"Watch {hit.watch}, {hit.text}", "watch", hit.watch)

    def _save(self, hit: Hit) -> None:
        event: NodeFinished | None = getattr(self._here, "event", None)
        if event is not None and hit.value in event.node.outputs:
            array = event.outputs[event.node.outputs.index(hit.value)]
            self._keep(event.node, hit.value, array, hit.seq, event.step)

    def _fault(self, text: str) -> None:
        self._log(text, 0)
        with self._lock:
            for outcome in self._watcher.outcomes:
                status = self._statuses.get(outcome.watch.id)
                if status is not None and outcome.fault:
                    self._statuses[outcome.watch.id] = msgspec.structs.replace(
                        status, enabled=False, message=outcome.fault
                    )
        self._tell()

    def _log(self, text: str, step: int) -> None:
        self._bus.emit(Logged("nodescope", text, step, self._bus.now_ns()))

    def _tell(self) -> None:
        with self._lock:
            statuses = tuple(self._statuses.values())
        self._gate.watches(statuses)


def _status(watch: Watch, statuses: dict[str, WatchStatus]) -> WatchStatus:
    text = describe(watch)
    before = statuses.get(_name(text))
    if before is not None:
        return msgspec.structs.replace(
            before, id=watch.id, text=text, enabled=watch.enabled, message=""
        )
    marks = "mark" in watch.actions
    return WatchStatus(watch.id, text, watch.rule, enabled=watch.enabled, marks=marks)


def _only_gradients(watch: Watch) -> bool:
    return {"gradients", "weight_gradients"}.issuperset(get(watch.rule).applies)


def _stopping(watches: Iterable[Watch]) -> StopsAt:
    """The ops after which watches may stop the program: any op, unless all of them select ops."""
    stop = [watch for watch in watches if watch.enabled and "stop" in watch.actions]
    if not all(watch.select.startswith("op:") for watch in stop):
        return StopsAt(ends=None)
    return StopsAt(ends=frozenset(watch.select.removeprefix("op:") for watch in stop))


def _name(text: str) -> str:
    """The text of a watch without the mark of a disabled one."""
    return text.removeprefix("off ")
