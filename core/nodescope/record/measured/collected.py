"""Measured outputs on their way from the queue into the file.

Invariant: the seqs of the table's rows ascend and do not overlap.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nodescope.arrays import dtype_name
from nodescope.record.measured import packing
from nodescope.record.measured.statistics import Integers, OutputSpec, Row, Statistics, joined
from nodescope.record.noted_outputs import (
    ALIKE,
    CODE,
    DIMENSIONS,
    INF,
    NAN,
    NBYTES,
    PLACE,
    VALUE,
    ZERO,
    NotedStatistics,
)
from nodescope.record.schema import shape_text

FEWEST: Final = 64
"""Fewer outputs are written as rows of the table ``summary``."""

_AT_ONCE: Final = 1 << 13
_STEP: Final = 1  # a column of `NotedStatistics.executions`


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


def statistics_of(seqs: Integers, noted: NotedStatistics) -> Statistics:
    """The statistics of noted executions with these seqs."""
    outputs = noted.outputs
    alike = outputs[:, ALIKE]
    first = alike == np.arange(len(alike))
    firsts, kinds = np.flatnonzero(first), (np.cumsum(first) - 1)[alike]
    ends = np.cumsum(2 * outputs[:, DIMENSIONS])
    specs = []
    for at in firsts.tolist():
        dimensions = int(outputs[at, DIMENSIONS])
        start = int(ends[at]) - 2 * dimensions
        shape = shape_text(tuple(noted.shapes[start : start + dimensions].tolist()))
        dtype = dtype_name(np.dtype(chr(outputs[at, CODE])))
        specs.append(OutputSpec(dtype, shape, int(outputs[at, NBYTES])))
    places = outputs[:, PLACE]
    return Statistics(
        seqs[places], outputs[:, VALUE], noted.executions[places, _STEP], kinds,
        specs, outputs[:, NAN], outputs[:, INF], outputs[:, ZERO], noted.moments,
        noted.histograms, noted.previews,
    )  # fmt: skip
