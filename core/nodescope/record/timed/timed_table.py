"""TimedTable: reads the executions of a recording that were noted by their times alone.

Rows of the table ``execution`` take precedence: they hold more about an execution that is in both.

Invariant: reads only. What is unpacked at a time does not grow with the recording, except by
`TimedTable.between` without a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.record.packed_rows import PackedRows, holds
from nodescope.record.rows import MAX_SEQ
from nodescope.record.timed.packing import (
    DURATION,
    NODE,
    SEQ,
    START,
    STEP,
    Integers,
    nodes_of,
    unpacked,
)

_MOST_ROWS: Final = 20_000_000
_COLUMNS: Final = "first_seq, last_seq, start_ns, end_ns, nodes"


class _Packed(NamedTuple):
    """A row of the table without its data."""

    first: int
    last: int
    start_ns: int
    end_ns: int
    ids: Integers


class TimedTable:
    """Reads the table, which earlier releases do not write.

    Results are executions by the columns of the table ``execution``, in order.

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
        self._ask, self._read = ask, read
        self._rows: PackedRows[_Packed, Integers] = PackedRows(
            "timed", _COLUMNS, _packed, unpacked, ask, has, read
        )

    def between(
        self, after: int, until: int, *, node: int | None = None, limit: int | None = None
    ) -> Integers:
        """Executions in ``(after, until]``; with ``limit``, the first ones."""
        taken: list[Integers] = []
        count = 0
        for row in self._rows.known(until):
            if row.last <= after or (node is not None and not holds(row, node)):
                continue
            rows = self._executions(row)
            chosen = (rows[:, SEQ] > after) & (rows[:, SEQ] <= until)
            if node is not None:
                chosen &= rows[:, NODE] == node
            taken.append(rows[chosen])
            count += len(taken[-1])
            if limit is not None and count >= limit:
                break
            if count > _MOST_ROWS:
                self._read(_refuse, "it has too many executions")
        return _joined(taken)[:limit]

    def chosen(self, seqs: Sequence[int]) -> Integers:
        """The executions with these seqs, which ascend."""
        moments = np.array(seqs, dtype=np.int64)
        known = self._rows.known(seqs[-1]) if seqs else []
        if not known:
            return _joined([])
        firsts = np.array([row.first for row in known], dtype=np.int64)
        places = np.unique(np.searchsorted(firsts, moments, "right") - 1)
        taken = []
        for place in places[places >= 0].tolist():
            rows = self._executions(known[place])
            taken.append(rows[np.isin(rows[:, SEQ], moments)])
        return _joined(taken)

    def latest_of(self, node: int, until: int = MAX_SEQ) -> Integers:
        """The latest execution of a node at or before a seq; empty if there is none."""
        for row in reversed(self._rows.known(until)):
            if holds(row, node):
                rows = self._executions(row)
                rows = rows[(rows[:, NODE] == node) & (rows[:, SEQ] <= until)]
                if len(rows):
                    last: Integers = rows[-1:]
                    return last
        return _joined([])

    def latest(self, until: int) -> Integers:
        """The latest execution of each node at or before a seq."""
        known = self._rows.known(until)
        if not known:
            return _joined([])
        unseen = np.unique(np.concatenate([row.ids for row in known]))
        taken: list[Integers] = []
        for row in reversed(known):
            if not len(here := np.intersect1d(unseen, row.ids, assume_unique=True)):
                continue
            rows = self._executions(row)
            rows = rows[(rows[:, SEQ] <= until) & np.isin(rows[:, NODE], here)]
            nodes, from_end = np.unique(rows[::-1, NODE], return_index=True)
            taken.append(rows[np.sort(len(rows) - 1 - from_end)])
            unseen = np.setdiff1d(unseen, nodes, assume_unique=True)
            if not len(unseen):
                break
        return _joined(taken[::-1])

    def newest(self, limit: int) -> Integers:
        """The latest executions, at most ``limit``."""
        taken: list[Integers] = []
        for row in reversed(self._rows.known()):
            taken.append(self._executions(row)[-limit:])
            limit -= len(taken[-1])
            if not limit:
                break
        return _joined(taken[::-1])

    def costs(self) -> list[tuple[int, int, int, int, int]]:
        """Node, count, total and longest time of each, and the step of the longest."""
        sums: dict[int, tuple[int, int, int, int, int]] = {}
        for row in self._rows.known():
            rows = self._executions(row)
            if not len(rows):
                continue
            rows = rows[np.lexsort((rows[:, DURATION], rows[:, NODE]))]
            nodes, firsts = np.unique(rows[:, NODE], return_index=True)
            totals = np.add.reduceat(rows[:, DURATION], firsts)
            counts = np.diff(firsts, append=len(rows))
            longest = rows[firsts + counts - 1]
            cells = zip(
                nodes.tolist(), counts.tolist(), totals.tolist(),
                longest[:, DURATION].tolist(), longest[:, STEP].tolist(), strict=True,
            )  # fmt: skip
            for cost in cells:
                sums[cost[0]] = added_cost(sums.get(cost[0]), cost)
        return list(sums.values())

    def within(self, first: int, last: int, start_ns: int, end_ns: int) -> Iterator[Integers]:
        """Executions between two seqs that overlap a span of time, some at a time."""
        for row in self._rows.known(last):
            if row.last >= first and row.start_ns <= end_ns and row.end_ns >= start_ns:
                rows = self._executions(row)
                ends = rows[:, START] + rows[:, DURATION]
                chosen = (rows[:, START] <= end_ns) & (ends >= start_ns)
                chosen &= (rows[:, SEQ] >= first) & (rows[:, SEQ] <= last)
                yield rows[chosen]

    def _executions(self, row: _Packed) -> Integers:
        """The executions in a row that the table ``execution`` does not have."""
        rows = self._rows.content(row)
        others = self._ask("SELECT seq FROM execution WHERE seq BETWEEN ? AND ?", *row[:2])
        if others:
            rows = rows[~np.isin(rows[:, SEQ], [seq for (seq,) in others])]
        return rows


def added_cost(
    before: tuple[int, int, int, int, int] | None, more: tuple[int, int, int, int, int]
) -> tuple[int, int, int, int, int]:
    """The cost of a node in two parts of a recording; see `TimedTable.costs`."""
    if before is None:
        return more
    longest = max(before[3:], more[3:], key=lambda longest: longest[0])
    return (more[0], before[1] + more[1], before[2] + more[2], *longest)


def _packed(cells: tuple[int, int, int, int, bytes], before: int) -> _Packed:
    first, last, start_ns, end_ns, nodes = cells
    if not before < first <= last:
        raise ValueError("its executions are not in order")
    return _Packed(first, last, start_ns, end_ns, nodes_of(nodes))


def _joined(parts: list[Integers]) -> Integers:
    return np.concatenate(parts) if parts else np.zeros((0, 8), dtype=np.int64)


def _refuse(reason: str) -> None:
    raise ValueError(reason)
