"""Executions noted with their outputs: copied by the native core, numbered and summarised later.

Without the core, or if an execution cannot be noted, it is reported as an event instead.

Invariant: noted executions are taken once, in order; a lot owns its copies.
"""

from __future__ import annotations

from array import array as array_of
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope import native
from nodescope.events import Array, NodeFinished
from nodescope.ir.block_demands import OutputsSink
from nodescope.ir.graph import Node
from nodescope.record.noted_times import AT_ONCE
from nodescope.record.summary import BINS, PREVIEW, summarise

MOST_BYTES: Final = 4 << 20
"""Upper limit of a lot's memory."""

_STATISTICS_BYTES: Final = 600  # the approximate size of an output's statistics

# Where a noted execution has its thread, see core/native/noted_records.h; first comes its size.
_RECORD_THREAD: Final = 3

MOVE: Final = 4
"""The numbers that describe an array that moved."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Columns of `NotedStatistics.executions`. The first six are those of `Collected.tables`.
SEQ, NODE, STEP, THREAD, START_NS, DURATION_NS, ARRAYS, EXECUTION = range(8)

# Columns of `NotedStatistics.outputs`. The first seven are those of `Statistics`.
OUTPUT_SEQ, VALUE, OUTPUT_STEP, KIND, NAN, INF, ZERO, FINITE = range(8)
CODE, NBYTES, BLOCK, START, ORDER, DIMENSIONS, OUTPUT = range(8, 15)

# Added to `CODE` if the output is held, see core/native/noted_records.h; `START` is then where its
# index is.
HELD: Final = 1024

# Orders of an array's elements: C order, or with the axes in another order, as they then are in the
# lot as well. Elements in any other order were copied in C order.
IN_ORDER, TURNED = 1, -1


class NotedStatistics(NamedTuple):
    """Executions and statistics of their outputs, in columns.

    Attributes:
        executions: Seq, node, step, thread, start and duration of each execution, and the number
            of arrays that it read and produced.
        identities: The identities of these arrays.
        outputs: For each output, its execution's seq, its value and step, the index of its type
            and shape, the numbers of NaN, Inf, zero and finite elements; its type and its bytes,
            block and offset of its elements; their order; the number of dimensions.
        shapes: Shape and strides of each output.
        moments: Low, high, mean, std and norm of each output; meaningless if nothing is finite.
        histograms, previews: One row per output.
        specs: The distinct types and shapes: for each, type, bytes, dimensions and shape.
        nonfinite: How many outputs have NaN or Inf.
        disordered: How many outputs were not in C order.
        places: What `native.place_elements` returns, if the elements are placed.
    """

    executions: Integers
    identities: NDArray[np.uint64]
    outputs: Integers
    shapes: Integers
    moments: Floats
    histograms: NDArray[np.uint32]
    previews: Floats
    specs: bytes
    nonfinite: int
    disordered: int
    places: tuple[int, bytes] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum([column.nbytes for column in self[:_COLUMNS]])

    def arrays(self, rows: Iterable[int], lots: Sequence[NotedLot]) -> Iterator[Array]:
        """The elements of outputs that are not held, in the memory of their lots."""
        for row in rows:
            cells = self.outputs[row].tolist()
            shape, strides = self._sizes(row)
            content = memoryview(lots[cells[BLOCK]].piece[0])[cells[START] :]
            laid_out = strides if cells[ORDER] == TURNED else None
            yield np.ndarray(shape, chr(cells[CODE]), content, 0, laid_out)

    def gathered(self, elements: native.Memory, starts: Integers) -> Iterator[Array]:
        """All outputs, if the elements of each begin there in C order."""
        for row, start in enumerate(starts.tolist()):
            code = int(self.outputs[row, CODE]) & ~HELD
            yield np.ndarray(self._sizes(row)[0], chr(code), elements, start)

    def _sizes(self, row: int) -> tuple[list[int], list[int]]:
        """Shape and strides of an output."""
        many = int(self.outputs[row, DIMENSIONS])
        start = 2 * int(self.outputs[:row, DIMENSIONS].sum())
        sizes = self.shapes[start : start + 2 * many].tolist()
        return sizes[:many], sizes[many:]

    def numbered(self, first: int) -> NotedStatistics:
        """The same executions with seqs from ``first`` instead of 0."""
        executions, outputs = self.executions.copy(), self.outputs.copy()
        executions[:, SEQ] += first
        outputs[:, OUTPUT_SEQ] += first
        return self._replace(executions=executions, outputs=outputs)


_COLUMNS: Final = 7


class NotedLot:
    """Executions with copies of their outputs, or references to them.

    Args:
        block, begin, end: Memory, and where the executions begin and end in it; the rest of it may
            belong to other lots. See ``core/native/outputs.c``.
        outputs: The number of outputs.
        nodes: The node of each execution.
        calls: Pairs of an execution's index and its attributes, if they are not the node's.
        moves: Arrays that moved, `MOVE` int64 each: the number of executions before, the value, and
            the identities of the array before and now.
        held: Outputs that were not copied: the arrays that the program has, which nobody should
            write to.
        keep: Whether the elements are kept, not only their statistics.

    Attributes:
        statistics: The outputs' statistics, once they have replaced the copies; seqs from 0 on.
        copied: Bytes of the copies and the held arrays; 0 once they were replaced.
        nbytes: Bytes of memory, of these or of the statistics.
    """

    __slots__ = (
        "__weakref__", "calls", "copied", "keep", "moves", "nbytes", "nodes", "outputs", "piece",
        "statistics",
    )  # fmt: skip

    def __init__(
        self, block: native.Memory, begin: int, end: int, outputs: int, nodes: list[Node],
        calls: Sequence[tuple[int, dict[str, Any]]] = (), moves: bytes = b"",
        held: native.HeldArrays | None = None, *, keep: bool = False,
    ) -> None:  # fmt: skip
        self.piece: native.Piece = (block, begin, end, held)
        self.keep = keep
        self.outputs, self.nodes, self.calls, self.moves = outputs, nodes, calls, moves
        self.copied = self.nbytes = end - begin + (0 if held is None else held.nbytes)
        self.statistics: NotedStatistics | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def last_of_threads(self, first: int) -> dict[int, int]:
        """The seq of each thread's last execution, if the lot's first one has seq ``first``."""
        return {thread: seq for seq, thread in enumerate(self._threads(), first)}

    def _threads(self) -> Iterator[int]:
        """The thread of each execution."""
        if self.statistics is not None:
            yield from self.statistics.executions[:, THREAD].tolist()
            return
        block, begin, end, _ = self.piece
        numbers, at = memoryview(block)[begin:end].cast("q"), 0
        while at < len(numbers):
            yield numbers[at + _RECORD_THREAD]
            at += numbers[at] // 8

    @property
    def shrinks(self) -> bool:
        """Whether the statistics take less memory than the copies."""
        return self.statistics is None and _STATISTICS_BYTES * self.outputs < self.copied

    def reduce(self) -> None:
        """Replace the copies by their statistics."""
        if self.statistics is None:
            self.statistics = statistics_of([self], [0])
            self.piece, self.copied = (b"", 0, 0, None), 0
            self.nbytes = self.statistics.nbytes


def statistics_of(
    lots: Sequence[NotedLot], firsts: Sequence[int], *, place: bool = False
) -> NotedStatistics:
    """The statistics of lots that were not reduced, one after the other.

    Args:
        lots: The lots.
        firsts: The seq of the first execution of each lot.
        place: Whether the elements are placed.
    """
    assert native.summarise_noted is not None
    pieces = tuple([lot.piece for lot in lots])
    many = sum([len(lot.nodes) for lot in lots]), sum([lot.outputs for lot in lots])
    seqs = array_of("q", firsts).tobytes()
    *parts, specs, counts, places = native.summarise_noted(pieces, seqs, *many, BINS, place)
    unknown, nonfinite, disordered = counts
    kinds = (np.int64, np.uint64, np.int64, np.int64, np.float64, np.uint32, np.float64)
    flat: Any = [np.frombuffer(part, kind) for part, kind in zip(parts, kinds, strict=True)]
    columns = NotedStatistics(
        flat[0].reshape(-1, EXECUTION), flat[1], flat[2].reshape(-1, OUTPUT), flat[3],
        flat[4].reshape(-1, 5), flat[5].reshape(-1, BINS), flat[6].reshape(-1, PREVIEW),
        specs, nonfinite, disordered, places,
    )  # fmt: skip
    return _with_large(columns, lots) if unknown else columns


def _with_large(columns: NotedStatistics, lots: Sequence[NotedLot]) -> NotedStatistics:
    """Complete the statistics for outputs whose squares float64 cannot represent."""
    columns = columns._replace(
        outputs=columns.outputs.copy(), moments=columns.moments.copy(),
        histograms=columns.histograms.copy(), previews=columns.previews.copy(),
    )  # fmt: skip
    rows = np.flatnonzero(columns.outputs[:, FINITE] < 0).tolist()
    for row, array in zip(rows, columns.arrays(rows, lots), strict=True):
        cells, summary = columns.outputs[row], summarise(array)
        cells[[NAN, INF, ZERO]] = summary.nan_count, summary.inf_count, summary.zero_count
        cells[FINITE] = array.size - summary.nan_count - summary.inf_count
        columns.previews[row, : len(summary.preview)] = summary.preview
        if summary.min is not None:
            moments = (summary.min, summary.max, summary.mean, summary.std, summary.norm)
            columns.moments[row] = moments
            columns.histograms[row] = summary.histogram
    nonfinite = np.count_nonzero(columns.outputs[:, NAN] | columns.outputs[:, INF])
    return columns._replace(nonfinite=int(nonfinite))


def noted(event: NodeFinished, note: OutputsSink) -> bool:
    """Note an execution that came as an event, if possible; return whether it was noted."""
    if event.lane or event.worker:
        return False
    for array in event.outputs:
        if array.__class__ is not np.ndarray:
            return False
    node, own = event.node, () if event.attrs is None else (event.attrs,)
    return note(
        node, node.id, event.step, event.thread, event.start_ns, event.end_ns, event.inputs,
        event.outputs, *own,
    )  # fmt: skip


def noted_outputs(
    most_bytes: int, when_full: Callable[[], None], wake: Callable[[], None], *, keep: bool
) -> Any:
    """A sink for executions with outputs, see `native.NotedOutputs`; None without the core.

    Args:
        keep: Whether the elements are kept, not only their statistics.
    """
    if native.NotedOutputs is None or native.summarise_noted is None:
        return None
    example = np.zeros((2, 3, 4), np.float32)[:, ::2]
    return native.NotedOutputs(AT_ONCE, most_bytes, when_full, wake, not keep, example, keep)
