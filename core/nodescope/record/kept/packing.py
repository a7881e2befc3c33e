"""Packing: a row of the table ``pack``, which says where the elements of many arrays lie.

The elements are in chunks of the table ``chunk``, like those of an array in ``blob``; equal arrays
are stored once. `docs/recording.md` describes the format.

Invariant: unpacking checks all that it returns; a row has no more arrays than bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
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

_NONE: Final = np.zeros(0, dtype=np.int64)


class Pack(NamedTuple):
    """Arrays on their way into the file.

    Attributes:
        first_seq, last_seq: The first and the last execution that produced one of them.
        arrays: The number of arrays.
        outputs, data: Columns of the table.
        nbytes: The size of all elements.
        gather: Returns the elements of all arrays; and the indexes, int64, of arrays whose elements
            are not there, as the program has written to them.
    """

    first_seq: int
    last_seq: int
    arrays: int
    outputs: bytes
    data: bytes
    nbytes: int
    gather: Callable[[], tuple[Memory, bytes]]

    def gathered(self) -> tuple[Pack | None, Memory, Integers]:
        """The pack without arrays that have changed, or None if all have; the elements; and the
        seqs of the changed arrays.
        """
        elements, changed = self.gather()
        if not changed:
            return self, elements, _NONE
        kept = taken((self.first_seq, self.last_seq, self.outputs, self.data))
        lost = np.zeros(len(kept.seqs), dtype=bool)
        lost[np.frombuffer(changed, dtype=np.int64)] = True
        if lost.all():
            return None, elements, kept.seqs
        rest = kept._replace(
            seqs=kept.seqs[~lost], values=kept.values[~lost], steps=kept.steps[~lost],
            kinds=kept.kinds[~lost],
        )  # fmt: skip
        pack = packed(rest, kept.starts[~lost], self.nbytes, lambda: (elements, b""))
        return pack, elements, kept.seqs[lost]


class Kept(NamedTuple):
    """The arrays of a row.

    Attributes:
        seqs, values, steps: Those of the output that each array was.
        kinds: The index of each array's spec in ``specs``.
        specs: The distinct specs.
        starts: Where the elements of each array begin.
        seed: The CRC-32 of the row, from which the checksums of its chunks start.
    """

    seqs: Integers
    values: Integers
    steps: Integers
    kinds: Integers
    specs: Sequence[OutputSpec]
    starts: Integers
    seed: int


class _Columns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The column ``data``; fields not explained here are as in the table ``measured``.

    Attributes:
        nbytes: The size of all elements.
        starts: Where the elements of each array begin.
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


def packed(
    of: Statistics | Kept, starts: Integers, nbytes: int,
    gather: Callable[[], tuple[Memory, bytes]],
) -> Pack:  # fmt: skip
    """Pack the arrays of some outputs.

    Args:
        of: The statistics of the outputs; only seqs, values, steps and specs are used.
        starts: Where the elements of each array begin.
        nbytes, gather: As in `Pack`.
    """
    values, places, _ = distinct(of.values)
    step = int(of.steps.min())
    data = _Columns(
        len(of.seqs),
        step,
        nbytes,
        tuple(map(tuple, of.specs)),  # type: ignore[arg-type]
        column(of.seqs, differences=True),
        column(places),
        column(of.steps - step),
        column(of.kinds),
        column(starts, runs=False),
    )
    outputs = values.astype("<i8").tobytes()
    ends = int(of.seqs[0]), int(of.seqs[-1])
    return Pack(*ends, len(of.seqs), outputs, _encode(data), nbytes, gather)


def unpacked(first_seq: int, last_seq: int, values: Integers, data: bytes) -> Kept:
    """The arrays in a row of the table.

    Raises:
        ValueError, OverflowError, msgspec.MsgspecError: The row is damaged.
    """
    columns = _decode(data)
    count = columns.count
    if not 0 < count <= MOST:
        raise ValueError(f"{count} arrays in a row")
    # Read these first, as their bytes limit the number of arrays.
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
    """Value, seq and array of each output."""
    specs = [(as_dtype(spec.dtype), tensor_of(spec.dtype, spec.shape).shape) for spec in kept.specs]
    columns = (kept.values, kept.seqs, kept.kinds, kept.starts)
    for value, seq, kind, start in zip(*(cells.tolist() for cells in columns), strict=True):
        dtype, shape = specs[kind]
        count: Any = kept.specs[kind].size
        sizes: Any = shape
        yield value, seq, np.frombuffer(elements, dtype, count, start).reshape(sizes)


def seed_of(first_seq: int, last_seq: int, outputs: bytes, data: bytes) -> int:
    """The CRC-32 of a row, from which the checksums of its chunks start."""
    return zlib.crc32(data, zlib.crc32(outputs, zlib.crc32(f"{first_seq} {last_seq}".encode())))


def taken(row: tuple[Any, ...]) -> Kept:
    """Unpack a row given as first seq, last seq, outputs and data. Raises like `unpacked`."""
    first, last, outputs, data = row
    return unpacked(first, last, np.frombuffer(outputs, "<i8").astype(np.int64), data)
