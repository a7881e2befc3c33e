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
from nodescope.thread_frames import has_no_room

RESERVED: Final = 8
"""One part in this many of the queue is reserved for executions without values."""
# While the queue is fuller than this, the program gives way to the writer at each execution: it
# holds the interpreter lock so often that the writer would get only half of a processor otherwise.
_NEARLY_FULL: Final = 7 / 8
_GIVES_WAY_S: Final = 1e-4
BATCH_BYTES: Final = 16 << 20
"""The most bytes of outputs in a batch."""

_PLENTY: Final = BATCH_BYTES // 2  # with elements in such a queue, the writer stops waiting

# Before a record is dropped, the program gives way at most once per `_WAITS_FOR` bytes of it, and
# `_MOST_WAITS` times in all. On a busy machine, the writer takes 50 ms per MiB.
_WAITS_FOR: Final = 1024
_MOST_WAITS: Final = 4096
# Waits get longer, up to so many moments: each ends with a hand-over of the interpreter lock.
_MOST_MOMENTS: Final = 16
_LOTS: Final = 16  # a lot of outputs takes at most one part in this many of the queue


class RecordQueue:
    """The queue, its numbers, and the counts of what did not fit.

    Args:
        queue_bytes: Upper limit of what waits to be written.

    Attributes:
        lock: Held while records are numbered and queued.
        nearly_full: The queued bytes beyond which the program gives way to the writer.
    """

    def __init__(self, queue_bytes: int) -> None:
        self._queue_bytes = queue_bytes
        self.nearly_full = int(queue_bytes * _NEARLY_FULL)
        self._queue: deque[Queued] = deque()
        self._last: dict[int, int] = {}  # the last seq of each thread, by its identifier
        self._awake = self._queueing = False
        self._off = self._forked = False
        self._failure: Exception | None = None  # raised again on the writer's thread
        self._queued = self._seq = 0
        self._times: Any = noted_times(self._sink_full, self._wake)
        self._count_noted: Callable[[int, int], None] | None = None
        self._only_latest_times = self._keeps_elements = False
        self._gathers = False  # whether the writer waits for a batch to grow
        self._respecified: list[tuple[int, GraphExtended]] = []
        self._lot_bytes = max(min(queue_bytes // _LOTS, MOST_BYTES), 8)
        self._lost_executions = self._lost_summaries = 0
        self._missed: deque[int] = deque()
        self.lock = threading.RLock()  # reentrant: a signal handler may run nodes on this thread
        self._wanted = threading.Event()
        self._hurry = threading.Event()  # the next batch must not wait for more records

    @property
    def off(self) -> bool:
        """Whether recording has stopped."""
        return self._off

    @property
    def queued(self) -> int:
        """Bytes waiting to be written."""
        return self._queued

    @property
    def last_seq(self) -> int:
        """The seq of the last record so far."""
        self.number_times()
        return self._seq

    def _writes(self) -> bool:
        """Whether the queue is being emptied."""
        return not (self._off or self._forked)

    def _give_way(self, moments: int = 1) -> None:
        """Let the writer run for a moment, or some, unless it cannot write: the program never waits
        for a full disk.
        """
        if self._writes():
            time.sleep(moments * _GIVES_WAY_S)

    def enqueue(self, record: Told, weight: int = RECORD_BYTES) -> None:
        """Queue a numbered record that does not count as the calling thread's last."""
        with self.lock:
            self._queued += weight
            self._queue.append(QueuedRecord(self._number(), weight, record))
        if not self._awake:
            self._wake()

    def _put_block(self, event: NodesFinished, *, latest_only: bool) -> int:
        """Number the executions of a block, and queue them together; return the first seq."""
        many, statistics = len(event.times), event.statistics
        weight = RECORD_BYTES + BLOCK_BYTES * many
        weight += statistics.nbytes if statistics is not None else 0
        self._await_room(weight)
        with self.lock:
            first = self._number(many)
            if self._queued + weight > self._queue_bytes:
                self._lost_executions += many
                self._missed.extend([node.id for node in event.nodes])
                self._lost_summaries += len(statistics) if statistics is not None else 0
            else:
                self._queued += weight
                copied = event.elements is not None
                if copied:
                    event = msgspec.structs.replace(event, elements=None)
                self._queue.append(QueuedBlock(first, weight, event, latest_only, copied))
            self._last[threading.get_ident()] = self._seq
        if not self._awake:
            self._wake()
        return first

    def _number(self, many: int = 1) -> int:
        """Take consecutive numbers; return the first. The caller holds the lock until it queues."""
        if self._times or self._respecified:
            self._queue_times()
        first = self._seq + 1
        self._seq += many
        return first

    def number_times(self, *, specs: bool = False) -> None:
        """Number and queue the executions noted so far.

        Args:
            specs: Whether changed specs of values do so as well if no execution has followed them.
                Usually one follows at once, and the numbers must not depend on when the writer
                looks.
        """
        if (self._times or (specs and self._respecified)) and not self._forked:
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
            self._failure = error
            self._wake()
            return False
        return True

    def thread_seq(self) -> int:
        """The seq of the calling thread's last record; of the run's last record if it has none."""
        here = threading.get_ident()
        if self._times and not self._forked:
            with self.lock:
                if many := self._times.up_to(here):  # they will be numbered from the next seq on
                    return self._seq + int(many)
        self.number_times()
        return self._last.get(here, self._seq)

    def _respecify(self, event: GraphExtended) -> None:
        """Queue changed specs of values with the noted executions, from the next one on.

        With a number of its own, each change would end a lot: a smaller last batch changes the
        shapes of all outputs of a step, one after the other.
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
        sink = noted_outputs(self._lot_bytes, self._sink_full, self._wake, keep=keep)
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
            self._last[here] = self._seq
        return True

    def _sink_full(self) -> None:
        """`_times_full`, called by a sink in the middle of an operation of the program, which no
        fault may reach: the writer's thread gives up the recording.
        """
        try:
            self._times_full()
        except Exception as error:
            if not has_no_room(error):
                self._failure = error
                self._wake()

    def _times_full(self) -> None:
        self._let_write()
        self.number_times()
        if self._queued > self.nearly_full:
            self._give_way()

    def _let_write(self) -> None:
        """Let the writer make room before elements are queued, so that none are given up."""
        if self._keeps_elements and self._times:
            self._await_room(2 * self._lot_bytes)

    def _await_room(self, nbytes: int) -> None:
        """Give way to the writer until a record of this size fits, for a bounded time."""
        waits, moments = min(max(nbytes // _WAITS_FOR, 1), _MOST_WAITS), 1
        while waits > 0:
            if self._queued + nbytes <= self.nearly_full or not self._writes():
                return
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
            self._seq += 1
            self._queued += SPECS_BYTES
            self._queue.append(QueuedRecord(self._seq, SPECS_BYTES, event))

    def _queue_lot(self, item: QueuedTimes | QueuedOutputs) -> bool:
        """Queue executions if they fit, and their changed specs in any case."""
        if self._off or self._queued + item.weight > self._queue_bytes:
            specs = specs_of(item)
            self._queued += SPECS_BYTES * len(specs)
            self._queue.extend(specs)
            return False
        if item.respecified:
            item = item._replace(weight=item.weight + SPECS_BYTES * len(item.respecified))
        self._queued += item.weight
        self._queue.append(item)
        return True

    def _queue_noted(self, times: Rows, thread: int | None, changes: Respecified) -> None:
        many, first = count(times), self._seq + 1
        if not many:
            self._queue_specs(changes)
            return
        self._seq += many
        if thread:
            self._last[thread] = self._seq
        else:
            self._last.update(last_of_threads(times, first))
        weight = many * (TIMES_BYTES if isinstance(times, bytes) else RECORD_BYTES)
        latest = self._only_latest_times
        if not self._queue_lot(QueuedTimes(first, weight, times, latest, changes)):
            self._lost_executions += many
            self._missed.extend(nodes(times))

    def _queue_outputs(self, lot: NotedLot, thread: int | None, changes: Respecified) -> None:
        many, first = len(lot), self._seq + 1
        if not many:
            self._queue_specs(changes)
            return
        self._seq += many
        if self._count_noted is not None:
            self._count_noted(many, sum([len(node.outputs) for node in lot.nodes]))
        if thread is None:
            self._last.update(lot.last_of_threads(first))
        else:
            self._last[thread] = self._seq
        room = self._queue_bytes - self._queue_bytes // RESERVED
        over = self._queued + lot.nbytes + many * TIMES_BYTES - room
        if over > 0 and lot.keep:
            over -= self._reduce_oldest(over)
        if over > 0 and lot.shrinks:
            # No copy fits, so the statistics are computed on this thread: that costs only time.
            lot.reduce()
            if lot.keep:
                self._gave_up(lot.outputs)
        weight = lot.nbytes + many * TIMES_BYTES
        if not self._queue_lot(QueuedOutputs(first, weight, lot, changes)):
            self._lost_executions += many
            self._lost_summaries += lot.outputs
            self._missed.extend([node.id for node in lot.nodes])
        elif lot.keep and self._gathers and self._queued > _PLENTY:
            self._hurry.set()

    def _reduce_oldest(self, nbytes: int) -> int:
        """Replace the oldest elements in the queue by statistics; return the bytes freed."""
        freed = 0
        for place, item in enumerate(self._queue):
            if freed >= nbytes:
                break
            if isinstance(item, QueuedOutputs) and item.lot.keep and item.lot.shrinks:
                before = item.lot.nbytes
                item.lot.reduce()
                self._gave_up(item.lot.outputs)
                weight = item.weight - before + item.lot.nbytes
                self._queue[place] = item._replace(weight=weight)
                freed += item.weight - weight
        self._queued -= freed
        return freed

    @property
    def _keeps_many(self) -> bool:
        """Whether arrays may be kept in packs, many in one row of the file."""
        return True

    def _gave_up(self, arrays: int) -> None:
        """Count arrays of which only statistics are kept because the writer is behind."""

    def _wake(self) -> None:
        self._awake, self._times.asleep = True, False
        self._wanted.set()
