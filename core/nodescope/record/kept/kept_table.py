"""KeptTable: finds the arrays that a recording keeps in packs, many in one row.

Invariant: reads only. While a recording is written, the oldest rows may disappear, and only these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.record.kept.packing import Kept, unpacked
from nodescope.record.measured.measured_table import values_of
from nodescope.record.measured.statistics import Integers
from nodescope.record.packed_rows import GoneError, PackedRows, counts, holds
from nodescope.record.schema import spec_of

_COLUMNS: Final = "first_seq, last_seq, blob, outputs"


class Stored(NamedTuple):
    """Where an array is stored.

    Attributes:
        blob: The number of its chunks.
        dtype, shape, nbytes: Those of the array.
        start: Where its elements begin in the chunks.
        seed: The start value of the chunks' checksums.
        shared: Whether the chunks hold other arrays, too.
    """

    blob: int
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    start: int
    seed: int
    shared: bool = False


class _Row(NamedTuple):
    """A row of the table without its data."""

    first: int
    last: int
    blob: int
    ids: Integers


class KeptTable:
    """Finds arrays.

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
        self._ask, self._has = ask, has
        self._rows: PackedRows[_Row, Kept] = PackedRows(
            "pack", _COLUMNS, _row, unpacked, ask, has, read
        )

    def find(self, value: int, seq: int) -> Stored | None:
        """Where the array that an execution produced is stored; None if it is not in a pack."""
        for row, of in self._between(seq, seq, [value]):
            begin, end = np.searchsorted(of.seqs, (seq, seq + 1)).tolist()
            for place in range(begin, end):
                if of.values[place] != value:
                    continue
                spec = of.specs[of.kinds[place]]
                shape: Any = spec_of(spec.dtype, spec.shape).shape
                start = int(of.starts[place])
                return Stored(row.blob, spec.dtype, shape, spec.nbytes, start, of.seed, shared=True)
        return None

    def seqs_of(self, value: int, seqs: Sequence[int]) -> set[int]:
        """The seqs among ``seqs`` at which an array of the value is kept."""
        if not seqs or not self._has("pack"):
            return set()
        kept: set[int] = set()
        for _, of in self._between(min(seqs), max(seqs), [value]):
            kept |= set(of.seqs[of.values == value].tolist()).intersection(seqs)
        return kept

    def counts(self, values: Sequence[int]) -> list[int]:
        """How many arrays of each of these values are kept."""
        return counts((of.values for _, of in self._between(values=values)), values)

    def total(self) -> tuple[int, int]:
        """The number of arrays, and their bytes in the file."""
        if not self._has("pack"):
            return 0, 0
        arrays, nbytes = self._ask(
            "SELECT coalesce(sum(arrays), 0), coalesce(sum(nbytes), 0) FROM pack"
        )[0]
        return arrays, nbytes

    def last_seq(self) -> int | None:
        """The last execution with an array in the table; None if it is empty."""
        if not self._has("pack"):
            return None
        last: int | None = self._ask("SELECT max(last_seq) FROM pack")[0][0]
        return last

    def steps(self) -> set[int]:
        """The steps of which arrays are kept."""
        steps: set[int] = set()
        for _, of in self._between():
            steps.update(np.unique(of.steps).tolist())
        return steps

    def _between(
        self, first: int = 0, last: int | None = None, values: Sequence[int] | None = None
    ) -> Iterator[tuple[_Row, Kept]]:
        """Rows with executions in a range, and with one of these values if given."""
        if not self._has("pack"):
            return
        oldest = self._ask("SELECT min(first_seq) FROM pack")[0][0]
        if oldest is None:
            return
        rows = self._rows.known() if last is None else self._rows.known(last)
        start = bisect_left(rows, max(first, oldest), key=lambda row: row.last)
        for row in rows[start:]:
            if values is None or holds(row, *values):
                try:
                    yield row, self._rows.content(row)
                except GoneError:  # newer arrays have just replaced the row
                    continue


def _row(cells: tuple[int, int, int, bytes], before: int) -> _Row:
    first, last, blob, values = cells
    if not before < first <= last:
        raise ValueError("its arrays are not in order")
    return _Row(first, last, blob, values_of(values))
