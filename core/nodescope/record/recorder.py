"""Recorder: the probe that takes down what a run does, and the thread that writes it.

On the program's thread an event is numbered and put into a queue; arrays are copied first, since
the program may change them afterwards. Statistics and disk are the business of the other thread.

Invariant: `emit` never waits for the disk and never raises. What does not fit is counted, values
first. A recording that cannot be written any more is given up with one message.
"""

from __future__ import annotations

import ctypes
import fnmatch
import os
import sqlite3
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from nodescope.record import ending
from nodescope.record.batch import Batch, Noted, Ran, Timed, Told
from nodescope.record.buffers import Buffers, layouts_of
from nodescope.record.room import Room, lost
from nodescope.record.rows import FAILED, Advice, Dropped, Timings
from nodescope.record.summary import TensorSummary, summarise
from nodescope.record.waiting import Waiting
from nodescope.record.writer import Writer

MIB = 1 << 20
BATCH_S = 0.05
_STILL_S = 0.5
_BATCH_ITEMS = 32_768
_BATCH_BYTES = 8 * MIB
# What one queued record weighs beside its arrays.
_RECORD_BYTES = 320
_ARRAY_BYTES = 160
# Of the queue, what is kept free of values, so that executions still fit when values do not.
_RESERVED = 8

Chosen = tuple[Callable[[Node], bool], Level]
"""Of which nodes, and their level."""


