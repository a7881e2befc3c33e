"""Run check: evaluates watches on every value while a program runs, with exact state.

So the verdicts depend neither on what the recording keeps nor on how fast it is written. Only at
the end is it known which watches suit the program; until then, all candidates are evaluated.

Invariant: a probe after the recorder; it never stops the program.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from nodescope.debug.watch.check_report import report_of
from nodescope.debug.watch.check_verdicts import CheckReport
from nodescope.debug.watch.hit_collection import HitCollection
from nodescope.debug.watch.recommend import candidates, recommend_for
from nodescope.debug.watch.watch import Hit, Watch, head
from nodescope.debug.watch.watcher import Watcher
from nodescope.events import (
    Bus,
    Demand,
    Event,
    GradientComputed,
    GraphExtended,
    NodeFinished,
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording

_MOST_SPANS: Final = 64
_ALL_BYTES: Final = 1 << 62
_OFTEN: Final = 4096  # number of events between reports of weights and losses, without steps


class RunCheck:
    """Evaluates watches on a run, however much that slows it down.

    Args:
        bus: The run's bus, with its recorder already added.
        watches: The watches; disabled ones are left out.
        recommended: Whether to add the watches recommended for the program.
        seq_source: Returns the calling thread's last recorded seq.
        protect: Called with a range of seqs, end excluded, whose arrays must be kept regardless of
            the recording's budget: the step of a first hit, and the step before it.
        keep_values: Called with the value ids of weights and of losses, whose arrays are kept
            longer than all others.

    Raises:
        WatchError: A watch is invalid.
    """

    def __init__(
        self,
        bus: Bus,
        watches: Sequence[Watch],
        *,
        recommended: bool,
        seq_source: Callable[[], int],
        protect: Callable[[int, int], None] = lambda first, end: None,
        keep_values: Callable[[frozenset[int], frozenset[int]], None] = lambda *values: None,
    ) -> None:
        self._bus = bus
        self._chosen = [watch for watch in watches if watch.enabled]
        self._recommended = recommended
        heads = set(map(head, self._chosen))
        others = [watch for watch in candidates() if head(watch) not in heads]
        checked = [*self._chosen, *(others if recommended else ())]
        self._hits = HitCollection()
        self._protect, self._seq_source = protect, seq_source
        self._keep_values = keep_values
        self._kept: tuple[frozenset[int], frozenset[int]] = frozenset(), frozenset()
        self._learns = False  # whether roles of values may have changed
        self._events = 0
        self._begins: deque[int] = deque((0,), maxlen=2)  # seqs of the latest steps
        self._protected = self._spans = 0
        self._watcher = Watcher(
            [msgspec.structs.replace(watch, id=0) for watch in checked],
            on_hit=self._hit, seq_source=seq_source, hold_bytes=_ALL_BYTES,
            held_ns=lambda: bus.held_ns,
        )  # fmt: skip
        bus.add(self)
        bus.want(self, Demand(arrays=True, opened=(self._opens,), whole="the run is checked"))

    def emit(self, event: Event) -> None:
        """Evaluate the watches on an event."""
        began = time.perf_counter_ns()
        self._events += 1
        try:
            if isinstance(event, StepStarted):
                self._begins.append(self._seq_source())
            self._watcher.emit(event)
            if self._learns or event.__class__ is not NodeFinished:
                self._learn(event)
        finally:
            self._bus.watched_ns += time.perf_counter_ns() - began

    def report(self, recording: Recording) -> CheckReport:
        """The report, when the run is over and its recording is complete."""
        reasons: dict[str, str] = {}
        if self._recommended:
            reasons = {head(item.watch): item.reason for item in recommend_for(recording)}
        heads = {*map(head, self._chosen), *reasons}
        outcomes = [item for item in self._watcher.outcomes if head(item.watch) in heads]
        return report_of(recording, outcomes, self._hits, self._watcher.ongoing, reasons)

    def _hit(self, hit: Hit) -> None:
        if self._hits.take(hit) and self._spans < _MOST_SPANS and hit.seq >= self._protected:
            first = max(self._begins[0], self._protected)
            self._protected, self._spans = hit.seq + 1, self._spans + 1
            self._protect(first, self._protected)

    def _learn(self, event: Event) -> None:
        """Report which values are weights and losses, at the end of a step that changed them."""
        if isinstance(event, GraphExtended | GradientComputed):
            self._learns = True
        elif self._learns and (isinstance(event, StepFinished) or not self._events % _OFTEN):
            self._learns = False
            kept = self._watcher.values_of("weights"), self._watcher.values_of("losses")
            if kept != self._kept:
                self._kept = kept
                self._keep_values(*kept)

    def _opens(self, node: Node) -> bool:
        """Whether a kernel that covers this node is also run node by node."""
        telling = node.phase == "forward" and node.family in ("activation", "loss")
        return self._watcher.wants(node) or (self._recommended and telling)
