"""Packing: a row of the table ``timed``, which holds many executions in columns.

Each column is as narrow as its numbers allow: one byte gives the encoding, and the numbers or runs
of equal numbers follow. `docs/recording.md` describes the format.

Invariant: unpacking checks all that it returns; a row has no more executions than bytes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodescope import native
from nodescope.record.rows import BEHIND, HAS_SUMMARY, UNWRITTEN, WANTED

Integers = NDArray[np.int64]

MOST: Final = 1 << 16
"""The most executions in a row."""

SEQ, NODE, STEP, THREAD, START, DURATION, FLAGS, TIMES = range(8)
"""The columns of an unpacked row: those of the table ``execution``."""

_RUNS: Final = b"r"
_WIDTHS: Final = (b"B", b"b", b"H", b"h", b"I", b"i", b"q")  # as in `numpy.dtype.char`
_KINDS: Final = [
    (code, int(np.iinfo(kind).min), int(np.iinfo(kind).max), kind.newbyteorder("<"))
    for code in _WIDTHS
    for kind in (np.dtype(code.decode()),)
]

ROWS: Final = b"w"
"""The first byte of rows that `column_of_rows` encoded."""

_ROW_WIDTHS: Final = (1, 2, 4, 8)
_ROW_MOST: Final = np.array([(1 << 8 * width) - 1 for width in _ROW_WIDTHS], np.uint64)

FLAGGED: Final = (0, *(HAS_SUMMARY | bit for bit in (0, WANTED, BEHIND, UNWRITTEN)))
"""The flags that all executions of a row may have."""

Row = tuple[int, int, int, int, bytes, bytes]
"""First and last seq, first start and last end, the nodes, and the rest."""


class _Columns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The column ``data``.

    Attributes:
        count: The number of executions.
        step, start_ns: The lowest step, and the first start.
        seqs: The difference of each seq from the one before.
        nodes: The index of each execution's node in the table's column ``nodes``.
        steps: The difference of each step from the lowest.
        threads: The thread of each execution.
        starts: The difference of each start from the one before.
        durations: The duration of each execution, in nanoseconds.
        before: How often each node had run before.
        flags: The flags of each execution, which are the same for all.
    """

    count: int
    step: int
    start_ns: int
    seqs: bytes
    nodes: bytes
    steps: bytes
    threads: bytes
    starts: bytes
    durations: bytes
    before: bytes
    flags: int = 0


_SMALL: Final = 1 << 20  # nodes below this are looked up in a table
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Columns).decode


def packed(
    rows: Integers, nodes: Integers, places: Integers, before: Integers, flags: int = 0
) -> Row:
    """Pack executions into a row of the table.

    Args:
        rows: At least one execution, in order: seq, node, step, thread, start and duration.
        nodes: The distinct nodes, ascending.
        places: The index of each execution's node in ``nodes``.
        before: How often each node had run before.
        flags: The flags of each execution, one of `FLAGGED`.
    """
    seqs, steps, starts = rows[:, SEQ], rows[:, STEP], rows[:, START]
    step, start_ns = int(steps.min()), int(starts[0])
    data = _Columns(
        len(rows),
        step,
        start_ns,
        column(seqs, differences=True),
        column(places),
        column(steps - step),
        column(rows[:, THREAD]),
        column(starts, runs=False, differences=True),
        column(rows[:, DURATION], runs=False),
        column(before),
        flags,
    )
    ends = starts + rows[:, DURATION]
    seen = nodes.astype("<i8").tobytes()
    return int(seqs[0]), int(seqs[-1]), int(starts.min()), int(ends.max()), seen, _encode(data)


def flagged(row: Row, flags: int) -> Row:
    """The row, with these flags instead if elements of its outputs were to be kept."""
    columns = _decode(row[5])
    if not columns.flags & WANTED:
        return row
    return (*row[:5], _encode(msgspec.structs.replace(columns, flags=flags)))


def unpacked(first_seq: int, last_seq: int, nodes: Integers, data: bytes) -> Integers:
    """The executions in a row of the table, by the columns of ``execution``.

    Raises:
        ValueError, OverflowError, msgspec.MsgspecError: The row is damaged.
    """
    columns = _decode(data)
    count = columns.count
    if not 0 < count <= MOST:
        raise ValueError(f"{count} executions in a row")
    if columns.flags not in FLAGGED:
        raise ValueError(f"executions with the flags {columns.flags}")
    rows = np.zeros((count, 8), dtype=np.int64)
    # Read these first, as their bytes limit the number of executions.
    rows[:, DURATION] = numbers(columns.durations, count, runs=False)
    rows[:, START] = np.cumsum(numbers(columns.starts, count, runs=False))
    rows[:, START] += columns.start_ns
    rows[:, SEQ] = ascending(columns.seqs, count, first_seq, last_seq, "executions", least=1)
    places = numbers(columns.nodes, count)
    if (places < 0).any() or (places >= len(nodes)).any():
        raise ValueError("executions of unknown nodes")
    rows[:, NODE] = nodes[places]
    rows[:, STEP] = numbers(columns.steps, count)
    rows[:, STEP] += columns.step
    rows[:, THREAD] = numbers(columns.threads, count)
    before = numbers(columns.before, len(nodes))
    rows[:, FLAGS] = columns.flags
    rows[:, TIMES] = before[places] + _nth(places) + 1
    return rows


def nodes_of(data: bytes) -> Integers:
    """The column ``nodes``. Raises `ValueError` if it is damaged."""
    nodes = np.frombuffer(data, dtype="<i8").astype(np.int64)
    if not 0 < len(nodes) <= MOST or (nodes[1:] <= nodes[:-1]).any():
        raise ValueError("nodes that are not in order")
    return nodes


