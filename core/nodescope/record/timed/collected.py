"""Collected: executions noted by their times alone, on their way from the queue into the file.

Invariant: the seqs of the table's rows ascend and do not overlap.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from nodescope.record.noted_times import Rows, columns
from nodescope.record.timed import packing
from nodescope.record.timed.packing import DURATION, NODE, SEQ, THREAD, Integers

FEWEST: Final = 64
"""Fewer executions are written as rows of the table ``execution``."""

_AT_ONCE: Final = 1 << 15
_SMALL: Final = 1 << 20  # nodes below this are looked up in a table


class Collected:
    """The executions of a batch.

    Args:
        times: How often each node has run so far; counted up.
    """

    def __init__(self, times: dict[int, int]) -> None:
        self._times = times
        self._open: list[Integers] = []
        self._waiting = 0
        self.rows: list[packing.Row] = []
        self.tables: list[Integers] = []

    def add(self, first: int, times: Rows) -> int:
        """Add executions; the latest end.

        Args:
            first: The seq of the first.
            times: The executions.
        """
        noted = columns(times)
        table = np.empty((len(noted), 6), dtype=np.int64)
        table[:, SEQ] = np.arange(first, first + len(noted))
        table[:, NODE:DURATION] = noted[:, :-1]
        table[:, DURATION] = noted[:, -1] - noted[:, -2]
        self._open.append(table)
        self._waiting += len(table)
        if self._waiting >= _AT_ONCE:
            self.close()
        return int(noted[:, -1].max())

    def __len__(self) -> int:
        return self._waiting + sum(map(len, self.tables))

    def close(self) -> list[tuple[int, ...]]:
        """Pack what was added; few executions are returned as rows of the table ``execution``.

        To be called before anything else counts the executions of a node.
        """
        if not self._open:
            return []
        table = np.concatenate(self._open)
        self._open, self._waiting = [], 0
        times, known = self._times, self._times.get
        if len(table) < FEWEST:
            plain: list[tuple[int, ...]] = []
            for cells in table.tolist():
                count = times[cells[NODE]] = known(cells[NODE], 0) + 1
                plain.append((*cells, 0, count))
            return plain
        nodes, places, counts = _distinct(table[:, NODE])
        before = [known(node, 0) for node in nodes.tolist()]
        times.update(zip(nodes.tolist(), (counts + before).tolist(), strict=True))
        self.rows.append(packing.packed(table, nodes, places, np.array(before, dtype=np.int64)))
        self.tables.append(table)
        return []

    def take_out(self, seqs: Collection[int]) -> list[tuple[int, ...]]:
        """Take out executions of which more is written than their times: rows of ``execution``."""
        taken: list[tuple[int, ...]] = []
        for place, row in enumerate(self.rows):
            some = [seq for seq in seqs if row[0] <= seq <= row[1]]
            rows = unpacked(row) if some else None
            if rows is not None and (chosen := np.isin(rows[:, SEQ], some)).any():
                taken += [tuple(cells) for cells in rows[chosen].tolist()]
                # The row may keep them: what ``execution`` has comes before it.
                self.tables[place] = self.tables[place][~chosen]
        return taken

    @property
    def threads(self) -> set[int]:
        """The threads that ran them."""
        return {thread for table in self.tables for thread in np.unique(table[:, THREAD]).tolist()}


def unpacked(row: packing.Row) -> Integers:
    """The executions in a row of the table."""
    return packing.unpacked(row[0], row[1], packing.nodes_of(row[4]), row[5])


def _distinct(nodes: Integers) -> tuple[Integers, Integers, Integers]:
    """The nodes, ascending; the place of each among them; and how often each occurs."""
    if nodes.min() < 0 or nodes.max() >= _SMALL:
        distinct, places, counts = np.unique(nodes, return_inverse=True, return_counts=True)
        return distinct, places.reshape(-1), counts
    occurrences = np.bincount(nodes)
    distinct = np.flatnonzero(occurrences)
    lookup = np.empty(len(occurrences), dtype=np.int64)
    lookup[distinct] = np.arange(len(distinct))
    return distinct, lookup[nodes], occurrences[distinct]
