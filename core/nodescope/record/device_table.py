"""DeviceTable: when devices came to the executions, as the recording has it.

Invariant: reads only. Of an execution that a device still has to do, there is no row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nodescope.record.rows import Execution

_ROWS: Final = (
    "SELECT e.seq, e.node, e.step, 0, d.start_ns, d.end_ns - d.start_ns, e.flags, 0, d.lane "
    "FROM device AS d JOIN execution AS e ON e.node = d.node AND e.start_ns = d.called_ns "
    "WHERE d.end_ns >= ? AND d.start_ns <= ? ORDER BY 6 DESC LIMIT ?"
)


class DeviceTable:
    """Reads the tables ``device`` and ``lane``, which earlier releases do not write.

    Args:
        ask: Runs a query on the file.
        has: Whether the file has a table.
    """

    def __init__(
        self, ask: Callable[..., list[tuple[Any, ...]]], has: Callable[[str], bool]
    ) -> None:
        self._ask, self._has = ask, has

    def rows(
        self, start_ns: int = 0, end_ns: int = (1 << 63) - 1, limit: int = -1
    ) -> list[Execution]:
        """Executions with the times of the device, in the lane of its queue; if there are too many
        in the span of time, the longest, in order.
        """
        if not self._has("device"):
            return []
        rows = [Execution(*row) for row in self._ask(_ROWS, start_ns, end_ns, limit)]
        return sorted(rows, key=lambda row: (row.lane, row.start_ns, row.seq))

    def names(self) -> dict[int, str]:
        """The names of the lanes."""
        return dict(self._ask("SELECT lane, name FROM lane")) if self._has("lane") else {}
