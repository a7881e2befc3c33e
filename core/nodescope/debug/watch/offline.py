"""Watches evaluated against a recording: what they would have found while it ran.

Invariant: the recording is only read. Memory grows with the size of its graph and, up to a limit,
with the hits of one step, but not with its length. Missing data is counted.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from nodescope.debug.watch.evaluator import HOLD_BYTES, WatchEvaluator
from nodescope.debug.watch.observation import ContentSource, ObservedContent
from nodescope.debug.watch.outcome import WatchOutcome
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.watch import Hit, Watch, describe
from nodescope.events import Array, GraphCaptured, Level
from nodescope.ir.graph import Node
from nodescope.record.compiled_functions import captured_graphs
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, Dropped, Execution, GradientRow, Holds, NodeRow
from nodescope.record.summary import TensorSummary

_PAGE = 2000
_MAX_HELD = 10_000


class Asking:
    """Evaluates watches on a recording. Iterating gives the hits in order of seq, once.

    Args:
        recording: Open, finished or being written; what is committed now is evaluated.
        watches: The watches to evaluate.
        after, until: Hits of executions in ``(after, until]`` only. Earlier ones are evaluated,
            too, since rules have state.
        on_fault: Called with one line about a watch that failed and was disabled.
        patience_s: Time limit; the rest of the recording is reported as not evaluated.

    Raises:
        WatchError: A watch is invalid.
    """

    def __init__(
        self,
        recording: Recording,
        watches: Iterable[Watch],
        *,
        after: int = 0,
        until: int | None = None,
        on_fault: Callable[[str], None] = lambda text: None,
        hold_bytes: int = HOLD_BYTES,
        patience_s: float = math.inf,
    ) -> None:
        self._recording = recording
        self._until = time.monotonic() + patience_s
        self._left = 0
        self._after = after
        self._last = recording.last_seq() if until is None else until
        self._evaluator = WatchEvaluator(watches, on_fault=on_fault, hold_bytes=hold_bytes)
        self._evaluator.graph.source = self._source
        self._step = 0
        self._calls: dict[int, dict[str, Any]] = {}
        self._level, self._dropped = recording.run().level, recording.dropped()
        self._holds = Holds(recording.holds())
        self._hits = self._run()

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The watches, with their ids."""
        return self._evaluator.watches

    def ongoing(self, watch: int) -> frozenset[int]:
        """The values that a watch, by its id, hit in its last evaluation."""
        return self._evaluator.ongoing(watch)

    def __iter__(self) -> Iterator[Hit]:
        return self._hits

    def first(self) -> Hit | None:
        """The first hit that was not returned yet, or None; nothing after it is read."""
        return next(self._hits, None)

    def coverage(self) -> Coverage:
        """What could be judged so far."""
        return Coverage(self._level, self._evaluator.outcomes, self._dropped, self._left)

    def _run(self) -> Iterator[Hit]:
        evaluator = self._evaluator
        pending: list[Hit] = []
        # A gradient is judged when its owner is known. Until then, later hits are held back, so
        # that all hits come in order.
        for hits, over in self._hits_by_record():
            pending += (hit for hit in hits if hit.seq > self._after)
            if pending and (over or not evaluator.waits or len(pending) > _MAX_HELD):
                yield from sorted(pending, key=_by_seq)
                pending = []
        evaluator.step_finished()
        pending += evaluator.study(self._step, self._last, over=True)
        yield from sorted(pending, key=_by_seq)

    def _source(self, file: str) -> str:
        return self._recording.source(file) or ""

    def _hits_by_record(self) -> Iterator[tuple[list[Hit], bool]]:
        """The hits of each record, and whether a step ended with it."""
        recording, evaluator = self._recording, self._evaluator
        ends = (
            (row.end_seq, 3, row.step)
            for row in recording.steps()
            if row.end_seq is not None and row.observed
        )
        records: Iterable[tuple[int, int, object]] = heapq.merge(
            ((0, 0, event) for event in captured_graphs(recording)),
            ((row.seq, 0, row) for row in recording.nodes()),
            ((row.seq, 1, row) for row in recording.gradients()),
            ((row.seq, 2, row) for row in self._executions()),
            sorted(ends),
            key=_by_place,
        )
        defined: dict[int, Node] = {}
        evaluator.define((), (row.value for row in recording.values(until=self._last)))
        ran, follows = evaluator.graph.ran, evaluator.follows
        for seq, _, row in records:
            if seq > self._last:
                return
            if isinstance(row, NodeRow):
                defined[row.node.id] = row.node
                evaluator.define((row.node,))
                continue
            elif isinstance(row, GraphCaptured):
                evaluator.graph.capture(row)
                continue
            elif isinstance(row, GradientRow):
                hits = evaluator.paired(row.value, row.gradient)
            elif isinstance(row, Execution):
                node = defined.get(row.node)
                self._step = row.step
                if follows and len(ran) < ProgramGraph.MOST_RAN:
                    ran.append((row.node, seq))
                if node is None or row.node not in evaluator.covered or row.flags & FAILED:
                    continue
                hits = self._judged(node, row)
            else:
                evaluator.step_finished()
                hits = evaluator.study(row if isinstance(row, int) else 0, seq)
                follows = evaluator.follows
                yield [hit for hit in hits if hit.seq <= self._last], True
                continue
            if hits:
                yield hits, False

    def _executions(self) -> Iterator[Execution]:
        after = 0
        while page := self._recording.executions(after, self._last, limit=_PAGE):
            if time.monotonic() > self._until:
                self._left = page[0].step
                return
            self._calls = self._recording.calls(after, page[-1].seq)
            yield from page
            after = page[-1].seq

    def _judged(self, node: Node, row: Execution) -> list[Hit]:
        recording = self._recording

        def output(port: int) -> ContentSource | None:
            return RecordedContent(recording, node.outputs[port], row.seq, exact=True)

        def inputs() -> tuple[ObservedContent, ...]:
            return tuple(
                ObservedContent(RecordedContent(recording, value, row.seq - 1))
                for value in node.inputs
            )

        time_ns = self._holds.ran_ns(row.start_ns + row.duration_ns)
        return self._evaluator.finished(
            node, row.step, row.seq, time_ns, output, inputs, attrs=self._calls.get(row.seq)
        )