def distinct(nodes: Integers) -> tuple[Integers, Integers, Integers]:
    """The distinct nodes, ascending; the index of each node among them; how often each occurs."""
    parts = native.distinct(nodes)
    if parts is not None:
        ascending, places, counts = (np.frombuffer(part, np.int64) for part in parts)
        return ascending, places, counts
    if not len(nodes) or nodes.min() < 0 or nodes.max() >= _SMALL:
        ascending, places, counts = np.unique(nodes, return_inverse=True, return_counts=True)
        return ascending, places.reshape(-1), counts
    occurrences = np.bincount(nodes)
    ascending = np.flatnonzero(occurrences)
    lookup = np.empty(len(occurrences), dtype=np.int64)
    lookup[ascending] = np.arange(len(ascending))
    return ascending, lookup[nodes], occurrences[ascending]


def _nth(places: Integers) -> Integers:
    """By number, how many equal ones come before it."""
    order = np.argsort(places.astype(np.uint16), kind="stable")  # by radix, as they are < MOST
    counts = np.bincount(places)
    result = np.empty_like(places)
    result[order] = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return result


def column(numbers: Integers, *, runs: bool = True, differences: bool = False) -> bytes:
    """Encode integers as narrowly as they allow.

    Args:
        numbers: At least one number.
        runs: Whether to encode runs of equal numbers if that is shorter.
        differences: Whether to encode the difference of each number from the one before.
    """
    encoded = native.column(numbers, differences | runs << 1)
    if encoded is not None:
        return encoded
    if differences:
        numbers = np.diff(numbers, prepend=numbers[:1])
    # Columns are short, so NumPy's functions in Python would take most of the time.
    low, high = int(np.minimum.reduce(numbers)), int(np.maximum.reduce(numbers))
    code, kind = next(
        (code, kind) for code, least, most, kind in _KINDS if least <= low and high <= most
    )
    if runs:
        differs = numbers[1:] != numbers[:-1]
        many = 1 + int(np.count_nonzero(differs))
        if 16 * many < kind.itemsize * len(numbers):
            bounds = np.zeros(many + 1, dtype=np.int64)
            bounds[1:-1] = differs.nonzero()[0] + 1
            bounds[-1] = len(numbers)
            pairs = np.empty((many, 2), dtype="<i8")
            pairs[:, 0] = numbers[bounds[:-1]]
            pairs[:, 1] = bounds[1:] - bounds[:-1]
            return _RUNS + pairs.tobytes()
    return code + numbers.astype(kind).tobytes()


def column_of_rows(rows: Integers | NDArray[np.uint32]) -> bytes:
    """Encode rows of integers, each row as narrowly as it allows: their widths, then the rows of
    each width.
    """
    encoded = native.column_of_rows(np.ascontiguousarray(rows))
    if encoded is not None:
        return encoded
    any_bits = np.bitwise_or.reduce(rows, axis=1).astype(np.uint64)
    widths = np.array(_ROW_WIDTHS, np.uint8)[np.searchsorted(_ROW_MOST, any_bits)]
    parts = [rows[widths == width].astype(f"<u{width}").tobytes() for width in _ROW_WIDTHS]
    return b"".join([ROWS, widths.tobytes(), *parts])


def rows_of(packed: bytes, count: int, many: int) -> Integers:
    """Decode what `column_of_rows` encoded. Raises `ValueError` if it is damaged."""
    data = memoryview(packed)[1:]
    widths = np.frombuffer(data[:count], np.uint8)
    sizes = {width: np.flatnonzero(widths == width) for width in _ROW_WIDTHS}
    if packed[:1] != ROWS or sum(map(len, sizes.values())) != count:
        raise ValueError("rows of unknown widths")
    if len(data) != count + sum([width * many * len(rows) for width, rows in sizes.items()]):
        raise ValueError("a column of another length")
    result, at = np.empty((count, many), dtype=np.int64), count
    for width, rows in sizes.items():
        end = at + width * many * len(rows)
        result[rows] = np.frombuffer(data[at:end], f"<u{width}").reshape(-1, many)
        at = end
    return result


def ascending(
    packed: bytes, count: int, first: int, last: int, what: str, *, least: int = 0
) -> Integers:
    """Decode ascending numbers from ``first`` to ``last`` that are stored as differences.

    Args:
        packed: The column of differences, the first of which is 0.
        count: How many there are.
        first, last: The first number and the last.
        what: What the numbers stand for, for messages.
        least: The least difference.

    Raises:
        ValueError: They are not in order.
    """
    distances = numbers(packed, count)
    in_order = not distances[0] and (distances[1:] >= least).all()
    if in_order and (distances <= last - first).all():
        result = np.cumsum(distances) + first
        if result[-1] == last:
            return result
    raise ValueError(f"{what} that are not in order")


def numbers(packed: bytes, count: int, *, runs: bool = True) -> Integers:
    """Decode what `column` encoded. Raises `ValueError` if it is damaged."""
    code, data = packed[:1], memoryview(packed)[1:]
    if runs and code == _RUNS:
        pairs: Any = np.frombuffer(data, dtype="<i8").reshape(-1, 2)
        if (pairs[:, 1] < 1).any() or (pairs[:, 1] > count).any() or pairs[:, 1].sum() != count:
            raise ValueError("runs of another length")
        return np.repeat(pairs[:, 0], pairs[:, 1]).astype(np.int64)
    if code not in _WIDTHS:
        raise ValueError(f"a column of kind {code!r}")
    kind = np.dtype(code.decode()).newbyteorder("<")
    if len(data) != count * kind.itemsize:
        raise ValueError("a column of another length")
    return np.frombuffer(data, dtype=kind).astype(np.int64)
