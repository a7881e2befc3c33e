"""Collected: executions noted by their times alone, on their way from the queue into the file.

Invariant: the seqs of the table's rows ascend and do not overlap.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from nodescope.record.noted_times import Rows, columns, count
from nodescope.record.timed import packing
from nodescope.record.timed.packing import DURATION, NODE, SEQ, START, THREAD, Integers, distinct

FEWEST: Final = 64
"""Fewer executions are written as rows of the table ``execution``."""

_AT_ONCE: Final = 1 << 15


class Collected:
    """The executions of a batch.

    Args:
        times: How often each node has run so far; updated here.

    Attributes:
        rows: Rows of the table ``timed``.
        tables: The executions in each row: seq, node, step, thread, start and duration.
        end_ns: The latest end of the executions packed so far.
    """

    def __init__(self, times: dict[int, int]) -> None:
        self._times = times
        self._flags = 0
        self._few: list[tuple[int, ...]] = []
        self._taken: set[int] = set()
        self._lots: list[tuple[int, Rows]] = []
        self._open: list[Integers] = []  # before these lots
        self._waiting = 0
        self.end_ns = 0
        self.rows: list[packing.Row] = []
        self.tables: list[Integers] = []

    def add(self, first: int, times: Rows, flags: int = 0) -> int:
        """Add executions; return their number.

        Args:
            first: The seq of the first execution.
            times: The executions.
            flags: The flags of each of them.
        """
        if flags != self._flags:
            self._begin(flags)
        self._lots.append((first, times))
        many = count(times)
        self._waiting += many
        if self._waiting >= _AT_ONCE:
            self._pack()
        return many

    def add_numbered(self, table: Integers, flags: int = 0) -> None:
        """The same for executions in a table like those of ``tables``."""
        if flags != self._flags:
            self._begin(flags)
        if self._lots:
            self._open.append(self._numbered())
        self._open.append(table)
        self._waiting += len(table)
        if self._waiting >= _AT_ONCE:
            self._pack()

    def _begin(self, flags: int) -> None:
        self._pack()
        self._flags = flags

    def __len__(self) -> int:
        return self._waiting + len(self._few) + sum(map(len, self.tables))

    def close(self) -> list[tuple[int, ...]]:
        """Pack what was added; return small remainders as rows of the table ``execution``.

        Must be called before anything else counts the executions of a node.
        """
        self._pack()
        few, self._few = self._few, []
        return few

    def _pack(self) -> None:
        if not self._waiting:
            return
        if self._lots:
            self._open.append(self._numbered())
        table = self._open[0] if len(self._open) == 1 else np.concatenate(self._open)
        self._open, self._waiting = [], 0
        self.end_ns = max(self.end_ns, int((table[:, START] + table[:, DURATION]).max()))
        times, known = self._times, self._times.get
        if len(table) < FEWEST:
            for cells in table.tolist():
                ran = times[cells[NODE]] = known(cells[NODE], 0) + 1
                self._few.append((*cells, self._flags, ran))
            return
        nodes, places, counts = distinct(table[:, NODE])
        before = [known(node, 0) for node in nodes.tolist()]
        times.update(zip(nodes.tolist(), (counts + before).tolist(), strict=True))
        many = np.array(before, dtype=np.int64)
        self.rows.append(packing.packed(table, nodes, places, many, self._flags))
        self.tables.append(table)

    def _numbered(self) -> Integers:
        """The lots as a table."""
        many = [count(times) for _, times in self._lots]
        packed = [times for _, times in self._lots if isinstance(times, bytes)]
        if len(packed) == len(many):
            noted = columns(b"".join(packed))
        else:
            noted = np.concatenate([columns(times) for _, times in self._lots])
        table = np.empty((len(noted), 6), dtype=np.int64)
        # The seqs of a lot follow that of its first execution.
        before = np.cumsum([0, *many[:-1]])
        firsts = np.array([first for first, _ in self._lots], dtype=np.int64)
        table[:, SEQ] = np.arange(len(noted)) + np.repeat(firsts - before, many)
        table[:, NODE:DURATION] = noted[:, :-1]
        np.subtract(noted[:, -1], noted[:, -2], out=table[:, DURATION])
        self._lots = []
        return table

    def take_out(self, seqs: Collection[int]) -> list[tuple[int, ...]]:
        """Take out executions that have more than times, as rows of the table ``execution``."""
        taken: list[tuple[int, ...]] = []
        seqs = set(seqs) - self._taken
        self._taken |= seqs
        for place, row in enumerate(self.rows):
            some = [seq for seq in seqs if row[0] <= seq <= row[1]]
            rows = unpacked(row) if some else None
            if rows is not None and (chosen := np.isin(rows[:, SEQ], some)).any():
                taken += [tuple(cells) for cells in rows[chosen].tolist()]
                # The packed row may keep them, because rows of ``execution`` take precedence.
                self.tables[place] = self.tables[place][~chosen]
        return taken

    @property
    def threads(self) -> set[int]:
        """The threads that ran the executions in ``tables``."""
        return {thread for table in self.tables for thread in np.unique(table[:, THREAD]).tolist()}


def unpacked(row: packing.Row) -> Integers:
    """The executions in a row of the table."""
    return packing.unpacked(row[0], row[1], packing.nodes_of(row[4]), row[5])
