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
from nodescope.record.disk_losses import DiskLosses, LossCounts
from nodescope.record.files.disk_space import DiskSpaceRetry, NoSpace, Omit
from nodescope.record.gathering import Gathering, Patience
from nodescope.record.kept.waiting_packs import WaitingPacks
from nodescope.record.new_file import LARGE_PAGE_BYTES, MEDIUM_PAGE_BYTES, PAGE_BYTES
from nodescope.record.newest.held_values import Whole
from nodescope.record.newest.nonfinite_retention import FirstNonfinite, Span
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
from nodescope.record.record_queue import BATCH_BYTES, LEAST_BATCH_BYTES, RecordQueue
from nodescope.record.resolving import resolved_execution, resolved_whole
from nodescope.record.rows import Dropped, Unwritten
from nodescope.record.writer import Writer

MIB: Final = 1 << 20
BUDGET_BYTES: Final = 256 * MIB
# Default when whole values are kept only for the newest steps: the held ones, and as much again
# around a first NaN.
NEWEST_BUDGET_BYTES: Final = 128 * MIB
BATCH_S: Final = 0.05
# How long the program waits for room before it checks again.
_WAIT_S: Final = 0.1
_BATCH_ITEMS: Final = 32_768
# Elements beyond this size are written after the batch when somebody waits for the batch.
_SOON_BYTES: Final = MIB // 4


def budget_of(given: int | None, *, newest: bool = False) -> int:
    """The budget for full arrays: the user's, or the default."""
    return given or (NEWEST_BUDGET_BYTES if newest else BUDGET_BYTES)


