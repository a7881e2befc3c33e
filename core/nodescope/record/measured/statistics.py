"""Statistics: the statistics of many outputs in columns, and as rows of the table ``summary``.

Invariant: a row is what `schema.summary_row` makes of the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope.record.summary import BINS, PREVIEW

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Row = tuple[Any, ...]
"""Value, seq and step, then the columns of ``summary`` from ``dtype`` on."""

LOW, HIGH, MEAN, STD, NORM = range(5)
_NONE: Final = (None,) * 5


class OutputSpec(NamedTuple):
    """The dtype, shape and size of an output.

    Attributes:
        dtype, shape: As in the table ``summary``.
        nbytes: Bytes of the elements.
    """

    dtype: str
    shape: str
    nbytes: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(map(int, self.shape.split(","))) if self.shape else 1


class Statistics(NamedTuple):
    """Statistics of outputs, in the order in which their executions ended.

    Attributes:
        seqs, values, steps: Those of each output.
        kinds: The index of each output's spec in ``specs``.
        specs: The distinct specs.
        nan, inf, zero: Counts of each output's elements.
        moments: Low, high, mean, std and norm of each output; 0 if no element is finite.
        histograms: Counts of each output's finite elements.
        previews: The first elements of each output, then zeros.
    """

    seqs: Integers
    values: Integers
    steps: Integers
    kinds: Integers
    specs: Sequence[OutputSpec]
    nan: Integers
    inf: Integers
    zero: Integers
    moments: Floats
    histograms: Integers | NDArray[np.uint32]
    previews: Floats

    def rows(self, places: Integers | None = None) -> list[Row]:
        """Rows of the outputs at some indexes, or of all."""
        chosen: Any = slice(None) if places is None else places
        kinds = self.kinds[chosen].tolist()
        sizes = {kind: self.specs[kind].size for kind in {*kinds}}
        histograms = self.histograms[chosen].astype("<u8").tobytes()
        previews = self.previews[chosen].astype("<f8").tobytes()
        columns = (self.values, self.seqs, self.steps, self.nan, self.inf, self.zero)
        numbers = zip(kinds, *(column[chosen].tolist() for column in columns), strict=True)
        wide, narrow = 8 * BINS, 8 * PREVIEW
        rows: list[Row] = []
        for nth, (cells, moments) in enumerate(
            zip(numbers, self.moments[chosen].tolist(), strict=True)
        ):
            kind, value, seq, step, nan, inf, zero = cells
            size = sizes[kind]
            finite = nan + inf < size
            rows.append((
                value, seq, step, *self.specs[kind], *(moments if finite else _NONE), nan, inf,
                zero, histograms[nth * wide : (nth + 1) * wide] if finite else b"",
                previews[nth * narrow : nth * narrow + 8 * min(size, PREVIEW)],
            ))  # fmt: skip
        return rows

    def sizes(self) -> Integers:
        """The number of elements of each output."""
        return np.array([spec.size for spec in self.specs], dtype=np.int64)[self.kinds]


def joined(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of several lots, one after the other."""
    if len(parts) == 1:
        return parts[0]
    specs: dict[OutputSpec, int] = {}
    kinds: list[Integers] = []
    places: dict[int, Integers] = {}  # by identity: steps that repeat each other have the same
    for part in parts:
        among = places.get(id(part.specs))
        if among is None:
            numbers = [specs.setdefault(spec, len(specs)) for spec in part.specs]
            among = places[id(part.specs)] = np.array(numbers, np.int64)
        kinds.append(among[part.kinds])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Statistics._fields
        if name not in ("kinds", "specs")
    }
    return Statistics(kinds=np.concatenate(kinds), specs=tuple(specs), **columns)
