"""Replay view: the part of a replay that branches and the search for operands' sources use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from nodescope.debug.replay.execution_index import ExecutionIndex, ValueSource
from nodescope.events import Array
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution

How = Literal["recorded", "recomputed", "edited"]


class ReplayedValue(NamedTuple):
    """An array and its origin.

    Attributes:
        array: The elements, read-only.
        how: ``recorded``, ``recomputed``, or ``edited`` in a branch.
        seq: The execution that wrote it.
    """

    array: Array
    how: How
    seq: int


class ReplayView(Protocol):
    """The interface of `Replay` that its parts use.

    Attributes:
        recording: The replayed recording.
        book: The index of the recording's executions.
        step: The replayed training step.
        last: The last seq that is replayed.
        doubted: Seqs of executions whose operands are uncertain.
    """

    recording: Recording
    book: ExecutionIndex
    step: int
    last: int
    doubted: set[int]

    def written(self, source: ValueSource) -> ReplayedValue:
        """See `Replay.written`. Raises `ReplayError`."""

    def recorded(self, source: ValueSource) -> Array | None:
        """See `Replay.recorded`."""

    def sources(self, execution: Execution) -> list[ValueSource]:
        """See `Replay.sources`. Raises `ReplayError`."""

    def run(self, execution: Execution, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """See `Replay.run`. Raises `ReplayError`."""
