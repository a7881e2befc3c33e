"""Executions noted with their outputs: copied by the native core, numbered and summarised later.

Without the core, or if an execution cannot be noted, it is reported as an event instead.

Invariant: noted executions are taken once, in order; a lot owns its copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope import native
from nodescope.events import Array, NodeFinished
from nodescope.ir.block_demands import OutputsSink
from nodescope.ir.graph import Node
from nodescope.record.noted_times import AT_ONCE
from nodescope.record.summary import BINS, PREVIEW, summarise

MOST_BYTES: Final = 1 << 20
"""Upper limit of a lot's memory."""

_STATISTICS_BYTES: Final = 600  # the approximate size of an output's statistics

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Columns of `NotedStatistics.outputs`.
PLACE, VALUE, CODE, DIMENSIONS, NBYTES, FINITE, NAN, INF, ZERO = range(9)
BLOCK, START, ALIKE, ORDERED, OUTPUT = range(9, 14)
EXECUTION: Final = 7


class NotedStatistics(NamedTuple):
    """Executions and statistics of their outputs, in columns.

    Attributes:
        executions: Node, step, thread, start and end of each execution, and the numbers of arrays
            that it read and produced.
        identities: The identities of these arrays.
        outputs: For each output, the index of its execution, value, type, number of dimensions and
            bytes; the numbers of finite, NaN, Inf and zero elements; block and offset of its
            elements; the first output of this type and shape; whether it was in C order.
        shapes: Shape and strides of each output.
        moments: Low, high, mean, std and norm of each output; meaningless if nothing is finite.
        histograms, previews: One row per output.
    """

    executions: Integers
    identities: NDArray[np.uint64]
    outputs: Integers
    shapes: Integers
    moments: Floats
    histograms: Integers
    previews: Floats

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self)


class NotedLot:
    """Executions with copies of their outputs.

    Args:
        block, begin, end: Memory, and where the executions begin and end in it; the rest of it may
            belong to other lots. See ``core/native/outputs.c``.
        outputs: The number of outputs.
        nodes: The node of each execution.
        keep: Whether the elements are kept, not only their statistics.

    Attributes:
        statistics: The outputs' statistics, once they have replaced the copies.
    """

    def __init__(
        self, block: native.Memory, begin: int, end: int, outputs: int, nodes: list[Node], *,
        keep: bool = False,
    ) -> None:  # fmt: skip
        self.piece, self.keep = (block, begin, end), keep
        self.outputs, self.nodes = outputs, nodes
        self.statistics: NotedStatistics | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.copied if self.statistics is None else self.statistics.nbytes

    @property
    def copied(self) -> int:
        """Bytes of the copies."""
        return self.piece[2] - self.piece[1]

    def last_of_threads(self, first: int) -> dict[int, int]:
        """The seq of each thread's last execution, if the lot's first one has seq ``first``."""
        self.reduce()
        assert self.statistics is not None
        threads = self.statistics.executions[:, 2].tolist()
        return {thread: seq for seq, thread in enumerate(threads, first)}

    @property
    def shrinks(self) -> bool:
        """Whether the statistics take less memory than the copies."""
        return self.statistics is None and _STATISTICS_BYTES * self.outputs < self.copied

    def reduce(self) -> None:
        """Replace the copies by their statistics."""
        if self.statistics is None:
            self.statistics = statistics_of([self])
            self.piece = (b"", 0, 0)


def statistics_of(lots: Sequence[NotedLot]) -> NotedStatistics:
    """The statistics of lots that were not reduced, one after the other."""
    assert native.summarise_noted is not None
    parts = native.summarise_noted(tuple([lot.piece for lot in lots]), BINS)
    kinds = (np.int64, np.uint64, np.int64, np.int64, np.float64, np.int64, np.float64)
    flat: Any = [np.frombuffer(part, kind) for part, kind in zip(parts, kinds, strict=True)]
    columns = NotedStatistics(
        flat[0].reshape(-1, EXECUTION), flat[1], flat[2].reshape(-1, OUTPUT), flat[3],
        flat[4].reshape(-1, 5), flat[5].reshape(-1, BINS), flat[6].reshape(-1, PREVIEW),
    )  # fmt: skip
    if (columns.outputs[:, FINITE] < 0).any():
        return _with_large(columns, lots)
    return columns


def _with_large(columns: NotedStatistics, lots: Sequence[NotedLot]) -> NotedStatistics:
    """Complete the statistics for outputs whose squares float64 cannot represent."""
    copies: list[Any] = [column.copy() for column in columns]
    columns = NotedStatistics(*copies)
    ends = np.cumsum(2 * columns.outputs[:, DIMENSIONS])
    for row in np.flatnonzero(columns.outputs[:, FINITE] < 0).tolist():
        cells = columns.outputs[row]
        start = ends[row] - 2 * cells[DIMENSIONS]
        sizes = columns.shapes[start : start + cells[DIMENSIONS]]
        block = memoryview(lots[cells[BLOCK]].piece[0])
        data = block[cells[START] : cells[START] + cells[NBYTES]]
        array: Array = np.frombuffer(data, np.dtype(chr(cells[CODE]))).reshape(sizes)
        summary = summarise(array)
        cells[NAN : ZERO + 1] = summary.nan_count, summary.inf_count, summary.zero_count
        cells[FINITE] = array.size - summary.nan_count - summary.inf_count
        columns.previews[row, : len(summary.preview)] = summary.preview
        if summary.min is not None:
            moments = (summary.min, summary.max, summary.mean, summary.std, summary.norm)
            columns.moments[row] = moments
            columns.histograms[row] = summary.histogram
    return columns


def noted(event: NodeFinished, note: OutputsSink) -> bool:
    """Note an execution that came as an event, if possible; return whether it was noted."""
    if event.lane or event.worker or event.attrs is not None:
        return False
    node, times = event.node, (event.step, event.thread, event.start_ns, event.end_ns)
    return all(array.__class__ is np.ndarray for array in event.outputs) and note(
        node, node.id, *times, event.inputs, event.outputs
    )


def noted_outputs(most_bytes: int, when_full: Callable[[], None], wake: Callable[[], None]) -> Any:
    """A sink for executions with outputs, see `native.NotedOutputs`; None without the core."""
    if native.NotedOutputs is None or native.summarise_noted is None:
        return None
    return native.NotedOutputs(AT_ONCE, most_bytes, when_full, wake)
