"""MeasuredTable: reads the statistics that a recording keeps in columns.

Invariant: reads only. What is unpacked at a time does not grow with the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.record.measured.packing import MOST, unpacked
from nodescope.record.measured.statistics import MEAN, NORM, Integers, Row, Statistics
from nodescope.record.packed_rows import PackedRows, counts, holds

_COLUMNS: Final = "first_seq, last_seq, outputs"


class _Packed(NamedTuple):
    """A row of the table without its data."""

    first: int
    last: int
    ids: Integers


class MeasuredTable:
    """Reads the table, which earlier releases do not write.

    Args:
        ask: Runs a query on the file.
        has: Whether the file has a table.
        read: Calls a function on content of the file; reports its errors as damage to the file.
    """

    def __init__(
        self,
        ask: Callable[..., list[tuple[Any, ...]]],
        has: Callable[[str], bool],
        read: Callable[..., Any],
    ) -> None:
        self._rows: PackedRows[_Packed, Statistics] = PackedRows(
            "measured", _COLUMNS, _packed, unpacked, ask, has, read
        )

    def latest(self, value: int, until: int) -> Row | None:
        """The row of a value's latest statistics at or before a seq."""
        for packed in reversed(self._rows.known(until)):
            if holds(packed, value):
                of = self._rows.content(packed)
                end = int(np.searchsorted(of.seqs, until, side="right"))
                places = np.flatnonzero(of.values[:end] == value)
                if len(places):
                    return of.rows(places[-1:])[0]
        return None

    def chosen(self, value: int, seqs: Sequence[int]) -> list[Row]:
        """The rows of a value at these seqs, in order."""
        moments = np.array(seqs, dtype=np.int64)
        rows: list[Row] = []
        for packed, of in self._with(value):
            if len(moments) and packed.last >= moments.min() and packed.first <= moments.max():
                rows += of.rows(np.flatnonzero((of.values == value) & np.isin(of.seqs, moments)))
        return rows

    def means(self, value: int) -> list[tuple[int, int, float | None, int, int]]:
        """Seq, step, mean and the counts of NaN and Inf, each time a value is known."""
        rows: list[tuple[int, int, float | None, int, int]] = []
        for _, of in self._with(value):
            at = of.values == value
            finite = (of.sizes() - of.nan - of.inf)[at]
            columns = (of.seqs, of.steps, of.moments[:, MEAN], of.nan, of.inf)
            cells = zip(*(column[at].tolist() for column in columns), finite.tolist(), strict=True)
            rows += [
                (seq, step, mean if some else None, nan, inf)
                for seq, step, mean, nan, inf, some in cells
            ]
        return rows

    def counts(self, values: Sequence[int]) -> list[int]:
        """How many statistics of each of these values there are."""
        return counts((of.values for _, of in self._with(*values)), values)

    def all_latest(self, until: int) -> list[tuple[int, int, str, int, float | None]]:
        """Each value with its latest seq at or before ``until``, shape, zeros and norm there."""
        newest: dict[int, tuple[int, int, str, int, float | None]] = {}
        left: Integers | None = None
        known = self._rows.known(until)
        for packed in reversed(known):
            if left is not None and not np.isin(packed.ids, left).any():
                continue
            of = self._rows.content(packed)
            within = np.flatnonzero(of.seqs <= until)
            values, from_end = np.unique(of.values[within][::-1], return_index=True)
            for value, place in zip(values.tolist(), from_end.tolist(), strict=True):
                row = within[len(within) - 1 - place]
                if value in newest:
                    continue
                spec = of.specs[of.kinds[row]]
                finite = spec.size - of.nan[row] - of.inf[row]
                norm = float(of.moments[row, NORM]) if finite else None
                newest[value] = (value, int(of.seqs[row]), spec.shape, int(of.zero[row]), norm)
            if left is None:
                left = np.unique(np.concatenate([row.ids for row in known]))
            left = np.setdiff1d(left, np.array([*newest], dtype=np.int64))
            if not len(left):
                break
        return list(newest.values())

    def steps_of(self, pairs: Sequence[tuple[int, int]]) -> set[int]:
        """The steps of outputs, given by value and seq."""
        if not pairs:
            return set()
        steps: set[int] = set()
        pair_set = set(pairs)
        seqs = np.unique(np.array([seq for _, seq in pairs], dtype=np.int64))
        for packed in self._rows.known():
            first, last = np.searchsorted(seqs, (packed.first, packed.last + 1))
            if first == last:
                continue
            of = self._rows.content(packed)
            places = np.flatnonzero(np.isin(of.seqs, seqs[first:last]))
            columns = (of.values, of.seqs, of.steps)
            cells = zip(*(column[places].tolist() for column in columns), strict=True)
            steps |= {step for value, seq, step in cells if (value, seq) in pair_set}
        return steps

    def _with(self, *values: int) -> Iterator[tuple[_Packed, Statistics]]:
        for packed in self._rows.known():
            if holds(packed, *values):
                yield packed, self._rows.content(packed)


def values_of(data: bytes) -> Integers:
    """The column ``outputs``. Raises `ValueError` if it is damaged."""
    values = np.frombuffer(data, dtype="<i8").astype(np.int64)
    if not 0 < len(values) <= MOST or (values[1:] <= values[:-1]).any():
        raise ValueError("values that are not in order")
    return values


def _packed(cells: tuple[int, int, bytes], before: int) -> _Packed:
    first, last, values = cells
    if not before < first <= last:
        raise ValueError("its statistics are not in order")
    return _Packed(first, last, values_of(values))