class QueueWriter:
    """The thread that writes a queue, and what a full disk cost.

    Args:
        queue: The queue.
        path, level, budget_bytes, arrays_wait_s, on_commit, on_fault, on_room: As in `Recorder`.
        patience: How long the writer waits for more records before it writes a batch.
        looked_at: Called when values were checked, with the parts of the run to keep whole, and
            with what was found.
        final_record: Makes the last record, when all losses are known, if there is one.

    Attributes:
        file: The connection that writes the file.
        budget_bytes: The budget for full arrays.
        disk_losses: What a full disk cost.
        closing: Whether the recording is being ended.
        fault: Why the recording was given up, or ``""``.
        committed_seq: The seq up to which everything can be read from the file.

    Raises:
        RecordingError: The file cannot be created.
    """

    def __init__(
        self,
        queue: RecordQueue,
        path: Path,
        *,
        level: Level,
        budget_bytes: int,
        arrays_wait_s: float,
        on_commit: Callable[[int], None] | None,
        on_fault: Callable[[str], None] | None,
        on_room: Callable[[bool, str], None] | None,
        patience: Patience,
        looked_at: Callable[[Sequence[Span], FirstNonfinite], None],
        final_record: Callable[[], Told | None],
    ) -> None:
        self._queue = queue
        self._looked_at, self._final_record = looked_at, final_record
        self._on_commit = on_commit
        self._on_fault = on_fault or say
        self._on_room = on_room or (lambda full, text: self._on_fault(text))
        self._room = DiskSpaceRetry(
            self._full, self._emptied, self._wait_begins, lambda: self.file.merge_log(),
            hurried=self._short_of_memory, ending=lambda: self.closing,
        )  # fmt: skip
        self.disk_losses = DiskLosses()
        self._lost_structure = 0
        self.budget_bytes = budget_bytes
        self._gathering = Gathering(queue, patience)
        self._clock: int | None = None  # measures the writing thread's processor time
        self._written_ns = 0  # its time after the last batch
        self.committed_seq = 0
        self._to_protect: deque[tuple[int, int]] = deque()
        self._to_keep: deque[tuple[frozenset[int], frozenset[int]]] = deque()
        self._hasty = 0  # somebody waits for records up to this seq, but not for their elements
        self._progress = threading.Condition(threading.Lock())
        self.closing = self._leaving = False
        self.fault = ""
        self._folding_since = 0.0  # when merging into one file began, after everything was written
        self._omitted: shutdown.UnwrittenRest | None = None
        pages = {"summary": MEDIUM_PAGE_BYTES, "values": LARGE_PAGE_BYTES}
        page_bytes = pages.get(level, PAGE_BYTES)
        self.file = Writer(path, budget_bytes=budget_bytes, page_bytes=page_bytes)
        self._packs = WaitingPacks(self.file.arrays, arrays_wait_s)
        self._batch = Batch(self.file, level=level)
        self._thread = threading.Thread(target=self._work, name="nodescope-recorder", daemon=True)
        queue.stuck = lambda: self._room.stuck

    def start(self) -> None:
        """Start the thread.

        Raises:
            RecordingError: There can be no further thread.
        """
        try:
            self._thread.start()
        except RuntimeError as error:
            self._queue.off = True
            self.file.abandon()
            raise RecordingError(f"nothing can be recorded: {refused(error) or error}") from None
        forks.silence_in_child(self)

    @property
    def behind(self) -> bool:
        """Whether more is waiting than the writer gathers for a batch."""
        return self._queue.queued > self._queue.plenty

    @property
    def threads(self) -> set[int]:
        """The threads that ran nodes so far, by identifier."""
        return self._batch.threads

    @property
    def ended(self) -> bool:
        """Whether recording has ended."""
        return not self._thread.is_alive()

    def wait_for_room(self, nbytes: int, most_bytes: int) -> None:
        """Wait, on the program's thread, until this many more bytes fit or the queue is empty.

        Does not wait if nothing is being written: the recording was given up, or the disk is full.
        """

        def goes_on() -> bool:
            fits = not self._queue.queued or self._queue.queued + nbytes <= most_bytes
            return fits or self._queue.off or self.closing or self._room.stuck

        while not (goes_on() or self._queue.forked or self.writes):
            self._queue.hurry.set()
            self._queue.wanted.set()
            with self._progress:
                self._progress.wait_for(goes_on, timeout=_WAIT_S)

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
        if not self._queue.awake:
            self._queue.wake()

    def cpu_ns(self) -> int:
        """The processor time of the writing thread so far."""
        try:
            return self._written_ns if self._clock is None else time.clock_gettime_ns(self._clock)
        except OSError:  # the thread is gone
            return self._written_ns

    def raise_budget(self, budget_bytes: int) -> None:
        """Raise the budget for full arrays from now on."""
        self.budget_bytes = self.file.arrays.budget_bytes = budget_bytes

    @property
    def owes(self) -> bool:
        """Whether elements of readable executions are still to be written."""
        return self._batch.owed.many > 0 or self._packs.waits()

    def _can_be_read(self, seq: int, elements: bool) -> bool:
        """Whether everything up to ``seq`` is in the file, the arrays included if ``elements``."""
        owes = elements and (self._batch.owed.many > 0 or self._packs.waits(seq))
        return self.committed_seq >= seq and not owes

    def wait_until_readable(self, seq: int, *, elements: bool, timeout_s: float) -> bool:
        """Wait as in `Recorder.flush` until everything up to ``seq`` can be read; return whether it
        can be.
        """
        self._packs.want(seq)
        if self._can_be_read(seq, elements) and not self._packs.waits():
            return True
        if not elements:
            self._hasty = max(seq, self._hasty)
        self._queue.hurry.set()
        self._queue.wanted.set()
        with self._progress:
            self._progress.wait_for(
                lambda: self._can_be_read(seq, elements) or self._queue.off or self._room.stuck,
                timeout=timeout_s,
            )
        return self._can_be_read(seq, elements)

    def end(self, still_s: float, slow: Callable[[], None]) -> bool:
        """Write the rest, see `Recorder.close`; False if not everything could be written."""
        self.closing = True
        self._queue.hurry.set()
        self._queue.wanted.set()
        ended = False
        try:
            ended = shutdown.wait_for(self._thread, self._gets_on, slow, still_s=still_s)
        finally:
            if not ended and not self.written:
                self._leaving = True
                self._room.leave()
                self._thread.join(shutdown.LEAVING_S)
        return (ended or self.written) and not self.fault and self._omitted is None

    @property
    def written(self) -> bool:
        """Whether everything is written after `end`; merging into one file may still go on."""
        return self._folding_since > 0 and self._omitted is None

    @property
    def left_out(self) -> str:
        """A description of what could not be written in time."""
        return str(self._omitted or self._waits())

    @property
    def writes(self) -> bool:
        """Whether the calling thread is the writer's."""
        return threading.current_thread() is self._thread

    @property
    def _due(self) -> bool:
        """Whether elements are to be written now. At the end, packs are written last."""
        return self._batch.owed.many > 0 or (self._packs.due_in() == 0 and not self.closing)

    def attended(self, somebody: bool) -> None:
        """Note whether somebody is following the run: if so, arrays are written at once, and
        batches sooner.
        """
        self._gathering.followed = somebody
        if self._packs.attended(somebody):
            self._packs.want(self._queue.seq)
            self._queue.wanted.set()

    def _work(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # not every system has such clocks
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            while True:
                called = self._queue.wanted.wait(self._waits_s())
                if self._queue.failure is not None:
                    raise self._queue.failure
                if called and not self.closing:
                    self._gathering.wait()
                self._queue.hurry.clear()
                self._queue.wanted.clear()
                self._queue.rest()
                closing = self.closing
                # Read once, because executions that a governor leaves out are numbered, too.
                target, due = self._queue.last_seq, len(self._queue.records)
                # Records that arrive meanwhile wait for the next batch: a batch for each would cost
                # more.
                while (
                    self.committed_seq < max(target, self._hasty)
                    or self._due
                    or (self._queue.records and (due > 0 or self._pressed()))
                ):
                    if self._leaving and self._omitted is None:
                        self._leave_out()
                    if self._due and self.committed_seq >= self._hasty:
                        self._settle_some()
                    else:
                        due -= self._write_some()
                if not called and self._room.missing:
                    self._write_some()  # which shows whether there is space again
                if closing:
                    break
            self._settle_rest()
            self._last_record()
            self._queue.off = True
            self._folding_since = time.monotonic()
            self.file.finish()
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

    def _pressed(self) -> bool:
        """Whether a batch must not wait to grow: somebody waits for it, or much is queued."""
        much = self._queue.queued > self._queue.plenty
        return much or self.closing or self._queue.hurry.is_set()

    def _fills(self, nbytes: int) -> bool:
        """Whether a batch with so many bytes of outputs takes no more."""
        return nbytes > (LEAST_BATCH_BYTES if self._queue.crowded else BATCH_BYTES)

    def _release(self, nbytes: int) -> int:
        """Note that so many bytes are no longer queued; return them."""
        with self._queue.lock:
            self._queue.queued -= nbytes
        return nbytes

    def _stays_open(self, began: float) -> bool:
        """Whether a full batch takes more elements, as nobody waits for what it has."""
        if self.closing or max(self._hasty, self._packs.wanted) > self.committed_seq:
            return False
        return self._batch.takes_more() and self._gathering.more(began)

    def _write_some(self) -> int:
        """Write a batch; return the number of records taken from the queue."""
        batch, queue = self._batch, self._queue.records
        while self._to_keep:
            self.file.arrays.keep_values(*self._to_keep.popleft())
        while self._to_protect:
            self.file.arrays.protect(*self._to_protect.popleft())
        began, opened = time.monotonic(), self._gathering.opens
        weight = count = outputs = held = 0  # `held`: bytes of elements that no longer count
        last_seq = self.committed_seq
        while count < _BATCH_ITEMS:
            with self._queue.lock:
                last_seq = last_seq if queue else self._queue.seq
            if (not queue or self._fills(outputs)) and not (held and self._stays_open(began)):
                break
            with self._queue.lock:  # `_make_room` may change what is in the queue
                lot = first_of(queue)
                kind = type(lot[0])
                if kind is QueuedExecution:
                    self._queue.overflow.taken(lot[-1])
            count += len(lot)
            freed = self._queue.overflow.freed
            weight += sum([item.weight for item in lot])
            if kind is QueuedExecution:
                ran: list[QueuedExecution] = lot
                for place, item in enumerate(ran):
                    if item.unresolved:
                        item, lost = resolved_execution(item)
                        ran[place] = item
                        self._queue.lose(Dropped(0, lost, 0))
                    if freed:
                        weight -= freed.pop(item.timed[0], 0)
                    for _, content in item.outputs:
                        outputs += content.nbytes
                batch.ran(ran)
                if time.monotonic() > began + BATCH_S:
                    break
            elif kind is QueuedBlock:
                batch.block(lot[0])
                outputs += lot[0].weight
            else:
                kept = 0
                for item in lot:
                    if item.__class__ is QueuedTimes:
                        count += batch.timed(item) - 1
                        continue
                    if item.__class__ is QueuedOutputs:
                        count += batch.noted(item) - 1
                        outputs += item.weight
                        kept += item.lot.nbytes if opened and item.lot.keep else 0
                        continue
                    event = item.event
                    if event.__class__ is Whole:
                        event, lost = resolved_whole(event)
                        self._queue.lose(Dropped(lost, 0, 0))
                        outputs += sum(execution.nbytes for execution in event.items)
                    batch.event(item.seq, event)
                held += self._release(kept) if kept else 0
        while self._queue.missed_nodes:
            batch.missed(self._queue.missed_nodes.popleft())
        # Lost records leave gaps in the seqs; an empty queue has none up to the last seq.
        seq = max(batch.seq, self.committed_seq if queue else last_seq)
        owed = batch.owed.nbytes
        later = self.committed_seq < self._hasty and (owed > 0 or outputs > _SOON_BYTES)
        self._store(
            lambda dropped, omit: batch.commit(seq, dropped, later=later, omit=omit), seq, weight
        )
        self._release(weight - held - (batch.owed.nbytes - owed))
        spans = batch.nonfinite.committed(seq)
        for span in spans:
            self.file.arrays.protect(span.first, span.end)
        self._looked_at(spans, batch.nonfinite)
        self._written_ns = time.thread_time_ns()
        self._announce()
        return count

    def _settle_some(self) -> None:
        """Write some of the owed arrays, or of the packs that are due."""
        batch, owed = self._batch, self._batch.owed.nbytes
        seq = self.committed_seq

        def settle(dropped: Dropped, omit: Omit) -> Dropped:
            if batch.owed.many:
                return batch.settle(seq, dropped, omit=omit)
            return self._packs.settle(self.file, seq, batch.time_ns, dropped, omit)

        self._store(settle, seq, owed)
        with self._queue.lock:
            self._queue.queued -= owed - batch.owed.nbytes
        if not self.owes:
            self._announce()

    def _settle_rest(self) -> None:
        """Write the packs that wait at the end, straight into the file unless it is being read."""
        if self._packs.many:
            self.file.leave_log()
        while self._packs.many:
            if self._leaving and self._omitted is None:
                self._leave_out()
            self._settle_some()

    def _store(self, write: Callable[[Dropped, Omit], Dropped], seq: int, nbytes: int) -> None:
        """Write now or when the disk has space; then give back the memory."""

        def attempt(omit: Omit) -> Dropped:
            before = self._queue.dropped()
            return write(before, omit).since(before)

        self._queue.lose(self._room.write(attempt, self.file.roll_back, nbytes))
        for copied in self._batch.written:
            self._queue.buffers.give_back(copied)
        self._batch.written = []
        self._packs.committed()
        with self._progress:
            self.committed_seq = max(seq, self.committed_seq)

    def _announce(self) -> None:
        """Announce the commit to readers."""
        with self._progress:
            self._progress.notify_all()
        if self._on_commit is not None:
            self._on_commit(self.committed_seq)

    def losses(self) -> LossCounts:
        """All losses so far."""
        with self._queue.lock:
            return LossCounts(
                self._queue.dropped(), self._queue.overflow.given_up, self._batch.step
            )

    @property
    def unwritten(self) -> Unwritten:
        """Losses caused by a full disk so far."""
        return self.disk_losses.total(self.losses(), self._lost_structure)

    def _short_of_memory(self) -> bool:
        """Whether the queue is more than half full, or somebody waits for a record."""
        return self._hasty > self.committed_seq or self._queue.queued > self._queue.most_bytes // 2

    def _full(self, text: str) -> None:
        step = self.file.arrays.first_step(self._batch.written_step)
        self.disk_losses.begin(self.losses()._replace(step=step))
        self._on_room(True, text)

    def _wait_begins(self) -> None:
        """Release waiting threads: nobody waits for a full disk, see `Recorder.flush`."""
        with self._progress:
            self._progress.notify_all()

    def _emptied(self) -> None:
        gap = self.disk_losses.end(self.losses())
        self._on_room(False, f"recording resumed; missing: {gap.counts()}")

    def _leave_out(self) -> None:
        """Drop the executions waiting to be written; nodes, steps and the end are kept."""
        step = self.file.arrays.first_step(self._batch.written_step)
        self.disk_losses.begin(self.losses()._replace(step=step), "slow")
        with self._queue.lock:
            self._omitted = self._waits()
            notes = [
                note
                for item in self._queue.records
                for note in ((item,) if isinstance(item, QueuedRecord) else specs_of(item))
            ]
            self._queue.lost_executions += sum(
                item.many if isinstance(item, SEVERAL) else 1
                for item in self._queue.records
                if not isinstance(item, QueuedRecord)
            )
            self._queue.records.clear()
            self._queue.records.extend(notes)
            self._queue.queued -= self._batch.owed.nbytes
            self._queue.dropped_blobs += self._batch.owed.drop()
            self._queue.dropped_blobs += self._packs.drop()

    def _last_record(self) -> None:
        record = self._final_record()
        if record is not None:
            with self._queue.lock:
                self._queue.records.append(QueuedRecord(self._queue.number(), 0, record))
            self._write_some()

    def _end_without_space(self) -> None:
        """Write the end of the run into the space that was set aside for it."""
        batch = self._batch
        self.file.release_reserve()
        self.file.merge_log()
        try:
            self._leave_out()
            while self._queue.records:
                item = self._queue.records.popleft()
                assert isinstance(item, QueuedRecord)
                batch.event(item.seq, item.event)
            self._queue.lose(batch.left_out(Omit.EXECUTIONS))
            while self._queue.missed_nodes:
                batch.missed(self._queue.missed_nodes.popleft())
            feared = self._lost_structure = batch.structure  # as if none of it could be written
            self._conclude()
            if self._lost_structure != feared:  # the file reports too many losses: correct it
                with contextlib.suppress(sqlite3.Error):
                    self._conclude()
            self.committed_seq = self._queue.seq
            self._queue.off = True
            self._announce()
            self._folding_since = time.monotonic()
            self.file.finish()
        except Exception as error:
            self._give_up(error)

    def _conclude(self) -> None:
        """Write the rest of the batch, and the counts of what is missing."""
        record, structure = self._final_record(), self._batch.structure
        self._queue.number()
        if record is not None:
            self._batch.event(self._queue.seq, record)
        unwritten = self._batch.conclude(self._queue.seq, self._queue.dropped())
        self._lost_structure += unwritten - structure

    def _waits(self) -> shutdown.UnwrittenRest:
        """Executions and elements still to be written."""
        owed = self._batch.owed
        with self._queue.lock:
            left = shutdown.unwritten(self._queue.records)
            left.add(0, owed.many + self._packs.many, owed.nbytes + self._packs.nbytes)
        return left

    def _gets_on(self) -> float:
        """A number that changes with the writer's progress. The final merge is one SQLite call, so
        for `FOLDING_S` seconds the passing time counts as progress.
        """
        since = self._folding_since
        if since:
            return min(time.monotonic(), since + shutdown.FOLDING_S)
        return self.file.moves

    def _give_up(self, error: Exception) -> None:
        self._queue.off = True
        self._queue.records.clear()
        self._batch.abandon()
        expected = isinstance(error, RecordingError | sqlite3.Error | OSError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        self.fault = f"the recording stopped, your program continues: {reason}"
        self._on_fault(self.fault)

    def after_fork(self) -> None:
        """Handle a fork in the child, which has no writing thread; the file is the parent's."""
        # No lock is touched: the thread that held it in the parent does not exist here.
        self._queue.off = self._queue.forked = True
        # Closing SQLite's connection here could merge the parent's log. It is never closed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.file.connection))
