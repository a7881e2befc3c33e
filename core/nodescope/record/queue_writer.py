"""Queue writer: the recorder's own thread, which turns the queue into a file.

A stop waits for records and statistics only; many full arrays are written after them
(`PendingArrays`), when nobody is waiting.

Invariant: a recording that cannot be written any more is given up with one message.
"""

from __future__ import annotations

import contextlib
import ctypes
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from nodescope.console_output import say
from nodescope.errors import RecordingError
from nodescope.events import Level
from nodescope.processes import refused
from nodescope.record import forks, shutdown
from nodescope.record.batch import Batch
from nodescope.record.buffers import Buffers
from nodescope.record.disk_losses import DiskLosses, LossCounts
from nodescope.record.files.disk_space import DiskSpaceRetry, NoSpace, Omit
from nodescope.record.kept.waiting_packs import WaitingPacks
from nodescope.record.new_file import LARGE_PAGE_BYTES, PAGE_BYTES
from nodescope.record.newest.held_values import Whole
from nodescope.record.newest.nonfinite_retention import Span
from nodescope.record.newest.queue_overflow import OverflowQueue
from nodescope.record.queued import (
    SEVERAL,
    QueuedBlock,
    QueuedExecution,
    QueuedOutputs,
    QueuedRecord,
    QueuedTimes,
    Told,
    first_of,
    specs_of,
)
from nodescope.record.record_queue import BATCH_BYTES, RESERVED, RecordQueue
from nodescope.record.resolving import resolved_execution, resolved_whole
from nodescope.record.rows import Dropped, Unwritten
from nodescope.record.writer import Writer

MIB: Final = 1 << 20
BUDGET_BYTES: Final = 256 * MIB
# Default when whole values are kept only for the newest steps: the held ones, and as much again
# around a first NaN.
NEWEST_BUDGET_BYTES: Final = 128 * MIB
BATCH_S: Final = 0.05
# This many batches count as the first ones of a recording.
_FIRST_BATCHES: Final = 16
# Size of a batch beyond which the writer stops waiting for further records.
_ENOUGH_BYTES: Final = 8 * MIB
# The writer is behind if more than one part in this many of the queue is full.
_BEHIND: Final = 8
# How long the program waits for room before it checks again.
_WAIT_S: Final = 0.1
# Below this budget, arrays are kept or dropped one by one, not in packs.
_LEAST_BUDGET: Final = 16 * MIB
_BATCH_ITEMS: Final = 32_768
# Elements beyond this size are written after the batch when somebody waits for the batch.
_SOON_BYTES: Final = MIB // 4


def budget_of(given: int | None, *, newest: bool = False) -> int:
    """The budget for full arrays: the user's, or the default."""
    return given or (NEWEST_BUDGET_BYTES if newest else BUDGET_BYTES)


