"""Watcher: the probe that evaluates watches while a program runs.

It comes after the recorder and before the gate, and reports hits to its callback; stopping is up to
the gate.

Invariant: only reads arrays. A node that no watch covers costs a single set lookup; for the others,
statistics are computed at most once per value and execution.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable

from nodescope.debug.watch.evaluator import HOLD_BYTES, WatchEvaluator
from nodescope.debug.watch.observation import ContentSource, Live, ObservedContent, Target
from nodescope.debug.watch.outcome import WatchOutcome
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.watch import Hit, Watch
from nodescope.events import (
    Event,
    GradientComputed,
    GraphCaptured,
    GraphExtended,
    NodeFinished,
    RunFinished,
    StepFinished,
    StepsUnobserved,
)
from nodescope.ir.capabilities import OWN
from nodescope.ir.graph import Node, Value


class Watcher:
    """Evaluates watches on a running program.

    Args:
        watches: The watches.
        on_hit: Called with each hit on the program's thread; it may return late.
        on_fault: Called with one line about a watch that failed and was disabled.
        seq_source: Returns the calling thread's last recorded seq; without it, executions of
            covered nodes are counted.
        hold_bytes: The limit on bytes of values that are copied until the next step.
        held_ns: Returns the time for which a debugger has held the run so far.

    Raises:
        WatchError: A watch is invalid.
    """

    def __init__(
        self,
        watches: Iterable[Watch],
        *,
        on_hit: Callable[[Hit], None],
        on_fault: Callable[[str], None] = lambda text: None,
        seq_source: Callable[[], int] | None = None,
        hold_bytes: int = HOLD_BYTES,
        held_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._held_ns = held_ns
        self._on_hit = on_hit
        self._on_fault = on_fault
        self._seq_source = seq_source or itertools.count(1).__next__
        self._faults: deque[str] = deque()
        self._lock = threading.Lock()
        self._evaluator = WatchEvaluator(
            watches, on_fault=self._faults.append, hold_bytes=hold_bytes
        )
        self._covered = self._evaluator.covered
        self._follows = self._evaluator.follows
        self._step = 0

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The watches, with their ids."""
        return self._evaluator.watches

    @property
    def outcomes(self) -> tuple[WatchOutcome, ...]:
        """The outcomes of the watches so far."""
        with self._lock:
            return self._evaluator.outcomes

    def ongoing(self, watch: int) -> frozenset[int]:
        """The values that a watch, by its id, hit in its last evaluation."""
        with self._lock:
            return self._evaluator.ongoing(watch)

    def values_of(self, role: Target) -> frozenset[int]:
        """The values that have a role, as far as is known."""
        with self._lock:
            return self._evaluator.values_of(role)

    def wants(self, node: Node) -> bool:
        """Whether a watch names this node or its kind; for `Demand.opened`.

        A compiled kernel that covers such a node is then also run node by node.
        """
        return self._evaluator.wants(node)

    def replace(self, watches: Iterable[Watch]) -> None:
        """Replace the whole set, from any thread. An unchanged watch keeps its state.

        Raises:
            WatchError: A watch is invalid; nothing is changed.
        """
        with self._lock:
            self._evaluator.replace(watches)
            self._follows = self._evaluator.follows

    def tell(
        self,
        nodes: Iterable[Node],
        gradients: Iterable[tuple[int, int]],
        values: Iterable[Value] = (),
        captured: Iterable[GraphCaptured] = (),
    ) -> None:
        """Take in the graph that was recorded before the first event.

        Args:
            nodes: All definitions of nodes, in order.
            gradients: Pairs of a value's id and its gradient's id.
            values: The values in their latest definition.
            captured: Graphs of compiled functions.
        """
        with self._lock:
            self._evaluator.define((), values)
            for event in captured:
                self._evaluator.graph.capture(event)
            self._evaluator.define(node for node in nodes if not self._evaluator.knows(node))
            for value, gradient in gradients:
                self._evaluator.paired(value, gradient)

    def emit(self, event: Event) -> None:
        """Evaluate the watches on an event."""
        kind = type(event)
        if kind is NodeFinished:
            if self._follows:
                self._note(event.node.id)  # type: ignore[union-attr]
            if event.node.id not in self._covered:  # type: ignore[union-attr]
                return
            hits = self._finished(event, self._seq_source())  # type: ignore[arg-type]
        elif isinstance(event, GraphExtended):
            with self._lock:
                self._evaluator.define(event.nodes, event.values)
            return
        elif isinstance(event, GradientComputed):
            with self._lock:
                hits = self._evaluator.paired(event.value, event.gradient)
        elif isinstance(event, StepsUnobserved):
            for part in event.apart():
                self.emit(part)
            return
        elif isinstance(event, StepFinished):
            with self._lock:
                self._evaluator.step_finished()
            hits = self._study(event.step)
        elif isinstance(event, GraphCaptured):
            with self._lock:
                self._evaluator.graph.capture(event)
            return
        elif isinstance(event, RunFinished):
            hits = self._study(self._step, over=True)
        else:
            return
        self._say(hits)

    def _note(self, node: int) -> None:
        """Note for graph rules that a node has run."""
        ran = self._evaluator.graph.ran
        if len(ran) < ProgramGraph.MOST_RAN:
            ran.append((node, 0))

    def _study(self, step: int, *, over: bool = False) -> list[Hit]:
        self._step = step
        with self._lock:
            hits = self._evaluator.study(step, self._seq_source(), over=over)
            self._follows = self._evaluator.follows
        return hits

    def catch_up(self, event: NodeFinished, seq: int, watches: Collection[int]) -> None:
        """Evaluate watches, by their ids, on an execution from before they were set."""
        if event.node.id in self._covered:
            self._say(self._finished(event, seq, watches))

    def _say(self, hits: Iterable[Hit]) -> None:
        while self._faults:
            try:
                fault = self._faults.popleft()
            except IndexError:
                break  # another thread has reported it
            self._on_fault(fault)
        for hit in hits:
            self._on_hit(hit)

    def _finished(
        self, event: NodeFinished, seq: int, only: Collection[int] | None = None
    ) -> list[Hit]:
        outputs = event.outputs

        def output(port: int) -> ContentSource | None:
            return Live(outputs[port]) if port < len(outputs) else None

        def inputs() -> tuple[ObservedContent, ...]:
            # An array that was overwritten in place no longer contains the node's input. Updates of
            # nodescope's own engine are excepted: live and recorded contents agree for them.
            in_place = event.node.writes and event.node.dialect != OWN
            outputs = {id(array) for array in event.outputs} if in_place else set()
            return tuple(
                ObservedContent(None if id(array) in outputs else Live(array))
                for array in event.inputs
            )

        with self._lock:
            return self._evaluator.finished(
                event.node, event.step, seq, event.end_ns - self._held_ns(), output, inputs, only,
                event.attrs,
            )  # fmt: skip
