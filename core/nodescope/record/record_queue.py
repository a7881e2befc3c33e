"""Record queue: records from the program's threads, numbered and waiting to be written.

Invariant: seqs ascend in the order of the queue; a record that does not fit is dropped and counted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from nodescope.events import GraphExtended, NodeFinished, NodesFinished
from nodescope.ir.block_demands import OutputsSink
from nodescope.polling_lock import polling_lock
from nodescope.record.buffers import Buffers
from nodescope.record.newest.queue_overflow import OverflowQueue
from nodescope.record.noted_outputs import MOST_BYTES, NotedLot, noted, noted_outputs
from nodescope.record.noted_times import Rows, count, last_of_threads, nodes, noted_times
from nodescope.record.queued import (
    BLOCK_BYTES,
    RECORD_BYTES,
    SPECS_BYTES,
    TIMES_BYTES,
    Queued,
    QueuedBlock,
    QueuedOutputs,
    QueuedRecord,
    QueuedTimes,
    Respecified,
    Told,
    specs_of,
)
from nodescope.record.rows import Dropped
from nodescope.thread_frames import has_no_room

RESERVED: Final = 8
"""One part in this many of the queue is reserved for executions without values."""
# While the queue is fuller than this, the program gives way to the writer at each execution: it
# holds the interpreter lock so often that the writer would get only half of a processor otherwise.
_NEARLY_FULL: Final = 7 / 8
_GIVES_WAY_S: Final = 1e-4
BATCH_BYTES: Final = 32 << 20
"""The most bytes of outputs in a batch."""

LEAST_BATCH_BYTES: Final = 16 << 20
"""The same while the program waits for room, as the end of each batch makes room."""

PLENTY_BYTES: Final = 24 << 20
"""So much is gathered for a batch by default, in a queue of the default size."""

_ROWS_BYTES: Final = 1 << 18  # the most that the rows of a lot weigh, about

# Before a record is dropped, the program gives way at most once per `_WAITS_FOR` bytes of it, and
# `_MOST_WAITS` times in all. On a busy machine, the writer takes 50 ms per MiB.
_WAITS_FOR: Final = 1024
_MOST_WAITS: Final = 4096
# Waits get longer, up to so many moments: each ends with a hand-over of the interpreter lock.
_MOST_MOMENTS: Final = 16
_LOTS: Final = 16  # noted outputs are queued once they fill one part in this many of the queue


class RecordQueue:
    """The queue, its numbers, and the counts of what did not fit.

    Args:
        most_bytes: Upper limit of what waits to be written.
        keeps_many: Whether arrays may be kept in packs, many in one row of the file.
        plenty: See below; at most three eighths of the queue.

    Attributes:
        lock: Held while records are numbered and queued.
        records, queued: The records that wait to be written, and their weight in bytes.
        seq: The seq of the last numbered record; see `last_seq`.
        plenty: The queued bytes beyond which the writer stops waiting for more: each batch rewrites
            the last page of each table, so a few large ones cost less.
        nearly_full: The queued bytes beyond which the program gives way to the writer.
        off, forked: Whether recording has stopped; whether this is a copy in a child process.
        failure: A fault in the queue, which the writer raises again on its thread.
        buffers: The memory of copied arrays.
        overflow: The queued executions with arrays, which are given up if the writer is behind.
        missed_nodes: The nodes of executions without a record.
        dropped_blobs, lost_summaries, lost_executions: See `dropped`.
        wanted, hurry: Whether there is something to write; and whether it must not wait for more.
        awake, gathers: Whether the writer was woken; whether it waits for a batch to grow.
        stuck: Whether the writer cannot write, because the disk is full.
    """

    def __init__(
        self, most_bytes: int, *, keeps_many: bool = True, plenty: int = PLENTY_BYTES
    ) -> None:
        self.most_bytes = most_bytes
        self.plenty = min(plenty, 3 * most_bytes // RESERVED)
        self.nearly_full = int(most_bytes * _NEARLY_FULL)
        self.records: deque[Queued] = deque()
        self._last: dict[int, int] = {}  # the last seq of each thread, by its identifier
        self.awake = self._queueing = False
        self.off = self.forked = False
        self.failure: Exception | None = None
        self.stuck: Callable[[], bool] = lambda: False
        self._keeps_many = keeps_many
        self.buffers = Buffers(most_bytes - most_bytes // 4)
        self.overflow = OverflowQueue(self.buffers.give_back)
        self.queued = self.seq = 0
        self._times: Any = noted_times(self._sink_full, self.wake)
        self._count_noted: Callable[[int, int, int], None] | None = None
        self._only_latest_times = self._keeps_elements = False
        self._sizes: dict[int, int] = {}  # by value, in bytes; known if `_count_noted` asks
        self.gathers = False
        self._respecified: list[tuple[int, GraphExtended]] = []
        self._lot_bytes = max(min(most_bytes // _LOTS, MOST_BYTES), 8)
        # For a lot, another one that the writer numbers meanwhile, and their rows.
        self._awaited_bytes = 2 * self._lot_bytes + min(self._lot_bytes, _ROWS_BYTES)
        self.dropped_blobs = self.lost_executions = self.lost_summaries = 0
        self.missed_nodes: deque[int] = deque()
        self.lock = polling_lock()  # reentrant: a signal handler may run nodes on this thread
        self.wanted = threading.Event()
        self.hurry = threading.Event()

    @property
    def last_seq(self) -> int:
        """The seq of the last record so far."""
        self.number_times()
        return self.seq

    @property
    def progress(self) -> int:
        """A number that changes whenever something is noted or queued; to read it takes no lock."""
        return self.seq + len(self._times)

    @property
    def crowded(self) -> bool:
        """Whether the program waits for room before it queues elements."""
        return self.queued + self._awaited_bytes > self.nearly_full

    def _writes(self) -> bool:
        """Whether the queue is being emptied."""
        return not (self.off or self.forked or self.stuck())

    def _give_way(self, moments: int = 1) -> None:
        """Let the writer run for a moment, or some, unless it cannot write: the program never waits
        for a full disk.
        """
        if self._writes():
            time.sleep(moments * _GIVES_WAY_S)

    def enqueue(self, record: Told, weight: int = RECORD_BYTES) -> None:
        """Queue a numbered record that does not count as the calling thread's last."""
        with self.lock:
            self.queued += weight
            self.records.append(QueuedRecord(self.number(), weight, record))
        if not self.awake:
            self.wake()

    def _put_block(self, event: NodesFinished, *, latest_only: bool) -> int:
        """Number the executions of a block, and queue them together; return the first seq."""
        many, statistics = len(event.times), event.statistics
        weight = RECORD_BYTES + BLOCK_BYTES * many
        weight += statistics.nbytes if statistics is not None else 0
        self._await_room(weight)
        with self.lock:
            first = self.number(many)
            if self.queued + weight > self.most_bytes:
                self.lost_executions += many
                self.missed_nodes.extend([node.id for node in event.nodes])
                self.lost_summaries += len(statistics) if statistics is not None else 0
            else:
                self.queued += weight
                copied = event.elements is not None
                if copied:
                    event = msgspec.structs.replace(event, elements=None)
                self.records.append(QueuedBlock(first, weight, event, latest_only, copied))
            self._last[threading.get_ident()] = self.seq
        if not self.awake:
            self.wake()
        return first

    def number(self, many: int = 1) -> int:
        """Take consecutive numbers; return the first. The caller holds the lock until it queues."""
        if self._times or self._respecified:
            self._queue_times()
        first = self.seq + 1
        self.seq += many
        return first

    def number_times(self, *, specs: bool = False) -> None:
        """Number and queue the executions noted so far.

        Args:
            specs: Whether changed specs of values do so as well if no execution has followed them.
                Usually one follows at once, and the numbers must not depend on when the writer
                looks.
        """
        if (self._times or (specs and self._respecified)) and not self.forked:
            with self.lock:
                self._queue_times()

    def _number_all(self) -> bool:
        """`number_times` with changed specs. No fault reaches the program: the result is False, and
        the writer's thread gives up the recording.
        """
        try:
            self.number_times(specs=True)
        except Exception as error:
            if has_no_room(error):
                raise
            self.failure = error
            self.wake()
            return False
        return True

    def thread_seq(self) -> int:
        """The seq of the calling thread's last record; of the run's last record if it has none."""
        here = threading.get_ident()
        if self._times and not self.forked:
            with self.lock:
                if many := self._times.up_to(here):  # they will be numbered from the next seq on
                    return self.seq + int(many)
        self.number_times()
        return self._last.get(here, self.seq)

    def _respecify(self, event: GraphExtended) -> None:
        """Queue changed specs of values with the noted executions, from the next one on.

        With a number of its own, each change would split the noted executions: a smaller last batch
        changes the shapes of all outputs of a step, one after the other.
        """
        with self.lock:
            self._respecified.append((len(self._times), event))

    def _note_outputs(self, *, keep: bool) -> OutputsSink | None:
        """Note executions with their outputs from now on; return the sink, or None without one.

        Args:
            keep: Whether the elements are kept, not only their statistics.
        """
        if keep and not self._keeps_many:
            return None
        self._keeps_elements = keep
        sink = noted_outputs(self._lot_bytes, self._sink_full, self.wake, keep=keep)
        if sink is not None:
            self._times = sink
        return sink  # type: ignore[no-any-return]

    def _noted(self, event: NodeFinished, note: OutputsSink) -> bool:
        """Note an execution that came as an event, if possible; return whether it was noted."""
        if not noted(event, note):
            return False
        here = threading.get_ident()
        if event.thread != here:
            self._times_full()
            self._last[here] = self.seq
        return True

    def _sink_full(self) -> None:
        """`_times_full`, called by a sink in the middle of an operation of the program, which no
        fault may reach: the writer's thread gives up the recording.
        """
        try:
            self._times_full()
        except Exception as error:
            if not has_no_room(error):
                self.failure = error
                self.wake()

    def _times_full(self) -> None:
        self._let_write()
        self.number_times()
        if self.queued > self.nearly_full:
            self._give_way()

    def _let_write(self) -> None:
        """Let the writer make room before elements are queued, so that none are given up. In the
        usual case, there is room.
        """
        if self._keeps_elements and self.crowded and self._times:
            self._await_room(self._awaited_bytes)

    def _await_room(self, nbytes: int) -> None:
        """Give way to the writer until a record of this size fits, for a bounded time."""
        waits, moments = min(max(nbytes // _WAITS_FOR, 1), _MOST_WAITS), 1
        while waits > 0:
            if self.queued + nbytes <= self.nearly_full or not self._writes():
                return
            if self.gathers:
                self.hurry.set()
            self._give_way(moments)
            waits -= (moments + 1) // 2  # the system adds to short waits as much again
            moments = min(2 * moments, _MOST_MOMENTS)

    def _queue_times(self) -> None:
        if self._queueing:  # a signal handler has interrupted this method
            return
        self._queueing = True
        try:
            taken = self._times.take()
            changes, self._respecified = self._respecified, []
            if len(taken) > 2:
                lot = NotedLot(*taken[:-1], keep=self._keeps_elements)
                self._queue_outputs(lot, taken[-1], changes)
            else:
                self._queue_noted(taken[0], taken[1], changes)
        finally:
            self._queueing = False

    def _queue_specs(self, changes: Respecified) -> None:
        """Queue changed specs that no execution has followed yet."""
        for _, event in changes:
            self.seq += 1
            self.queued += SPECS_BYTES
            self.records.append(QueuedRecord(self.seq, SPECS_BYTES, event))

    def _queue_lot(self, item: QueuedTimes | QueuedOutputs) -> bool:
        """Queue executions if they fit, and their changed specs in any case."""
        if self.off or self.queued + item.weight > self.most_bytes:
            specs = specs_of(item)
            self.queued += SPECS_BYTES * len(specs)
            self.records.extend(specs)
            return False
        if item.respecified:
            item = item._replace(weight=item.weight + SPECS_BYTES * len(item.respecified))
        self.queued += item.weight
        self.records.append(item)
        return True

    def _queue_noted(self, times: Rows, thread: int | None, changes: Respecified) -> None:
        many, first = count(times), self.seq + 1
        if not many:
            self._queue_specs(changes)
            return
        self.seq += many
        if thread:
            self._last[thread] = self.seq
        else:
            self._last.update(last_of_threads(times, first))
        weight = many * (TIMES_BYTES if isinstance(times, bytes) else RECORD_BYTES)
        latest = self._only_latest_times
        if not self._queue_lot(QueuedTimes(first, weight, times, latest, changes)):
            self.lost_executions += many
            self.missed_nodes.extend(nodes(times))

    def _queue_outputs(self, lot: NotedLot, thread: int | None, changes: Respecified) -> None:
        many, first, nbytes = len(lot.nodes), self.seq + 1, lot.nbytes
        if not many:
            self._queue_specs(changes)
            return
        self.seq += many
        if self._count_noted is not None:
            outputs = [value for node in lot.nodes for value in node.outputs]
            sizes = [self._sizes.get(value, 0) for value in outputs]
            self._count_noted(many, len(outputs), sum(sizes))
        if thread is None:
            self._last.update(lot.last_of_threads(first))
        else:
            self._last[thread] = self.seq
        room = self.most_bytes - self.most_bytes // RESERVED
        over = self.queued + nbytes + many * TIMES_BYTES - room
        if over > 0 and lot.keep:
            over -= self._reduce_oldest(over)
        if over > 0 and lot.shrinks:
            # No copy fits, so the statistics are computed on this thread: that costs only time.
            lot.reduce()
            nbytes = lot.nbytes
            if lot.keep:
                self.gave_up(lot.outputs)
        weight = nbytes + len(lot.moves) + many * TIMES_BYTES
        if not self._queue_lot(QueuedOutputs(first, weight, lot, changes)):
            self.lost_executions += many
            self.lost_summaries += lot.outputs
            self.missed_nodes.extend([node.id for node in lot.nodes])
        elif lot.keep and self.gathers and self.queued > self.plenty:
            self.hurry.set()

    def _reduce_oldest(self, nbytes: int) -> int:
        """Replace the oldest elements in the queue by statistics; return the bytes freed."""
        freed = 0
        for place, item in enumerate(self.records):
            if freed >= nbytes:
                break
            if isinstance(item, QueuedOutputs) and item.lot.keep and item.lot.shrinks:
                before = item.lot.nbytes
                item.lot.reduce()
                self.gave_up(item.lot.outputs)
                weight = item.weight - before + item.lot.nbytes
                self.records[place] = item._replace(weight=weight)
                freed += item.weight - weight
        self.queued -= freed
        return freed

    def gave_up(self, arrays: int) -> None:
        """Count arrays of which only statistics are kept because the writer is behind."""
        with self.lock:
            self.dropped_blobs += arrays
            self.overflow.given_up += arrays

    def dropped(self) -> Dropped:
        """What was dropped so far."""
        with self.lock:
            return Dropped(self.dropped_blobs, self.lost_summaries, self.lost_executions)

    def lose(self, lost: Dropped) -> None:
        """Count what the writer dropped."""
        with self.lock:
            self.dropped_blobs += lost.blobs
            self.lost_summaries += lost.summaries
            self.lost_executions += lost.executions

    def rest(self) -> None:
        """Note that the writer waits for records."""
        self.awake, self._times.asleep = False, True

    def wake(self) -> None:
        """Wake the writer."""
        self.awake, self._times.asleep = True, False
        self.wanted.set()
