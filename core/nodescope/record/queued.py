"""Queued records: the kinds of record in the recorder's queue.

Invariant: copies, or arrays that are no longer written to; never the program's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.events import (
    Array,
    ArrayMoved,
    DeviceRan,
    Event,
    GraphExtended,
    HostSpan,
    Logged,
    NodeFailed,
    NodeFinished,
    NodesFinished,
    ValueEdited,
)
from nodescope.ir.differences import CallLog, CrossChecked
from nodescope.ir.graph import Node
from nodescope.record.newest.held_values import Whole
from nodescope.record.noted_outputs import MOVE, NotedLot
from nodescope.record.noted_times import AT_ONCE, Rows, count
from nodescope.record.rows import Advice, Governed, Keeping, Timings
from nodescope.record.summary import TensorSummary

RECORD_BYTES: Final = 320
"""The weight of a queued record without its arrays."""

TIMES_BYTES: Final = 64
"""The weight of an execution that is noted by its times alone, as bytes."""

SPECS_BYTES: Final = 2 * RECORD_BYTES
"""The weight of changed specs that are queued with executions."""

BLOCK_BYTES: Final = 128
"""The weight of one execution of a block, without statistics."""

ASIDE: Final = (HostSpan, ArrayMoved, DeviceRan)
"""Events that have no number of their own."""

Timed = tuple[int, int, int, int, int, int]
"""An execution without outputs: seq, node, step, thread, start and end."""


class QueuedExecution(NamedTuple):
    """A queued execution."""

    timed: Timed
    weight: int
    flags: int = 0
    outputs: Sequence[tuple[int, Array | TensorSummary]] = ()
    latest_only: bool = False
    keep_arrays: bool = False
    error: str = ""
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    attrs: dict[str, Any] | None = None
    place: tuple[int, int] | None = None
    unresolved: bool = False  # some output is a `Captured`
    node: Node | None = None  # None if the identities of its arrays are not known
    arrays: bytes = b""  # those of `nodescope.native.identities`


Respecified = Sequence[tuple[int, GraphExtended]]
"""Changed specs of values, with the number of executions of a lot that came before each change."""


class QueuedTimes(NamedTuple):
    """Executions that are recorded by their times alone; their seqs follow each other."""

    seq: int  # of the first
    weight: int
    times: Rows
    latest_only: bool = False
    respecified: Respecified = ()

    @property
    def many(self) -> int:
        """The number of executions."""
        return count(self.times)


class QueuedOutputs(NamedTuple):
    """Executions with copies of their outputs; their seqs follow each other."""

    seq: int  # of the first
    weight: int
    lot: NotedLot
    respecified: Respecified = ()

    @property
    def many(self) -> int:
        """The number of executions."""
        return len(self.lot.nodes)

    @property
    def attrs(self) -> list[tuple[int, dict[str, Any]]]:
        """Attributes of executions, by seq, where they differ from the node's."""
        return [(self.seq + place, attrs) for place, attrs in self.lot.calls]


class QueuedBlock(NamedTuple):
    """Queued executions that were reported together; their seqs follow each other."""

    seq: int  # of the first
    weight: int
    event: NodesFinished
    latest_only: bool = False
    copied: bool = False  # there are copies of elements, which may be recorded later, one by one

    @property
    def many(self) -> int:
        """The number of executions."""
        return len(self.event.times)

    @property
    def attrs(self) -> list[tuple[int, dict[str, Any]]]:
        """Attributes of executions, by seq, where they differ from the node's."""
        before = self.seq - self.event.first
        return [(before + place, attrs) for place, attrs in self.event.attrs.items()]


def weight_of(event: Event) -> int:
    """The weight of an event that is no execution."""
    if isinstance(event, GraphExtended):
        return 2 * RECORD_BYTES
    weight = RECORD_BYTES if isinstance(event, ASIDE) else 2 * RECORD_BYTES
    if isinstance(event, DeviceRan):
        weight += BLOCK_BYTES * len(event.times)
    if isinstance(event, Logged):
        weight += 4 * len(event.text)
    elif isinstance(event, ValueEdited):
        weight += event.array.nbytes
    return weight


class Skipped(NamedTuple):
    """Executions of a node left out by the governor; they still count as runs."""

    node: int
    times: int


SEVERAL: Final = (QueuedBlock, QueuedTimes, QueuedOutputs)
"""Records that hold several executions."""

_AT_ONCE_BYTES: Final = 1 << 22

Told = Event | Whole | Skipped | Governed | Advice | Timings | CrossChecked | CallLog | Keeping
"""Records other than executions."""


class QueuedRecord(NamedTuple):
    """A queued record other than an execution."""

    seq: int
    weight: int
    event: Told


def specs_of(item: Queued) -> list[QueuedRecord]:
    """The changed specs that came with executions, and the arrays that moved between them, as
    records of their own.
    """
    if not isinstance(item, QueuedTimes | QueuedOutputs):
        return []
    last = item.many - 1
    records = [
        QueuedRecord(item.seq + min(place, last), SPECS_BYTES, event)
        for place, event in item.respecified
    ]
    moves = item.lot.moves if isinstance(item, QueuedOutputs) else b""
    for _, *arrays in np.frombuffer(moves, np.int64).reshape(-1, MOVE).tolist():
        records.append(QueuedRecord(0, SPECS_BYTES, ArrayMoved(*arrays)))
    return records


_MIXED: Final = (QueuedTimes, QueuedOutputs, QueuedRecord)

Queued = QueuedTimes | QueuedExecution | QueuedBlock | QueuedOutputs | QueuedRecord


def first_of(queue: deque[Any]) -> list[Any]:
    """Take records from the front of a queue that is not empty, under its lock.

    The program's threads take the same lock, so the writer takes many records at once; but not too
    many, because arrays that were taken can no longer be dropped for newer ones. A block is taken
    alone, and executions are not mixed with other records.
    """
    lot = [queue.popleft()]
    kind, left, nbytes = type(lot[0]), AT_ONCE - 1, lot[0].weight
    if kind is not QueuedBlock:
        kinds = (kind,) if kind is QueuedExecution else _MIXED
        while left and nbytes < _AT_ONCE_BYTES and queue and type(queue[0]) in kinds:
            lot.append(queue.popleft())
            nbytes += lot[-1].weight
            left -= 1
    return lot


def place_of(event: NodeFinished | NodeFailed) -> tuple[int, int] | None:
    """The worker and lane of an execution that did not run on one of the program's threads."""
    return (event.worker, event.lane) if event.worker or event.lane else None