class QueueWriter(RecordQueue):
    """The thread that writes the queue, and the counts of losses.

    Args:
        path, level, budget_bytes, queue_bytes, arrays_wait_s, on_commit, on_fault, on_room: As in
            `Recorder`.
        patience: How many times the writer waits for more records before it writes a small batch:
            for the first batches, which show early what the program runs, and for later ones.

    Raises:
        RecordingError: The file cannot be created.
    """

    def __init__(
        self,
        path: Path,
        *,
        level: Level,
        budget_bytes: int,
        queue_bytes: int,
        arrays_wait_s: float,
        on_commit: Callable[[int], None] | None,
        on_fault: Callable[[str], None] | None,
        on_room: Callable[[bool, str], None] | None,
        patience: tuple[int, int] = (1, 1),
    ) -> None:
        super().__init__(queue_bytes)
        self.path = path
        self.on_commit = on_commit
        self.on_fault = on_fault or say
        self._on_room = on_room or (lambda full, text: self.on_fault(text))
        self._room = DiskSpaceRetry(
            self._full, self._emptied, self._wait_begins, lambda: self._writer.merge_log(),
            hurried=self._short_of_memory, ending=lambda: self._closing,
        )  # fmt: skip
        self._disk_losses = DiskLosses()
        self._lost_structure = 0
        self._budget_bytes = budget_bytes
        self._buffers = Buffers(queue_bytes - queue_bytes // 4)
        self._waiting = OverflowQueue(self._buffers.give_back)
        self._patience, self._gathered = patience, 0
        self._clock: int | None = None  # measures the writing thread's processor time
        self._written_ns = 0  # its time after the last batch
        self._committed = 0
        self._dropped_blobs = 0
        self._to_protect: deque[tuple[int, int]] = deque()
        self._to_keep: deque[tuple[frozenset[int], frozenset[int]]] = deque()
        self._hasty = 0  # somebody waits for records up to this seq, but not for their elements
        self._progress = threading.Condition(threading.Lock())
        self._closing = self._leaving = False
        self._fault = ""
        self._folding_since = 0.0  # when merging into one file began, after everything was written
        self._omitted: shutdown.UnwrittenRest | None = None
        page_bytes = LARGE_PAGE_BYTES if level == "values" else PAGE_BYTES
        self._writer = Writer(self.path, budget_bytes=budget_bytes, page_bytes=page_bytes)
        self._packs = WaitingPacks(self._writer.arrays, arrays_wait_s)
        self._batch = Batch(self._writer, level=level)
        self._thread = threading.Thread(target=self._work, name="nodescope-recorder", daemon=True)

    def _begin(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            self._off = True
            self._writer.abandon()
            raise RecordingError(f"nothing can be recorded: {refused(error) or error}") from None
        forks.silence_in_child(self)

    @property
    def behind(self) -> bool:
        """Whether so much is waiting that a further step might find no room in the queue."""
        return self._queued > self._queue_bytes // _BEHIND

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
        """Whether recording has ended."""
        return not self._thread.is_alive()

    def wait_for_room(self, nbytes: int, most_bytes: int) -> None:
        """Wait, on the program's thread, until this many more bytes fit or the queue is empty.

        Does not wait if nothing is being written: the recording was given up, or the disk is full.
        """

        def goes_on() -> bool:
            fits = not self._queued or self._queued + nbytes <= most_bytes
            return fits or self._off or self._closing or self._room.stuck

        while not (goes_on() or self._forked or threading.current_thread() is self._thread):
            self._hurry.set()
            self._wanted.set()
            with self._progress:
                self._progress.wait_for(goes_on, timeout=_WAIT_S)

    def _writes(self) -> bool:
        return super()._writes() and not self._room.stuck

    def protect(self, first: int, end: int) -> None:
        """Protect the arrays of executions with ``first <= seq < end``;
        see `StoredArrays.protect`.
        """
        self._to_protect.append((first, end))

    def keep_values(self, weights: frozenset[int], losses: frozenset[int]) -> None:
        """Keep the arrays of these values longer than all others; see
        `StoredArrays.keep_values`.
        """
        self._to_keep.append((weights, losses))
        if not self._awake:
            self._wake()

    def writer_ns(self) -> int:
        """The processor time of the writing thread so far."""
        try:
            return self._written_ns if self._clock is None else time.clock_gettime_ns(self._clock)
        except OSError:  # the thread is gone
            return self._written_ns

    def _raise_budget(self, budget_bytes: int) -> None:
        """Raise the budget for full arrays from now on."""
        self._budget_bytes = self._writer.arrays.budget_bytes = budget_bytes

    @property
    def owes(self) -> bool:
        """Whether elements of readable executions are still to be written."""
        return self._batch.owed.many > 0 or self._packs.waits()

    def _can_be_read(self, seq: int, elements: bool) -> bool:
        """Whether everything up to ``seq`` is in the file, the arrays included if ``elements``."""
        owes = elements and (self._batch.owed.many > 0 or self._packs.waits(seq))
        return self._committed >= seq and not owes

    @property
    def _due(self) -> bool:
        """Whether elements are to be written now. At the end, packs are written last."""
        return self._batch.owed.many > 0 or (self._packs.due_in() == 0 and not self._closing)

    def attended(self, somebody: bool) -> None:
        """Note whether somebody is following the run: if so, arrays are written at once."""
        if self._packs.attended(somebody):
            self._packs.want(self._seq)
            self._wanted.set()

    def _work(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # not every system has such clocks
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            while True:
                called = self._wanted.wait(self._waits_s())
                if self._failure is not None:
                    raise self._failure
                if called and not self._closing:
                    self._gather()
                self._hurry.clear()
                self._wanted.clear()
                self._awake, self._times.asleep = False, True
                closing = self._closing
                # Read once, because executions that a governor leaves out are numbered, too.
                target, due = self.last_seq, len(self._queue)
                # Records that arrive meanwhile wait for the next batch: a batch for each would cost
                # more.
                while (
                    self._committed < max(target, self._hasty)
                    or self._due
                    or (self._queue and (due > 0 or self._pressed()))
                ):
                    if self._leaving and self._omitted is None:
                        self._leave_out()
                    if self._due and self._committed >= self._hasty:
                        self._settle_some()
                    else:
                        due -= self._write_some()
                if not called and self._room.missing:
                    self._write_some()  # which shows whether there is space again
                if closing:
                    break
            self._settle_rest()
            self._last_record()
            self._off = True
            self._folding_since = time.monotonic()
            self._writer.finish()
        except NoSpace:
            self._end_without_space()
        except Exception as error:  # no fault of the recorder may reach the program
            self._give_up(error)
        with self._progress:
            self._progress.notify_all()

    def _waits_s(self) -> float | None:
        """How long to wait for records; None without limit."""
        waits_s = (self._packs.due_in(), self._room.again_s)
        return min([wait_s for wait_s in waits_s if wait_s is not None], default=None)

    def _gather(self) -> None:
        """Wait for a batch to grow; a stop that waits for the batch ends this at once."""
        self._gathered += 1
        self._gathers = True
        for _ in range(self._patience[self._gathered > _FIRST_BATCHES]):
            if self._hurry.wait(BATCH_S / 2) or self._queued > _ENOUGH_BYTES:
                break
        self._gathers = False

    def _pressed(self) -> bool:
        """Whether a batch must not wait to grow: somebody waits for it, or much is queued."""
        much = self._queued > self._queue_bytes // RESERVED
        return much or self._closing or self._hurry.is_set()

    def _write_some(self) -> int:
        """Write a batch; return the number of records taken from the queue."""
        batch, queue = self._batch, self._queue
        while self._to_keep:
            self._writer.arrays.keep_values(*self._to_keep.popleft())
        while self._to_protect:
            self._writer.arrays.protect(*self._to_protect.popleft())
        deadline = time.monotonic() + BATCH_S
        weight = count = outputs = 0
        with self.lock:
            last_seq = self._seq
        while queue and count < _BATCH_ITEMS and outputs <= BATCH_BYTES:
            with self.lock:  # `_make_room` may change what is in the queue
                lot = first_of(queue)
                kind = type(lot[0])
                if kind is QueuedExecution:
                    self._waiting.taken(lot[-1])
            count += len(lot)
            freed = self._waiting.freed
            for item in lot:
                weight += item.weight
            if kind is QueuedExecution:
                ran: list[QueuedExecution] = lot
                for place, item in enumerate(ran):
                    if item.unresolved:
                        item, lost = resolved_execution(item)
                        ran[place] = item
                        self._lose(Dropped(0, lost, 0))
                    if freed:
                        weight -= freed.pop(item.timed[0], 0)
                    for _, content in item.outputs:
                        outputs += content.nbytes
                batch.ran(ran)
                if time.monotonic() > deadline:
                    break
            elif kind is QueuedBlock:
                batch.block(lot[0])
                outputs += lot[0].weight
            else:
                for item in lot:
                    if item.__class__ is QueuedTimes:
                        count += batch.timed(item) - 1
                        continue
                    if item.__class__ is QueuedOutputs:
                        count += batch.noted(item) - 1
                        outputs += item.weight
                        continue
                    event = item.event
                    if event.__class__ is Whole:
                        event, lost = resolved_whole(event)
                        self._lose(Dropped(lost, 0, 0))
                        outputs += sum(execution.nbytes for execution in event.items)
                    batch.event(item.seq, event)
        while self._missed:
            batch.missed(self._missed.popleft())
        # Lost records leave gaps in the seqs; an empty queue has none up to the last seq.
        seq = max(batch.seq, self._committed if queue else last_seq)
        owed = batch.owed.nbytes
        later = self._committed < self._hasty and (owed > 0 or outputs > _SOON_BYTES)
        self._store(
            lambda dropped, omit: batch.commit(seq, dropped, later=later, omit=omit), seq, weight
        )
        with self.lock:
            self._queued -= weight - (batch.owed.nbytes - owed)
        spans = batch.nonfinite.committed(seq)
        for span in spans:
            self._writer.arrays.protect(span.first, span.end)
        self._looked_at(spans)
        self._written_ns = time.thread_time_ns()
        self._announce()
        return count

    def _looked_at(self, spans: Sequence[Span]) -> None:
        """Handle values that were checked; ``spans`` are the parts of the run to keep whole."""

    def _settle_some(self) -> None:
        """Write some of the owed arrays, or of the packs that are due."""
        batch, owed = self._batch, self._batch.owed.nbytes
        seq = self._committed

        def settle(dropped: Dropped, omit: Omit) -> Dropped:
            if batch.owed.many:
                return batch.settle(seq, dropped, omit=omit)
            return self._packs.settle(self._writer, seq, batch.time_ns, dropped, omit)

        self._store(settle, seq, owed)
        with self.lock:
            self._queued -= owed - batch.owed.nbytes
        if not self.owes:
            self._announce()

    def _settle_rest(self) -> None:
        """Write the packs that wait at the end, straight into the file unless it is being read."""
        if self._packs.many:
            self._writer.leave_log()
        while self._packs.many:
            if self._leaving and self._omitted is None:
                self._leave_out()
            self._settle_some()

    def _store(self, write: Callable[[Dropped, Omit], Dropped], seq: int, nbytes: int) -> None:
        """Write now or when the disk has space; then give back the memory."""

        def attempt(omit: Omit) -> Dropped:
            before = self._dropped()
            return write(before, omit).since(before)

        self._lose(self._room.write(attempt, self._writer.roll_back, nbytes))
        for copied in self._batch.written:
            self._buffers.give_back(copied)
        self._batch.written = []
        self._packs.committed()
        with self._progress:
            self._committed = max(seq, self._committed)

    def _announce(self) -> None:
        """Announce the commit to readers."""
        with self._progress:
            self._progress.notify_all()
        if self.on_commit is not None:
            self.on_commit(self._committed)

    def _dropped(self) -> Dropped:
        with self.lock:
            return Dropped(self._dropped_blobs, self._lost_summaries, self._lost_executions)

    def _lose(self, lost: Dropped) -> None:
        with self.lock:
            self._dropped_blobs += lost.blobs
            self._lost_summaries += lost.summaries
            self._lost_executions += lost.executions

    @property
    def _keeps_many(self) -> bool:
        return self._budget_bytes >= _LEAST_BUDGET

    def _gave_up(self, arrays: int) -> None:
        with self.lock:
            self._dropped_blobs += arrays
            self._waiting.given_up += arrays

    def _losses(self) -> LossCounts:
        with self.lock:
            return LossCounts(self._dropped(), self._waiting.given_up, self._batch.step)

    @property
    def unwritten(self) -> Unwritten:
        """Losses caused by a full disk so far."""
        return self._disk_losses.total(self._losses(), self._lost_structure)

    def _short_of_memory(self) -> bool:
        """Whether the queue is more than half full, or somebody waits for a record."""
        return self._hasty > self._committed or self._queued > self._queue_bytes // 2

    def _full(self, text: str) -> None:
        step = self._writer.arrays.first_step(self._batch.written_step)
        self._disk_losses.begin(self._losses()._replace(step=step))
        self._on_room(True, text)

    def _wait_begins(self) -> None:
        """Release waiting threads: nobody waits for a full disk, see `Recorder.flush`."""
        with self._progress:
            self._progress.notify_all()

    def _emptied(self) -> None:
        gap = self._disk_losses.end(self._losses())
        self._on_room(False, f"recording resumed; missing: {gap.counts()}")

    def _leave_out(self) -> None:
        """Drop the executions waiting to be written; nodes, steps and the end are kept."""
        step = self._writer.arrays.first_step(self._batch.written_step)
        self._disk_losses.begin(self._losses()._replace(step=step), "slow")
        with self.lock:
            self._omitted = self._waits()
            notes = [
                note
                for item in self._queue
                for note in ((item,) if isinstance(item, QueuedRecord) else specs_of(item))
            ]
            self._lost_executions += sum(
                item.many if isinstance(item, SEVERAL) else 1
                for item in self._queue
                if not isinstance(item, QueuedRecord)
            )
            self._queue.clear()
            self._queue.extend(notes)
            self._queued -= self._batch.owed.nbytes
            self._dropped_blobs += self._batch.owed.drop()
            self._dropped_blobs += self._packs.drop()

    def _final_record(self) -> Told | None:
        """The last record, made when all losses are known."""
        return None

    def _last_record(self) -> None:
        record = self._final_record()
        if record is not None:
            with self.lock:
                self._queue.append(QueuedRecord(self._number(), 0, record))
            self._write_some()

    def _end_without_space(self) -> None:
        """Write the end of the run into the space that was set aside for it."""
        batch = self._batch
        self._writer.release_reserve()
        self._writer.merge_log()
        try:
            self._leave_out()
            while self._queue:
                item = self._queue.popleft()
                assert isinstance(item, QueuedRecord)
                batch.event(item.seq, item.event)
            self._lose(batch.left_out(Omit.EXECUTIONS))
            while self._missed:
                batch.missed(self._missed.popleft())
            feared = self._lost_structure = batch.structure  # as if none of it could be written
            self._conclude()
            if self._lost_structure != feared:  # the file reports too many losses: correct it
                with contextlib.suppress(sqlite3.Error):
                    self._conclude()
            self._committed = self._seq
            self._off = True
            self._announce()
            self._folding_since = time.monotonic()
            self._writer.finish()
        except Exception as error:
            self._give_up(error)

    def _conclude(self) -> None:
        """Write the rest of the batch, and the counts of what is missing."""
        record, structure = self._final_record(), self._batch.structure
        self._number()
        if record is not None:
            self._batch.event(self._seq, record)
        unwritten = self._batch.conclude(self._seq, self._dropped())
        self._lost_structure += unwritten - structure

    def _waits(self) -> shutdown.UnwrittenRest:
        """Executions and elements still to be written."""
        left, owed = shutdown.UnwrittenRest(), self._batch.owed
        with self.lock:
            for item in self._queue:
                if isinstance(item, QueuedOutputs) and item.lot.keep:
                    left.add(item.many, item.lot.outputs, item.lot.copied)
                elif isinstance(item, SEVERAL):
                    left.add(item.many, 0, 0)
                elif not isinstance(item, QueuedRecord):
                    arrays = item.outputs if item.keep_arrays else ()
                    left.add(1, len(arrays), sum(array.nbytes for _, array in arrays))
            left.add(0, owed.many + self._packs.many, owed.nbytes + self._packs.nbytes)
        return left

    def _gets_on(self) -> float:
        """A number that changes with the writer's progress. The final merge is one SQLite call, so
        for `FOLDING_S` seconds the passing time counts as progress.
        """
        since = self._folding_since
        if since:
            return min(time.monotonic(), since + shutdown.FOLDING_S)
        return self._writer.moves

    def _give_up(self, error: Exception) -> None:
        self._off = True
        self._queue.clear()
        self._writer.abandon()
        expected = isinstance(error, RecordingError | sqlite3.Error | OSError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        self._fault = f"the recording stopped, your program continues: {reason}"
        self.on_fault(self._fault)

    def after_fork(self) -> None:
        """Handle a fork in the child, which has no writing thread; the file is the parent's."""
        # No lock is touched: the thread that held it in the parent does not exist here.
        self._off = self._forked = True
        # Closing SQLite's connection here could merge the parent's log. It is never closed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._writer.connection))
