"""Executions that were noted with their outputs, on their way into a batch.

Invariant: what a recording says of them is what it would say had they come as events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np

from nodescope.record.measured.collected import Measured
from nodescope.record.measured.collected import statistics_of as measured_of
from nodescope.record.measured.statistics import Integers, Statistics
from nodescope.record.noted_outputs import NotedStatistics, statistics_of
from nodescope.record.operand_writers import OperandWriters
from nodescope.record.queued import QueuedOutputs
from nodescope.record.rows import HAS_INF, HAS_NAN, HAS_SUMMARY
from nodescope.record.timed.collected import Collected
from nodescope.record.value_rows import ValueRows

Row = tuple[Any, ...]
Spec = tuple[int, int, str, str]
"""Seq, value, dtype and shape of an output."""

_TIMES: Final = 5  # columns of `NotedStatistics.executions` that are those of noted times


class Noted:
    """The noted executions of a batch.

    Args:
        timed: Takes their times.
        values: The definitions of values.
        writers: Told of each execution.

    Attributes:
        measured: The statistics of their outputs.
        flags: By seq, those of executions that gave NaN or Inf.
        operands: Rows of the table ``operand``.
    """

    def __init__(self, timed: Collected, values: ValueRows, writers: OperandWriters) -> None:
        self._timed, self._values, self._writers = timed, values, writers
        self._open: list[QueuedOutputs] = []
        self._seen: list[Statistics] = []
        self.measured = Measured()
        self.flags: dict[int, int] = {}
        self.operands: list[Row] = []

    def add(self, item: QueuedOutputs) -> None:
        """Add a lot."""
        self._open.append(item)

    def note(self) -> None:
        """Look at what was added, which is to be done before anything else is told of executions or
        of arrays.
        """
        items, self._open = self._open, []
        for reduced, some in groupby(items, lambda item: item.lot.statistics is not None):
            for part in ([item] for item in some) if reduced else ([*some],):
                lots = [item.lot for item in part]
                self._note(part, lots[0].statistics or statistics_of(lots))

    def _note(self, items: Sequence[QueuedOutputs], columns: NotedStatistics) -> None:
        at = 0
        for item in items:
            times = columns.executions[at : at + item.many, :_TIMES]
            self._timed.add(item.seq, times.tobytes(), HAS_SUMMARY)
            at += item.many
        seqs = np.concatenate([np.arange(item.seq, item.seq + item.many) for item in items])
        statistics = measured_of(seqs, columns)
        self.measured.add(statistics)
        self._seen.append(statistics)
        self._note_operands(seqs, items, columns)
        for row in np.flatnonzero(statistics.nan | statistics.inf).tolist():
            seq, nan, inf = (int(column[row]) for column in statistics[:1] + statistics[5:7])
            bits = self.flags.get(seq, HAS_SUMMARY)
            self.flags[seq] = bits | (HAS_NAN if nan else 0) | (HAS_INF if inf else 0)

    def _note_operands(
        self, seqs: Integers, items: Sequence[QueuedOutputs], columns: NotedStatistics
    ) -> None:
        nodes = chain.from_iterable(item.lot.nodes for item in items)
        ids, at, ran = columns.identities.tolist(), 0, self._writers.ran
        counts = columns.executions[:, _TIMES:].sum(axis=1).tolist()
        for seq, node, count in zip(seqs.tolist(), nodes, counts, strict=True):
            if found := ran(seq, node, ids[at : at + count]):
                self.operands += [(None, *row) for row in found]
            at += count

    def respecified(self, others: Iterable[Spec]) -> Iterator[Row]:
        """Rows of the table ``value`` for outputs of another dtype or shape than before.

        Args:
            others: Of outputs that came as events, in order.
        """
        known, changed = self._values.specs.get, self._values.changed
        for seq, value, dtype, shape in merge(self._specs(), others, key=itemgetter(0)):
            spec = known(value)
            if spec is not None and (spec[1] != dtype or spec[2] != shape):
                again = changed(seq, value, dtype, shape)
                if again is not None:
                    yield again

    def _specs(self) -> Iterator[Spec]:
        for of in self._seen:
            specs = [spec[:2] for spec in of.specs]
            columns = (of.seqs, of.values, of.kinds)
            for seq, value, kind in zip(*(column.tolist() for column in columns), strict=True):
                yield (seq, value, *specs[kind])

    def taken_out(self) -> list[Row]:
        """Rows of the table ``execution`` for those that gave NaN or Inf, which are looked up
        there; those that were taken out before are left out.
        """
        return self._timed.take_out(self.flags) if self.flags else []