class Recorder:
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
        # Whether nodes have levels of their own; without, none is looked up.
        self._by_node = bool(self._levels or self._chosen)
        for each in (level, *self._levels.values(), *(each for _, each in self._chosen)):
            if each not in LEVELS:
                raise RecordingError(f"unknown capture level {each!r}", hint=f"one of {LEVELS}")
        self.path = Path(path).absolute()
        self.level: Level = level
        self.on_commit = on_commit
        self.on_fault = on_fault or _print_fault
        self._on_room = on_room or (lambda full, text: self.on_fault(text))
        self._room = Room(self._full, self._emptied)
        self._dropped_before = self._dropped_now = Dropped()  # as of the last two commits
        self._value_steps = value_steps
        self._level_of: dict[int, Level] = {}
        self._budget_bytes = budget_bytes
        self._everything = False
        self._watched: frozenset[int] = frozenset()  # nodes that somebody looks at
        self._queue_bytes = queue_bytes
        # A tuple weighs _RECORD_BYTES; the others say what they weigh.
        self._queue: deque[Timed | Ran | Noted] = deque()
        self._buffers = Buffers(queue_bytes - queue_bytes // 4)
        self._newest = False  # whether `_remember` wants to know
        self._waiting = Waiting(self._buffers.give_back)
        self._plain = level == "timing" and not self._by_node
        self._awake = False
        self._queued = 0
        self._seq = 0
        self._committed = 0
        self._dropped_blobs = 0
        self._lost_executions = 0
        self._lost_summaries = 0
        self._missed: deque[int] = deque()
        self._lock = threading.RLock()  # a signal handler may compute here, too
        self._here = threading.local()
        self._wanted = threading.Event()
        self._hurry = threading.Event()
        # Cleared to have the writer stand still between two batches, for `_STILL_S` at most; set
        # again by `_hush(False)`.
        self._may_write = threading.Event()
        self._may_write.set()
        self._still = False
        self._progress = threading.Condition(threading.Lock())
        self._closing = self._leaving = False
        self._off = False
        self._forked = False
        self._fault = ""
        self.operations = self.leaves = 0  # nodes that were defined, by whether they compute
        self._writer = Writer(self.path, budget_bytes=budget_bytes)
        self._batch = Batch(self._writer, level=level)
        self._thread = threading.Thread(target=self._work, name="nodescope-recorder", daemon=True)
        self._thread.start()
        _recorders.add(self)

    # ------------------------------------------------------------ the program's side

    def emit(self, event: Event) -> None:
        """Number an event and queue it."""
        if self._off:
            return
        if event.__class__ is NodeFinished:
            if not self._plain:
                self._finished(event)
                return
            # At level timing each nanosecond counts, so this is `_finished` and `_put` in one.
            node = event.node.id
            step, thread = event.step, event.thread
            start_ns, end_ns = event.start_ns, event.end_ns
            with self._lock:
                self._seq = seq = self._seq + 1
                if self._queued + _RECORD_BYTES > self._queue_bytes:
                    self._lost_executions += 1
                    self._missed.append(node)
                else:
                    self._queued += _RECORD_BYTES
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
            bytes_ = 2 * _RECORD_BYTES
            if isinstance(event, Logged):
                bytes_ += 4 * len(event.text)
            elif isinstance(event, ValueEdited):
                bytes_ += event.array.nbytes
            structure = not isinstance(event, Logged)
            if isinstance(event, GraphExtended):
                self._forget_levels(event)
                leaves = sum(each.family == "leaf" for each in event.nodes)
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
            self._note(line, 2 * _RECORD_BYTES + 4 * len(text), always=True)

    def add(self, document: Advice | Timings) -> None:
        """Record what to do about a run without operations, or how long it takes unobserved."""
        if not self._off:
            self._note(document, 2 * _RECORD_BYTES, always=True)

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

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Wait until everything emitted so far can be read; False if that was not to be had."""
        if self._forked or threading.current_thread() is self._thread:
            return False
        self._share()
        wanted = self._seq
        if self._committed >= wanted:
            return True
        self._may_write.set()
        self._hurry.set()
        self._wanted.set()
        with self._progress:
            self._progress.wait_for(
                lambda: self._committed >= wanted or self._off or self._room.missing,
                timeout=timeout_s,
            )
        return self._committed >= wanted

    def close(
        self, timeout_s: float = ending.STILL_S, slow: Callable[[], None] = lambda: None
    ) -> bool:
        """Write the rest and leave one portable file; False if not all of it could be written.

        Waits while the writer gets on, see `ending.wait_for`. What is left then is dropped and
        counted; so it is at Ctrl-C, which is raised after that.
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
            ended = ending.wait_for(self._thread, lambda: self._committed, slow, still_s=timeout_s)
        finally:
            if not ended:
                self._leaving = True
                self._room.leave()
                self._thread.join(ending.LEAVING_S)
        return ended and not self._fault

    def _finished(self, event: NodeFinished) -> None:
        node = event.node
        level = self.level if not self._by_node else self._level(node)
        row = (node.id, event.step, event.thread, event.start_ns, event.end_ns)
        if level == "timing" or level == "graph":
            self._put(row, _RECORD_BYTES, latest_only=level == "graph")
            if self._newest:
                self._remember(event, None)
            return
        outputs = node.outputs
        weight = _RECORD_BYTES
        for array in event.outputs:
            weight += array.nbytes + _ARRAY_BYTES
        room = self._queue_bytes - self._queue_bytes // _RESERVED
        kept: list[tuple[int, Array | TensorSummary]] = []
        copies = None
        try:
            if self._queued + weight > room and not (
                level == "values" and self._make_room(room - weight)
            ):
                # No copy fits, so the statistics are taken on this thread: that costs time only.
                kept = list(zip(outputs, map(summarise, event.outputs), strict=False))
                weight = _RECORD_BYTES * (1 + len(kept))
                if level == "values":
                    with self._lock:
                        self._dropped_blobs += len(kept)
                        self._waiting.given_up += len(kept)
            else:
                # Who remembers a copy gives it back as well.
                copy, users = self._buffers.copy, 1 + (self._newest and level == "summary")
                kept = [(value, copy(array, users)) for value, array in zip(outputs, event.outputs)]  # noqa: B905
                copies = kept
        except MemoryError:
            kept = []
        if not kept and outputs:
            weight = _RECORD_BYTES
            with self._lock:
                self._lost_summaries += len(event.outputs)
        layouts = layouts_of(outputs, event.outputs) if level == "values" else ()
        self._put(row, weight, 0, kept, False, level == "values", "", False, layouts, event.attrs)
        if self._newest and level == "summary":
            self._remember(event, copies)

    def _remember(self, event: NodeFinished, copies: Sequence[tuple[int, Any]] | None) -> None:
        """Called with each execution of which not every element is kept."""

    def _share(self, now_ns: int = 0) -> None:
        """Called before somebody looks, and before the end."""

    def _make_room(self, room: int) -> bool:
        """Have no more than this in the queue: of the oldest arrays, statistics are taken here."""
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
        self._put(row, _RECORD_BYTES + len(error), flags=FAILED, error=error, always=True)

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
                ran = Ran(
                    (seq, *row), weight, flags, outputs, latest_only, keep_arrays, error,
                    layouts, attrs,
                )  # fmt: skip
                self._queue.append(ran)
                if keep_arrays:
                    self._waiting.add(ran)
        self._here.seq = seq
        if not self._awake:
            self._wake()

    def _note(self, event: Told, weight: int, *, always: bool) -> None:
        """Number anything else and queue it."""
        with self._lock:
            self._seq = seq = self._seq + 1
            if self._queued + weight > self._queue_bytes and not always:
                self._lost_executions += 1
            else:
                self._queued += weight
                self._queue.append(Noted(seq, weight, event))
        self._here.seq = seq
        if not self._awake:
            self._wake()

    def _aside(self, event: HostSpan) -> None:
        """Queue what happened between records; it has no number of its own."""
        with self._lock:
            if self._queued + _RECORD_BYTES > self._queue_bytes:
                return
            self._queued += _RECORD_BYTES
            self._queue.append(Noted(0, _RECORD_BYTES, event))
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
        for covers, each in self._chosen:
            if covers(node):
                return each
        for pattern, each in self._levels.items():
            if is_within(node.scope, pattern) or fnmatch.fnmatchcase(node.name, pattern):
                return each
        return None

    def _forget_levels(self, event: GraphExtended) -> None:
        for node in event.nodes:
            self._level_of.pop(node.id, None)

    # ------------------------------------------------------------ the recorder's side

    def _work(self) -> None:
        try:
            while True:
                self._still = True
                self._wanted.wait()
                if not self._closing:
                    self._gather()
                self._still = False
                self._hurry.clear()
                self._wanted.clear()
                self._awake = False
                closing = self._closing
                # Read once: executions that a governor leaves out are numbered all the time.
                wanted, due = self._seq, len(self._queue)
                # What comes meanwhile gathers again: a batch for each record costs more than it.
                while self._committed < wanted or (self._queue and (due > 0 or self._pressed())):
                    if not self._may_write.is_set():
                        self._still = True
                        self._may_write.wait(_STILL_S)  # longer, and the queue would fill
                        self._may_write.set()
                        self._still = False
                    due -= self._write_some()
                if closing:
                    break
            self._off = True
            self._writer.finish()
        except Exception as error:  # whatever it is, the program must not notice
            self._give_up(error)
        with self._progress:
            self._progress.notify_all()

    def _gather(self) -> None:
        """Let a batch gather; a stop that waits for it cuts this short."""
        self._hurry.wait(BATCH_S / 2)

    def _pressed(self) -> bool:
        """Whether nothing gathers: somebody waits for it, or room runs out."""
        much = self._queued > self._queue_bytes // _RESERVED
        return much or self._closing or self._hurry.is_set()

    def _hush(self, wanted: bool) -> bool:
        """Have the writer stand still before its next batch, or go on; whether it stands now."""
        if not wanted:
            self._may_write.set()
            return False
        self._may_write.clear()
        return self._still

    def _write_some(self) -> int:
        """Write a batch; how many of the queue it took."""
        batch, queue = self._batch, self._queue
        if self._leaving:
            self._leave_out()
        deadline = time.monotonic() + BATCH_S
        weight = taken = outputs = 0
        timed: list[Timed] = []
        with self._lock:
            everything = self._seq
        while queue and taken < _BATCH_ITEMS:
            with self._lock:  # what is in the queue is changed by `_room`
                item = queue.popleft()
                if type(item) is Ran:
                    self._waiting.taken(item)
            taken += 1
            if type(item) is tuple:
                timed.append(item)  # type: ignore[arg-type]
                continue
            weight += item.weight  # type: ignore[union-attr]
            if type(item) is Ran:
                weight -= self._waiting.freed.pop(item.timed[0], 0)
                batch.ran(item)
                outputs += sum([each.nbytes for _, each in item.outputs])
                if outputs > _BATCH_BYTES or time.monotonic() > deadline:
                    break
            else:
                batch.event(item.seq, item.event)  # type: ignore[union-attr]
        batch.timed(timed)
        weight += len(timed) * _RECORD_BYTES
        while self._missed:
            batch.missed(self._missed.popleft())
        # Records that were lost leave gaps, which end where the queue is drained.
        seq = max(batch.seq, self._committed if queue else everything)
        blobs = self._room.write(lambda: self._commit(seq), self._writer.roll_back)
        with self._lock:
            self._queued -= weight
            self._dropped_blobs += blobs
        for copied in batch.written:
            self._buffers.give_back(copied)
        batch.written = []
        with self._progress:
            self._committed = max(seq, self._committed)
            self._progress.notify_all()
        if self.on_commit is not None:
            self.on_commit(self._committed)
        return taken

    def _commit(self, seq: int) -> int:
        """Write the batch; how many arrays fell to the budget."""
        dropped = self._dropped()
        blobs = self._batch.commit(seq, dropped).blobs - dropped.blobs
        self._dropped_before, self._dropped_now = self._dropped_now, dropped
        return blobs

    def _dropped(self) -> Dropped:
        with self._lock:
            return Dropped(self._dropped_blobs, self._lost_summaries, self._lost_executions)

    def _full(self, text: str) -> None:
        with self._progress:
            self._progress.notify_all()
        self._on_room(True, text)

    def _emptied(self) -> None:
        self._on_room(False, lost(self._dropped_before, self._dropped_now))

    def _leave_out(self) -> None:
        """Drop the executions that wait to be written; nodes, steps and the end are kept."""
        with self._lock:
            rest = [each for each in self._queue if isinstance(each, Noted)]
            self._lost_executions += len(self._queue) - len(rest)
            self._queue.clear()
            self._queue.extend(rest)

    def _give_up(self, error: Exception) -> None:
        self._off = True
        self._queue.clear()
        self._writer.abandon()
        known = isinstance(error, RecordingError | sqlite3.Error | OSError)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        self._fault = f"the recording stopped, your program continues: {reason}"
        self.on_fault(self._fault)

    def _after_fork(self) -> None:
        """In a forked child there is no writing thread, and the file is the parent's."""
        # No lock is touched: whoever held it in the parent does not exist here.
        self._off = self._forked = True
        # Closing SQLite's connection here could fold up the parent's log. It is never closed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._writer.connection))


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _silence_child() -> None:
    for each in list(_recorders):
        each._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence_child)


def _print_fault(text: str) -> None:
    if sys.__stderr__ is not None:
        print(f"nodescope: {text}", file=sys.__stderr__)
