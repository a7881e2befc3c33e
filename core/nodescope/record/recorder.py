"""Recorder: the probe that takes down what a run does, and the thread that writes it.

On the program's thread an event is numbered and put into a queue; arrays are copied first, since
the program may change them afterwards. Statistics and disk are the business of the other thread.

Invariant: `emit` never waits for the disk and never raises. What does not fit is counted, values
first. A recording that cannot be written any more is given up with one message.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodescope.arrays import ops_of
from nodescope.errors import RecordingError
from nodescope.events import (
    LEVELS,
    Array,
    Event,
    GradientReached,
    GraphExtended,
    HostSpan,
    Level,
    Logged,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    StepStarted,
    ValueEdited,
)
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.record import shutdown
from nodescope.record.batch import QueuedExecution, QueuedRecord, Told
from nodescope.record.buffers import layouts_of
from nodescope.record.queue_writer import MIB, RECORD_BYTES, RESERVED, QueueWriter
from nodescope.record.rows import FAILED, Advice, Timings
from nodescope.record.summary import TensorSummary, summarise

_ARRAY_BYTES = 160
_ndarray = np.ndarray

Chosen = tuple[Callable[[Node], bool], Level]
"""A predicate on nodes, and their level."""


class Recorder(QueueWriter):
    """Records a run into a file. A probe.

    Args:
        path: The ``.nscope`` file. A recording that is there is replaced.
        level: What is kept of each execution.
        levels: Other levels for scopes or globs over node names, the first match wins.
        chosen: Levels of the nodes of which this is true, before ``levels``; the first match wins.
        budget_bytes: How much of full arrays is kept at level ``values``; the newest win.
        value_steps: At level ``values``: full arrays of the first so many training steps only, and
            statistics of what follows.
        queue_bytes: How much may wait to be written.
        on_commit: Called in the recorder's thread with the seq up to which all can be read.
        on_fault: Called once, with one line, if the recording has to be given up.
        on_room: Called in the recorder's thread with True and one line when the disk is full, with
            False and what is missing when there is room again.

    Raises:
        RecordingError: The file cannot be created.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        level: Level = "summary",
        levels: Mapping[str, Level] | None = None,
        chosen: Sequence[Chosen] = (),
        budget_bytes: int = 256 * MIB,
        value_steps: int | None = None,
        queue_bytes: int = 64 * MIB,
        on_commit: Callable[[int], None] | None = None,
        on_fault: Callable[[str], None] | None = None,
        on_room: Callable[[bool, str], None] | None = None,
    ) -> None:
        self._levels = dict(levels or {})
        self._chosen = tuple(chosen)
        # Whether nodes have levels of their own, to be looked up.
        self._by_node = bool(self._levels or self._chosen)
        for name in (level, *self._levels.values(), *(named for _, named in self._chosen)):
            if name not in LEVELS:
                raise RecordingError(f"unknown capture level {name!r}", hint=f"one of {LEVELS}")
        super().__init__(
            Path(path).absolute(), level=level, budget_bytes=budget_bytes, queue_bytes=queue_bytes,
            on_commit=on_commit, on_fault=on_fault, on_room=on_room,
        )  # fmt: skip
        self.level: Level = level
        self._value_steps = value_steps
        self._level_of: dict[int, Level] = {}
        self._everything = False
        self._watched: frozenset[int] = frozenset()  # nodes that somebody looks at
        self._newest = False  # whether `_remember` wants to know
        self._plain = level == "timing" and not self._by_node
        self._here = threading.local()
        self.operations = self.leaves = 0  # nodes that were defined, by whether they compute
        self._begin()

    # ------------------------------------------------------------ the program's side

    def emit(self, event: Event) -> None:
        """Number an event and queue it."""
        if self._off:
            return
        if event.__class__ is NodeFinished:
            if not self._plain or event.lane or event.worker:
                self._finished(event)
                return
            # At level timing each nanosecond counts, so this is `_finished` and `_put` in one.
            node = event.node.id
            step, thread = event.step, event.thread
            start_ns, end_ns = event.start_ns, event.end_ns
            with self._lock:
                self._seq = seq = self._seq + 1
                if self._queued + RECORD_BYTES > self._queue_bytes:
                    self._lost_executions += 1
                    self._missed.append(node)
                else:
                    self._queued += RECORD_BYTES
                    self._queue.append((seq, node, step, thread, start_ns, end_ns))
            self._here.seq = seq
            if not self._awake:
                self._wake()
        elif isinstance(event, NodeStarted | GradientReached):
            pass
        elif isinstance(event, NodeFailed):
            self._failed(event)
        elif isinstance(event, HostSpan):
            self._aside(event)
        else:
            bytes_ = 2 * RECORD_BYTES
            if isinstance(event, Logged):
                bytes_ += 4 * len(event.text)
            elif isinstance(event, ValueEdited):
                bytes_ += event.array.nbytes
            structure = not isinstance(event, Logged)
            if isinstance(event, GraphExtended):
                self._forget_levels(event)
                leaves = sum(defined.is_leaf for defined in event.nodes)
                self.leaves += leaves
                self.operations += len(event.nodes) - leaves
            elif isinstance(event, StepStarted):
                self._step_begins(event)
            self._note(event, bytes_, always=structure)

    def missed(self, node: Node) -> None:
        """Count an execution of which nothing is known."""
        with self._lock:
            self._seq += 1
            self._lost_executions += 1
            self._missed.append(node.id)

    def remark(self, text: str, step: int, time_ns: int) -> None:
        """Record a line of our own, whatever waits to be written."""
        if not self._off:
            line = Logged("nodescope", text, step, time_ns)
            self._note(line, 2 * RECORD_BYTES + 4 * len(text), always=True)

    def add(self, document: Advice | Timings) -> None:
        """Record what to do about a run without operations, or how long it takes unobserved."""
        if not self._off:
            self._note(document, 2 * RECORD_BYTES, always=True)

    def thread_seq(self) -> int:
        """The seq of the calling thread's last record; of the last one of all if it has none."""
        return getattr(self._here, "seq", self._seq)

    @property
    def last_seq(self) -> int:
        """The seq of the last record so far."""
        return self._seq

    @property
    def threads(self) -> set[int]:
        """The threads that ran nodes so far, by identifier."""
        return self._batch.threads

    @property
    def committed_seq(self) -> int:
        """The seq up to which everything can be read from the file."""
        return self._committed

    @property
    def fault(self) -> str:
        """Why the recording was given up, or ``""``."""
        return self._fault

    @property
    def ended(self) -> bool:
        """Whether nothing is written any more."""
        return not self._thread.is_alive()

    def flush(self, timeout_s: float = 2.0, *, elements: bool = True) -> bool:
        """Wait until everything emitted so far can be read; False if that was not to be had.

        Args:
            timeout_s: For how long at most.
            elements: Otherwise many full arrays may come a moment later, see `owes`.
        """
        if self._forked or threading.current_thread() is self._thread:
            return False
        self._share()
        target = self._seq
        if self._can_be_read(target, elements):
            return True
        if not elements:
            self._hasty = max(target, self._hasty)
        self._may_write.set()
        self._hurry.set()
        self._wanted.set()
        with self._progress:
            self._progress.wait_for(
                lambda: self._can_be_read(target, elements) or self._off or self._room.stuck,
                timeout=timeout_s,
            )
        return self._can_be_read(target, elements)

    def _can_be_read(self, seq: int, elements: bool) -> bool:
        return self._committed >= seq and not (elements and self.owes)

    def close(
        self, timeout_s: float = shutdown.STILL_S, slow: Callable[[], None] = lambda: None
    ) -> bool:
        """Write the rest and leave one portable file; False if not all of it could be written.

        Waits while the writer gets on, see `ending.wait_for`. What is left then is dropped and
        counted; so it is at Ctrl-C, which is raised after that. Where only making one file of it
        takes long, that is left to the next one who opens it.
        """
        if self._forked:
            return False
        self._share()
        self._closing = True
        self._may_write.set()
        self._hurry.set()
        self._wanted.set()
        ended = False
        try:
            ended = shutdown.wait_for(self._thread, self._gets_on, slow, still_s=timeout_s)
        finally:
            if not ended and not self.written:
                self._leaving = True
                self._room.leave()
                self._thread.join(shutdown.LEAVING_S)
        return (ended or self.written) and not self._fault and self._omitted is None

    @property
    def written(self) -> bool:
        """Whether all is written, after `close`; one file may still be made of it."""
        return self._folding_since > 0 and self._omitted is None

    @property
    def left_out(self) -> str:
        """What could not be written in time, in words."""
        return str(self._omitted or self._waits())

    def _finished(self, event: NodeFinished) -> None:
        node = event.node
        level = self.level if not self._by_node else self._level(node)
        row = (node.id, event.step, event.thread, event.start_ns, event.end_ns)
        if level == "timing" or level == "graph":
            place = _place(event)
            self._put(row, RECORD_BYTES, latest_only=level == "graph", place=place)
            if self._newest:
                self._remember(event, None)
            return
        outputs = node.outputs
        weight = RECORD_BYTES
        for array in event.outputs:
            if array.__class__ is not _ndarray:
                self._finished_elsewhere(event, row, level)
                return
            weight += array.nbytes + _ARRAY_BYTES
        room = self._queue_bytes - self._queue_bytes // RESERVED
        kept_outputs: list[tuple[int, Array | TensorSummary]] = []
        copies = None
        try:
            if self._queued + weight > room and not (
                level == "values" and self._make_room(room - weight)
            ):
                # No copy fits, so the statistics are taken on this thread: that costs time only.
                kept_outputs = list(zip(outputs, map(summarise, event.outputs), strict=False))
                weight = RECORD_BYTES * (1 + len(kept_outputs))
                if level == "values":
                    with self._lock:
                        self._dropped_blobs += len(kept_outputs)
                        self._waiting.given_up += len(kept_outputs)
            else:
                # Remembered copies have two users, each of which gives them back.
                copy, users = self._buffers.copy, 1 + (self._newest and level == "summary")
                pairs = zip(outputs, event.outputs)  # noqa: B905 (this is the program's thread)
                kept_outputs = [(value, copy(array, users)) for value, array in pairs]
                copies = kept_outputs
        except MemoryError:
            kept_outputs = []
        if not kept_outputs and outputs:
            weight = RECORD_BYTES
            with self._lock:
                self._lost_summaries += len(event.outputs)
        layouts = layouts_of(outputs, event.outputs) if level == "values" else ()
        self._put(
            row, weight, 0, kept_outputs, False, level == "values", "", False, layouts, event.attrs,
            _place(event),
        )  # fmt: skip
        if self._newest and level == "summary":
            self._remember(event, copies)

    def _finished_elsewhere(
        self, event: NodeFinished, row: tuple[int, int, int, int, int], level: Level
    ) -> None:
        """Of arrays that are not NumPy's: their adapter says what is set aside, and how."""
        captured: list[tuple[int, Any]] = []
        weight = RECORD_BYTES
        lost = 0
        for value, array in zip(event.node.outputs, event.outputs, strict=False):
            ops = ops_of(array)
            if self._queued + weight + ops.nbytes(array) > self._queue_bytes:
                lost += 1
                continue
            try:
                content = ops.capture(array, level)
            except Exception:  # of the library; the program goes on
                lost += 1
                continue
            if content is not None:
                captured.append((value, content))
                weight += content.nbytes + _ARRAY_BYTES
        if lost:
            with self._lock:
                self._lost_summaries += lost
        keeps = level == "values"
        self._put(
            row, weight, 0, captured, False, keeps, "", False, (), event.attrs, _place(event), True
        )

    def _remember(self, event: NodeFinished, copies: Sequence[tuple[int, Any]] | None) -> None:
        """Called with each execution of which some elements are not kept."""

    def _share(self, now_ns: int = 0) -> None:
        """Called before a reader looks, and before the end."""

    def _make_room(self, room: int) -> bool:
        """Reduce the queue to ``room``: the oldest arrays are replaced by statistics."""
        with self._lock:
            freed, given_up = self._waiting.free(self._queued - room)
            self._queued -= freed
            self._dropped_blobs += given_up
            return self._queued <= room

    def _step_begins(self, event: StepStarted) -> None:
        """Called when a training step begins, before it is numbered."""
        if self._value_steps is not None and event.step > self._value_steps:
            self.level = "summary" if self.level == "values" else self.level

    def _failed(self, event: NodeFailed) -> None:
        row = (event.node.id, event.step, event.thread, event.start_ns, event.start_ns)
        error = event.error or "failed"
        self._put(row, RECORD_BYTES + len(error), flags=FAILED, error=error, always=True)

    def _put(
        self,
        row: tuple[int, int, int, int, int],
        weight: int,
        flags: int = 0,
        outputs: Sequence[tuple[int, Array | TensorSummary]] = (),
        latest_only: bool = False,
        keep_arrays: bool = False,
        error: str = "",
        always: bool = False,
        layouts: tuple[tuple[int, tuple[int, ...]], ...] = (),
        attrs: dict[str, Any] | None = None,
        place: tuple[int, int] | None = None,
        unresolved: bool = False,
    ) -> None:
        """Number an execution and queue it; ``row`` is a `Timed` without its seq."""
        with self._lock:
            self._seq = seq = self._seq + 1
            if self._queued + weight > self._queue_bytes and not always:
                self._lost_executions += 1
                self._missed.append(row[0])
                self._lost_summaries += len(outputs)
            else:
                self._queued += weight
                ran = QueuedExecution(
                    (seq, *row), weight, flags, outputs, latest_only, keep_arrays, error,
                    layouts, attrs, place, unresolved,
                )  # fmt: skip
                self._queue.append(ran)
                if keep_arrays and not unresolved:
                    self._waiting.add(ran)
        self._here.seq = seq
        if not self._awake:
            self._wake()

    def _note(self, event: Told, weight: int, *, always: bool) -> None:
        """Number and queue any other record."""
        with self._lock:
            self._seq = seq = self._seq + 1
            if self._queued + weight > self._queue_bytes and not always:
                self._lost_executions += 1
            else:
                self._queued += weight
                self._queue.append(QueuedRecord(seq, weight, event))
        self._here.seq = seq
        if not self._awake:
            self._wake()

    def _aside(self, event: HostSpan) -> None:
        """Queue what happened between records; it has no number of its own."""
        with self._lock:
            if self._queued + RECORD_BYTES > self._queue_bytes:
                return
            self._queued += RECORD_BYTES
            self._queue.append(QueuedRecord(0, RECORD_BYTES, event))
        if not self._awake:
            self._wake()

    def _wake(self) -> None:
        self._awake = True
        self._wanted.set()

    def _level(self, node: Node) -> Level:
        if self._everything or node.id in self._watched:
            return "values"
        level = self._level_of.get(node.id)
        if level is None:
            chosen = self._by_hand(node)
            level = self._level_of[node.id] = self.level if chosen is None else chosen
        return level

    def _by_hand(self, node: Node) -> Level | None:
        """The level that was chosen for a node, if one was."""
        for covers, level in self._chosen:
            if covers(node):
                return level
        for pattern, level in self._levels.items():
            if is_within(node.scope, pattern) or fnmatch.fnmatchcase(node.name, pattern):
                return level
        return None

    def _forget_levels(self, event: GraphExtended) -> None:
        for node in event.nodes:
            self._level_of.pop(node.id, None)


def _place(event: NodeFinished) -> tuple[int, int] | None:
    """The worker and lane of what ran elsewhere than on a thread of the program."""
    return (event.worker, event.lane) if event.worker or event.lane else None
