"""Packing: a row of the table ``measured``, which holds statistics of many outputs in columns.

`docs/recording.md` describes it.

Invariant: what is unpacked was checked before; a row has no more outputs than bytes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from nodescope.arrays import dtype_name
from nodescope.record.measured.statistics import Floats, Integers, OutputSpec, Statistics
from nodescope.record.summary import BINS, EXACT_IN_FLOAT64, PREVIEW
from nodescope.record.timed.packing import ascending, column, distinct, numbers

MOST: Final = 1 << 15
"""The most outputs in a row."""

_WIDE: Final = b"d"
_NARROW: Final = b"f"
_MOST_ELEMENTS: Final = 1 << 40
# Types that are measured in columns; see ``core/native/outputs.c``.
_WIDTHS: Final = {
    dtype_name(np.dtype(code)): np.dtype(code).itemsize for code in (*EXACT_IN_FLOAT64, "e")
}

Row = tuple[int, int, bytes, bytes]
"""First and last seq, the values, and the rest."""


class _Columns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The column ``data``.

    Attributes:
        count: Of outputs.
        step: The lowest step.
        specs: Dtype, shape and bytes of each kind.
        seqs: The difference of each to the one before.
        values: The place of each in the column ``values``.
        steps: Above the lowest.
        kinds: The place of its spec.
        nan, inf, zero: Counts of elements.
        moments: Low, high, mean, std and norm of each, float64.
        histograms: Counts of each.
        previews: The first elements of each, then zeros; float32 where that says the same.
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
    with np.errstate(all="ignore"):
        narrow = of.previews.astype("<f4")
        same = np.array_equal(narrow, of.previews, equal_nan=True)
    previews = _NARROW + narrow.tobytes() if same else _WIDE + of.previews.astype("<f8").tobytes()
    data = _Columns(
        len(of.seqs),
        step,
        tuple(map(tuple, of.specs)),  # type: ignore[arg-type]
        column(np.diff(of.seqs, prepend=of.seqs[:1])),
        column(places),
        column(of.steps - step),
        column(of.kinds),
        column(of.nan),
        column(of.inf),
        column(of.zero),
        of.moments.astype("<f8").tobytes(),
        column(of.histograms.reshape(-1), runs=False),
        previews,
    )
    seen = values.astype("<i8").tobytes()
    return int(of.seqs[0]), int(of.seqs[-1]), seen, _encode(data)


def unpacked(first_seq: int, last_seq: int, values: Integers, data: bytes) -> Statistics:
    """The statistics in a row of the table.

    Raises:
        ValueError, OverflowError, msgspec.MsgspecError: The row is damaged.
    """
    columns = _decode(data)
    count = columns.count
    if not 0 < count <= MOST:
        raise ValueError(f"statistics of {count} outputs in a row")
    # These first: their bytes limit the number of outputs.
    moments = _floats(_WIDE + columns.moments, count, 5)
    previews = _floats(columns.previews, count, PREVIEW)
    histograms = numbers(columns.histograms, count * BINS, runs=False).reshape(count, BINS)
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
    """A column of places among so many. Raises `ValueError` if it is damaged."""
    places = numbers(packed, count)
    if (places < 0).any() or (places >= many).any():
        raise ValueError("statistics of unknown values or types")
    return places


def is_measured(spec: OutputSpec) -> bool:
    """Whether statistics of outputs of a kind are kept in columns."""
    width = _WIDTHS.get(spec.dtype)
    return width is not None and 0 < spec.size < _MOST_ELEMENTS and spec.nbytes == spec.size * width


def spec_of(cells: tuple[str, str, int]) -> OutputSpec:
    """A type as it is stored. Raises `ValueError` if there is none such."""
    spec = OutputSpec(*cells)
    sizes = spec.shape.split(",") if spec.shape else []
    width = _WIDTHS.get(spec.dtype)
    if width is None or not all(size.isdecimal() and len(size) < 14 for size in sizes):
        raise ValueError(f"statistics of {spec.dtype} ({spec.shape})")
    if not 0 < spec.size < _MOST_ELEMENTS or spec.nbytes != spec.size * width:
        raise ValueError(f"{spec.nbytes} bytes of {spec.dtype} ({spec.shape})")
    return spec


def _floats(packed: bytes, count: int, width: int) -> Floats:
    kind: Any = {_WIDE: "<f8", _NARROW: "<f4"}.get(packed[:1])
    if kind is None:
        raise ValueError(f"a column of kind {packed[:1]!r}")
    data = memoryview(packed)[1:]
    if len(data) != count * width * np.dtype(kind).itemsize:
        raise ValueError("a column of another length")
    with np.errstate(all="ignore"):
        return np.frombuffer(data, kind).astype(np.float64).reshape(count, width)
