"""Packing: a row of the table ``measured``, which holds statistics of many outputs in columns.

`docs/recording.md` describes the format.

Invariant: unpacking checks all that it returns; a row has no more outputs than bytes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from nodescope import native
from nodescope.arrays import dtype_name
from nodescope.record.measured.statistics import Floats, Integers, OutputSpec, Statistics
from nodescope.record.summary import BINS, EXACT_IN_FLOAT64, PREVIEW
from nodescope.record.timed.packing import (
    ROWS,
    ascending,
    column,
    column_of_rows,
    distinct,
    numbers,
    rows_of,
)

MOST: Final = 1 << 15
"""The most outputs in a row."""

_WIDE: Final = b"d"
_NARROW: Final = b"f"
_MOST_ELEMENTS: Final = 1 << 40
# Dtypes whose statistics are kept in columns; see ``core/native/outputs.c``.
_WIDTHS: Final = {
    dtype_name(np.dtype(code)): np.dtype(code).itemsize for code in (*EXACT_IN_FLOAT64, "e")
}

Row = tuple[int, int, bytes, bytes]
"""First and last seq, the values, and the rest."""


class _Columns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The column ``data``.

    Attributes:
        count: The number of outputs.
        step: The lowest step.
        specs: Dtype, shape and bytes of each distinct spec.
        seqs: The difference of each seq from the one before.
        values: The index of each output's value in the table's column ``outputs``.
        steps: The difference of each step from the lowest.
        kinds: The index of each output's spec.
        nan, inf, zero: Counts of each output's elements.
        moments: Low, high, mean, std and norm of each output, float64.
        histograms: The counts of each output's histogram, in rows; up to schema 5, one column.
        previews: The first elements of each output, then zeros; float32 if that is exact.
    """

    count: int
    step: int
    specs: tuple[tuple[str, str, int], ...]
    seqs: bytes
    values: bytes
    steps: bytes
    kinds: bytes
    nan: bytes
    inf: bytes
    zero: bytes
    moments: bytes
    histograms: bytes
    previews: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Columns).decode


def packed(of: Statistics) -> Row:
    """A row of the table."""
    values, places, _ = distinct(of.values)
    step = int(of.steps.min())
    data = _Columns(
        len(of.seqs),
        step,
        tuple(map(tuple, of.specs)),  # type: ignore[arg-type]
        column(of.seqs, differences=True),
        column(places),
        column(of.steps - step),
        column(of.kinds),
        column(of.nan),
        column(of.inf),
        column(of.zero),
        of.moments.astype("<f8").tobytes(),
        column_of_rows(of.histograms),
        _packed_floats(of.previews),
    )
    seen = values.astype("<i8").tobytes()
    return int(of.seqs[0]), int(of.seqs[-1]), seen, _encode(data)


def _packed_floats(numbers: Floats) -> bytes:
    """As float32 if that is exact."""
    numbers = np.ascontiguousarray(numbers)
    if native.in_use():
        narrow = native.narrow_floats(numbers)
    else:
        with np.errstate(all="ignore"):
            cast = numbers.astype("<f4")
            same = np.array_equal(cast, numbers, equal_nan=True)
        narrow = _NARROW + cast.tobytes() if same else None
    return narrow or _WIDE + numbers.astype("<f8").tobytes()


def unpacked(first_seq: int, last_seq: int, values: Integers, data: bytes) -> Statistics:
    """The statistics in a row of the table.

    Raises:
        ValueError, OverflowError, msgspec.MsgspecError: The row is damaged.
    """
    columns = _decode(data)
    count = columns.count
    if not 0 < count <= MOST:
        raise ValueError(f"statistics of {count} outputs in a row")
    # Read these first, as their bytes limit the number of outputs.
    moments = _floats(_WIDE + columns.moments, count, 5)
    previews = _floats(columns.previews, count, PREVIEW)
    histograms = _histograms(columns.histograms, count)
    specs = tuple(map(spec_of, columns.specs))
    seqs = ascending(columns.seqs, count, first_seq, last_seq, "statistics")
    of = Statistics(
        seqs,
        values[places_of(columns.values, count, len(values))],
        numbers(columns.steps, count) + columns.step,
        places_of(columns.kinds, count, len(specs)),
        specs,
        numbers(columns.nan, count),
        numbers(columns.inf, count),
        numbers(columns.zero, count),
        moments,
        histograms,
        previews,
    )
    sizes = of.sizes()
    finite = sizes - of.nan - of.inf
    if any((counts < 0).any() for counts in (finite, of.nan, of.inf, of.zero)) or (
        (of.zero > finite).any() or (histograms < 0).any()
    ):
        raise ValueError("counts that are not those of elements")
    return of


def places_of(packed: bytes, count: int, many: int) -> Integers:
    """A column of indexes below ``many``. Raises `ValueError` if it is damaged."""
    places = numbers(packed, count)
    if (places < 0).any() or (places >= many).any():
        raise ValueError("statistics of unknown values or types")
    return places


def is_measured(spec: OutputSpec) -> bool:
    """Whether statistics of outputs with this spec are kept in columns."""
    width = _WIDTHS.get(spec.dtype)
    return width is not None and 0 < spec.size < _MOST_ELEMENTS and spec.nbytes == spec.size * width


def spec_of(cells: tuple[str, str, int]) -> OutputSpec:
    """A spec from its stored form. Raises `ValueError` if it is invalid."""
    spec = OutputSpec(*cells)
    sizes = spec.shape.split(",") if spec.shape else []
    width = _WIDTHS.get(spec.dtype)
    if width is None or not all(size.isdecimal() and len(size) < 14 for size in sizes):
        raise ValueError(f"statistics of {spec.dtype} ({spec.shape})")
    if not 0 < spec.size < _MOST_ELEMENTS or spec.nbytes != spec.size * width:
        raise ValueError(f"{spec.nbytes} bytes of {spec.dtype} ({spec.shape})")
    return spec


def _histograms(packed: bytes, count: int) -> Integers:
    if packed[:1] == ROWS:
        return rows_of(packed, count, BINS)
    return numbers(packed, count * BINS, runs=False).reshape(count, BINS)


def _floats(packed: bytes, count: int, width: int) -> Floats:
    kind: Any = {_WIDE: "<f8", _NARROW: "<f4"}.get(packed[:1])
    if kind is None:
        raise ValueError(f"a column of kind {packed[:1]!r}")
    data = memoryview(packed)[1:]
    if len(data) != count * width * np.dtype(kind).itemsize:
        raise ValueError("a column of another length")
    with np.errstate(all="ignore"):
        return np.frombuffer(data, kind).astype(np.float64).reshape(count, width)
