"""What the recorder puts into its queue.

Invariant: copies, or arrays that are no longer written to; never the program's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from nodescope.events import Array, Event, NodesFinished
from nodescope.ir.differences import CallLog, CrossChecked
from nodescope.ir.graph import Node
from nodescope.record.newest.held_values import Whole
from nodescope.record.rows import Advice, Governed, Keeping, Timings
from nodescope.record.summary import TensorSummary

RECORD_BYTES: Final = 320
"""The weight of a queued record without its arrays."""

BLOCK_BYTES: Final = 128
"""The weight of one execution of a block, without statistics."""

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
    node: Node | None = None  # None where arrays have no identity that is known
    arrays: bytes = b""  # those of `nodescope.native.identities`


class QueuedBlock(NamedTuple):
    """Queued executions that came in one order; their seqs follow each other."""

    seq: int  # of the first
    weight: int
    event: NodesFinished
    latest_only: bool = False

    @property
    def many(self) -> int:
        """The number of executions."""
        return len(self.event.times)

    @property
    def attrs(self) -> list[tuple[int, dict[str, Any]]]:
        """Attributes of executions, by seq, where they differ from the node's."""
        before = self.seq - self.event.first
        return [(before + place, attrs) for place, attrs in self.event.attrs.items()]


class Skipped(NamedTuple):
    """Executions of a node left out by the governor; they still count as runs."""

    node: int
    times: int


Told = Event | Whole | Skipped | Governed | Advice | Timings | CrossChecked | CallLog | Keeping
"""Records other than executions."""


class QueuedRecord(NamedTuple):
    """A queued record other than an execution."""

    seq: int
    weight: int
    event: Told
