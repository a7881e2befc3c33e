"""Measured outputs on their way from the queue into the file.

Invariant: the seqs of the table's rows ascend and do not overlap.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from nodescope.arrays import dtype_name
from nodescope.record.measured import packing
from nodescope.record.measured.statistics import OutputSpec, Row, Statistics, joined
from nodescope.record.noted_outputs import ZERO, NotedStatistics
from nodescope.record.schema import shape_text

FEWEST: Final = 64
"""Fewer outputs are written as rows of the table ``summary``."""

_AT_ONCE: Final = 1 << 13


class Measured:
    """The statistics of a batch.

    Attributes:
        rows: Rows of the table.
    """

    def __init__(self) -> None:
        self._open: list[Statistics] = []
        self._waiting = self._packed = 0
        self.rows: list[packing.Row] = []

    def add(self, statistics: Statistics) -> None:
        """Add the statistics of outputs that follow all those added before."""
        self._open.append(statistics)
        self._waiting += len(statistics.seqs)
        if self._waiting >= _AT_ONCE:
            self.close()

    def __len__(self) -> int:
        return self._waiting + self._packed

    def close(self) -> list[Row]:
        """Pack what was added; if it is little, return it as rows of the table ``summary``."""
        if not self._open:
            return []
        statistics, many = joined(self._open), self._waiting
        self._open, self._waiting = [], 0
        if many < FEWEST:
            return statistics.rows()
        self.rows.append(packing.packed(statistics))
        self._packed += many
        return []


def statistics_of(noted: NotedStatistics) -> Statistics:
    """The statistics of noted executions."""
    outputs = noted.outputs
    seqs, values, steps, kinds, nan, inf, zero = outputs.T[: ZERO + 1]
    return Statistics(
        seqs, values, steps, kinds, _specs_of(noted.specs), nan, inf, zero, noted.moments,
        noted.histograms, noted.previews,
    )  # fmt: skip


@lru_cache(256)
def _specs_of(packed: bytes) -> tuple[OutputSpec, ...]:
    """The specs that `NotedStatistics` has in packed form; steps that repeat each other have the
    same.
    """
    specs, left = [], np.frombuffer(packed, np.int64).tolist()
    while left:
        code, nbytes, dimensions = left[:3]
        shape = shape_text(tuple(left[3 : 3 + dimensions]))
        specs.append(OutputSpec(dtype_name(np.dtype(chr(code))), shape, nbytes))
        del left[: 3 + dimensions]
    return tuple(specs)
