"""Checking a program while it runs: watches are evaluated at each value, with exact state.

So a verdict depends neither on what the recording keeps nor on how fast it is written. Which
watches suit the program is known at its end; until then, all that may be recommended run.

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
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording

_MOST_SPANS: Final = 64
_ALL_BYTES: Final = 1 << 62
_OFTEN: Final = 4096  # events, where no steps are marked


class RunCheck:
    """Evaluates watches of a run, which may be slowed for it.

    Args:
        bus: Of the run. Its recorder is there already.
        watches: Which; those that are switched off are left out.
        recommended: Evaluate those as well that are recommended for the program.
        seq_source: Gives the calling thread's last recorded seq.
        protect: Keeps the arrays of executions, from one seq up to, without, another one, whatever
            the recording's budget: those of the step of a first hit, and of the step before.
        keep_values: Keeps the arrays of weights and of losses, by value, longer than all others.

    Raises:
        WatchError: A watch makes no sense.
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
        self._learns = False  # whether it may have become known what a value is
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
        """Take one event: evaluate the watches."""
        began = time.perf_counter_ns()
        try:
            if isinstance(event, StepStarted):
                self._begins.append(self._seq_source())
            self._watcher.emit(event)
            self._learn(event)
        finally:
            self._bus.watched_ns += time.perf_counter_ns() - began

    def report(self, recording: Recording) -> CheckReport:
        """What was found, once the run is over and its recording complete."""
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
        """Say which values are weights and losses, once that has become known."""
        self._events += 1
        if isinstance(event, GraphExtended | GradientComputed):
            self._learns = True
        elif self._learns and (isinstance(event, StepFinished) or not self._events % _OFTEN):
            self._learns = False
            kept = self._watcher.values_of("weights"), self._watcher.values_of("losses")
            if kept != self._kept:
                self._kept = kept
                self._keep_values(*kept)

    def _opens(self, node: Node) -> bool:
        """Whether kernels with this node are run node by node besides."""
        telling = node.phase == "forward" and node.family in ("activation", "loss")
        return self._watcher.wants(node) or (self._recommended and telling)
