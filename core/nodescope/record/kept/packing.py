"""Packing: a row of the table ``pack``, which says where the elements of many arrays lie.

The elements are chunks of the table ``chunk``, as those of an array in ``blob`` are; equal arrays
lie there once. `docs/recording.md` describes it.

Invariant: what is unpacked was checked before; a row has no more arrays than bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from nodescope.events import Array
from nodescope.ir.dtypes import as_dtype
from nodescope.native import Memory
from nodescope.record.measured.packing import places_of, spec_of
from nodescope.record.measured.statistics import Integers, OutputSpec, Statistics
from nodescope.record.schema import spec_of as tensor_of
from nodescope.record.timed.packing import ascending, column, distinct, numbers

MOST: Final = 1 << 15
"""The most arrays in a row."""


class Pack(NamedTuple):
    """Arrays on their way into the file.

    Attributes:
        first_seq, last_seq: The first and the last execution that gave one of them.
        arrays: Their number.
        outputs, data: Columns of the table.
        elements: Of all of them.
    """

    first_seq: int
    last_seq: int
    arrays: int
    outputs: bytes
    data: bytes
    elements: Memory


class Kept(NamedTuple):
    """The arrays of a row.

    Attributes:
        seqs, values, steps: Of the output that each was.
        kinds: The place of its spec.
        specs: The specs.
        starts: Where its elements begin.
        seed: The CRC-32 of the row, with which those of the chunks begin.
    """

    seqs: Integers
    values: Integers
    steps: Integers
    kinds: Integers
    specs: Sequence[OutputSpec]
    starts: Integers
    seed: int


class _Columns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The column ``data``; what is not explained here is as in the table ``measured``.

    Attributes:
        nbytes: Of all elements.
        starts: Where the elements of each begin.
    """

    count: int
    step: int
    nbytes: int
    specs: tuple[tuple[str, str, int], ...]
    seqs: bytes
    values: bytes
    steps: bytes
    kinds: bytes
    starts: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Columns).decode


def packed(of: Statistics, starts: Integers, elements: Memory) -> Pack:
    """The arrays that these outputs were.

    Args:
        of: Their statistics, of which only what names them is used.
        starts: Where the elements of each begin.
        elements: The elements.
    """
    values, places, _ = distinct(of.values)
    step = int(of.steps.min())
    data = _Columns(
        len(of.seqs),
        step,
        len(elements),
        tuple(map(tuple, of.specs)),  # type: ignore[arg-type]
        column(np.diff(of.seqs, prepend=of.seqs[:1])),
        column(places),
        column(of.steps - step),
        column(of.kinds),
        column(starts, runs=False),
    )
    outputs = values.astype("<i8").tobytes()
    ends = int(of.seqs[0]), int(of.seqs[-1])
    return Pack(*ends, len(of.seqs), outputs, _encode(data), elements)


def unpacked(first_seq: int, last_seq: int, values: Integers, data: bytes) -> Kept:
    """The arrays in a row of the table.

    Raises:
        ValueError, OverflowError, msgspec.MsgspecError: The row is damaged.
    """
    columns = _decode(data)
    count = columns.count
    if not 0 < count <= MOST:
        raise ValueError(f"{count} arrays in a row")
    # These first: their bytes limit the number of arrays.
    starts = numbers(columns.starts, count, runs=False)
    specs = tuple(map(spec_of, columns.specs))
    seqs = ascending(columns.seqs, count, first_seq, last_seq, "arrays")
    kinds = places_of(columns.kinds, count, len(specs))
    sizes = np.array([spec.nbytes for spec in specs], dtype=np.int64)[kinds]
    if (starts < 0).any() or (starts > columns.nbytes - sizes).any():
        raise ValueError("arrays that are not among the elements")
    return Kept(
        seqs,
        values[places_of(columns.values, count, len(values))],
        numbers(columns.steps, count) + columns.step,
        kinds,
        specs,
        starts,
        seed_of(first_seq, last_seq, values.astype("<i8").tobytes(), data),
    )


def arrays_of(kept: Kept, elements: bytes) -> Iterator[tuple[int, int, Array]]:
    """Value, seq and array of each."""
    specs = [(as_dtype(spec.dtype), tensor_of(spec.dtype, spec.shape).shape) for spec in kept.specs]
    columns = (kept.values, kept.seqs, kept.kinds, kept.starts)
    for value, seq, kind, start in zip(*(cells.tolist() for cells in columns), strict=True):
        dtype, shape = specs[kind]
        count: Any = kept.specs[kind].size
        sizes: Any = shape
        yield value, seq, np.frombuffer(elements, dtype, count, start).reshape(sizes)


def seed_of(first_seq: int, last_seq: int, outputs: bytes, data: bytes) -> int:
    """The CRC-32 of a row, with which those of its chunks begin."""
    return zlib.crc32(data, zlib.crc32(outputs, zlib.crc32(f"{first_seq} {last_seq}".encode())))


def taken(row: tuple[Any, ...]) -> Kept:
    """The arrays in a row of first and last seq, outputs and data. Raises as `unpacked`."""
    first, last, outputs, data = row
    return unpacked(first, last, np.frombuffer(outputs, "<i8").astype(np.int64), data)
