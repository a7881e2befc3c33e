"""DeviceTable: reads when devices ran the executions of a recording.

Invariant: reads only. An execution that a device has not run yet has no row.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from nodescope.record.rows import MAX_SEQ, Execution
from nodescope.record.timed.packing import FLAGS, NODE, SEQ, START, STEP
from nodescope.record.timed.timed_table import TimedTable

_ROWS: Final = (
    "SELECT e.seq, e.node, e.step, 0, d.start_ns, d.end_ns - d.start_ns, e.flags, 0, d.lane "
    "FROM device AS d JOIN execution AS e ON e.node = d.node AND e.start_ns = d.called_ns "
    "WHERE d.end_ns >= ? AND d.start_ns <= ? ORDER BY 6 DESC LIMIT ?"
)
# Device times of executions that are kept in columns, see `TimedTable`.
_OTHERS: Final = (
    "SELECT d.node, d.called_ns, d.start_ns, d.end_ns, d.lane FROM device AS d "
    "WHERE d.end_ns >= ? AND d.start_ns <= ? AND NOT EXISTS (SELECT 1 FROM execution AS e "
    "WHERE e.node = d.node AND e.start_ns = d.called_ns) "
    "ORDER BY d.end_ns - d.start_ns DESC LIMIT ?"
)


class DeviceTable:
    """Reads the tables ``device`` and ``lane``, which earlier releases do not write.

    Args:
        ask: Runs a query on the file.
        has: Whether the file has a table.
        timed: Executions that are not in table ``execution``.
    """

    def __init__(
        self,
        ask: Callable[..., list[tuple[Any, ...]]],
        has: Callable[[str], bool],
        timed: TimedTable,
    ) -> None:
        self._ask, self._has, self._timed = ask, has, timed

    def rows(
        self, start_ns: int = 0, end_ns: int = (1 << 63) - 1, limit: int = -1
    ) -> list[Execution]:
        """Executions with their times on the device, in the lane of its queue. If the span of time
        has more than ``limit``, the longest, in order.
        """
        if not self._has("device"):
            return []
        rows = [Execution(*row) for row in self._ask(_ROWS, start_ns, end_ns, limit)]
        if self._has("timed"):
            rows += self._in_columns(self._ask(_OTHERS, start_ns, end_ns, limit))
            if 0 <= limit < len(rows):
                rows = heapq.nlargest(limit, rows, key=lambda row: row.duration_ns)
        return sorted(rows, key=lambda row: (row.lane, row.start_ns, row.seq))

    def _in_columns(self, devices: list[tuple[Any, ...]]) -> list[Execution]:
        """Device times of executions that are kept in columns."""
        if not devices:
            return []
        by_call = {(row[0], row[1]): row for row in devices}
        called = [row[1] for row in devices]
        rows: list[Execution] = []
        for chunk in self._timed.within(0, MAX_SEQ, min(called), max(called)):
            for execution in chunk.tolist():
                row = by_call.get((execution[NODE], execution[START]))
                if row is not None:
                    _, _, start_ns, end_ns, lane = row
                    rows.append(
                        Execution(
                            execution[SEQ], execution[NODE], execution[STEP], 0, start_ns,
                            end_ns - start_ns, execution[FLAGS], 0, lane,
                        )
                    )  # fmt: skip
        return rows

    def names(self) -> dict[int, str]:
        """The names of the lanes."""
        return dict(self._ask("SELECT lane, name FROM lane")) if self._has("lane") else {}
