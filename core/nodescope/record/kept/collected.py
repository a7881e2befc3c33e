"""Kept arrays on their way from the queue into the file.

Invariant: the seqs of the table's rows ascend and do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from nodescope import native
from nodescope.events import Array
from nodescope.record.kept.packing import Pack, packed
from nodescope.record.measured.statistics import Integers, Statistics
from nodescope.record.noted_outputs import (
    DIMENSIONS,
    IN_ORDER,
    NBYTES,
    ORDER,
    OUTPUT_SEQ,
    VALUE,
    NotedLot,
    NotedStatistics,
)
from nodescope.record.rows import CHANGED
from nodescope.record.schema import shape_text
from nodescope.record.writer import Writer

FEWEST: Final = 64
LEAST_BYTES: Final = 1 << 18
"""Fewer and smaller arrays are written as rows of the table ``blob``."""

Row = tuple[Any, ...]

_text_of: Final = lru_cache(maxsize=4096)(shape_text)


class KeptArrays:
    """The arrays of a batch.

    Attributes:
        packs: Rows of the table ``pack``.
        few: Value, seq and array of those that are not in a pack.
        layouts: Rows of the table ``layout``.
        changed: Seqs of executions whose outputs the program wrote to before they were copied here.
        nbytes: The size of the elements in packs.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self.packs: list[Pack] = []
        self.few: list[tuple[int, int, Array]] = []
        self.layouts: list[Row] = []
        self.changed: list[int] = []

    def __len__(self) -> int:
        return len(self.few) + len(self.changed) + sum([pack.arrays for pack in self.packs])

    def add(self, of: Statistics, noted: NotedStatistics, lots: Sequence[NotedLot]) -> None:
        """Add the outputs of lots that still have their copies, with their statistics; their
        elements are placed.
        """
        outputs = noted.outputs
        if noted.disordered:
            self._add_layouts(noted)
        assert noted.places is not None
        assert native.gather_elements is not None
        blocks, (nbytes, starts) = tuple([lot.piece for lot in lots]), noted.places
        gather = partial(native.gather_elements, blocks, outputs, noted.shapes, starts, nbytes)
        places = np.frombuffer(starts, np.int64)
        if len(outputs) < FEWEST and outputs[:, NBYTES].sum() < LEAST_BYTES:
            self._add_few(of, noted, places, *gather())
            return
        self.nbytes += nbytes
        self.packs.append(packed(of, places, nbytes, gather))

    def write(self, writer: Writer) -> int:
        """Write all arrays; return the same as `StoredArrays.add`."""
        writer.insert("layout", self.layouts)
        writer.add_flags(dict.fromkeys(self.changed, CHANGED))
        lost = len(self.changed)
        return lost + writer.arrays.add_packs(self.packs) + writer.arrays.add(self.few)

    def _add_layouts(self, noted: NotedStatistics) -> None:
        outputs = noted.outputs
        rows = np.flatnonzero(outputs[:, ORDER] != IN_ORDER)
        dimensions = outputs[:, DIMENSIONS]
        ends = np.cumsum(2 * dimensions)[rows]
        columns = (outputs[rows, VALUE], outputs[rows, OUTPUT_SEQ], ends - dimensions[rows], ends)
        shapes = noted.shapes
        for value, seq, start, end in zip(*(column.tolist() for column in columns), strict=True):
            self.layouts.append((value, seq, _text_of(tuple(shapes[start:end].tolist()))))

    def _add_few(
        self, of: Statistics, noted: NotedStatistics, places: Integers,
        elements: native.Memory, changed: bytes,
    ) -> None:  # fmt: skip
        lost = set(np.frombuffer(changed, np.int64).tolist())
        arrays = noted.gathered(elements, places)
        columns = (of.values.tolist(), of.seqs.tolist(), arrays)
        for row, item in enumerate(zip(*columns, strict=True)):
            if row in lost:
                self.changed.append(item[1])
            else:
                self.few.append(item)