class Coverage(msgspec.Struct, frozen=True):
    """What could be judged and what could not.

    Attributes:
        level: The capture level of the recording.
        outcomes: The outcomes of the watches.
        dropped: Counts of what the recording lost.
        left: The first step that was not evaluated, or 0.
    """

    level: Level
    outcomes: tuple[WatchOutcome, ...]
    dropped: Dropped
    left: int = 0

    def words(self) -> list[str]:
        """One line for each watch and reason why it could not be evaluated, and what was lost."""
        lines: list[str] = []
        for outcome in self.outcomes:
            name = describe(outcome.watch).partition(" -> ")[0]
            if outcome.fault:
                lines.append(f"{name} was disabled: {outcome.fault}")
            elif not outcome.values and outcome.watch.enabled:
                lines.append(f"{name}: no value in the recording matches it")
            lines += (f"{name}: {text}" for text in outcome.shortcomings())
            for reason, times in sorted(outcome.unasked.items()):
                lines.append(
                    f"{name}: not evaluated {times} of {outcome.looked} times: {reason} "
                    f"(recorded at level {self.level})"
                )
        if self.left:
            lines.append(f"not evaluated from step {self.left} on: time limit reached")
        if self.dropped.words:
            lines.append(f"not recorded: {self.dropped.words}")
        return lines


class RecordedContent:
    """A value in a recording. It stays readable, so nothing is ever copied.

    Args:
        recording: The recording.
        value: The value's id.
        seq: The content is that of the latest execution up to this one that wrote the value.
        exact: Whether only the execution ``seq`` itself counts.
    """

    __slots__ = ("_exact", "_recording", "_seq", "_value")

    def __init__(self, recording: Recording, value: int, seq: int, *, exact: bool = False) -> None:
        self._recording = recording
        self._value = value
        self._seq = seq
        self._exact = exact

    def summary(self) -> TensorSummary | None:
        """As it was recorded, without whether the array is kept."""
        written = self._recording.latest_at(self._value, self._seq, arrays=False)
        if written is None or (self._exact and written.seq != self._seq):
            return None
        return written.summary

    def array(self) -> Array | None:
        """As it was recorded, read-only."""
        seq = self._seq
        if not self._exact:
            written = self._recording.latest_at(self._value, seq, arrays=False)
            seq = written.seq if written else 0
        return self._recording.array(self._value, seq) if seq else None

    def keep(self, elements: bool, room: int) -> tuple[ContentSource | None, int]:
        """The content itself: a recording is never rewritten."""
        return self, 0


def _by_seq(hit: Hit) -> int:
    return hit.seq


def _by_place(record: tuple[int, int, object]) -> tuple[int, int]:
    return record[:2]
