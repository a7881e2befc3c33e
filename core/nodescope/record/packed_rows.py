"""PackedRows: reads a table whose rows hold packed columns, and unpacks them on demand.

Invariant: reads only. What is unpacked at a time does not grow with the recording.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from nodescope.record.rows import MAX_SEQ

Integers = np.ndarray[Any, np.dtype[np.int64]]

_KEPT: Final = 8


class GoneError(LookupError):
    """A row is no longer in the file."""


class Packed(Protocol):
    """A row of such a table without its data: its seqs and ids."""

    @property
    def first(self) -> int:
        """The first seq."""

    @property
    def last(self) -> int:
        """The last seq."""

    @property
    def ids(self) -> Integers:
        """The ids that occur, in order."""


Row = TypeVar("Row", bound=Packed)
Content = TypeVar("Content")


class PackedRows(Generic[Row, Content]):
    """Reads a table, which earlier releases do not write.

    Args:
        table: Its name.
        columns: The columns of a row without its data; the first is ``first_seq``.
        packed: Makes a row from these columns and from the last seq of the row before.
        unpacked: Makes the content from first seq, last seq, ids and data.
        ask: Runs a query on the file.
        has: Whether the file has a table.
        read: Calls a function on content of the file; reports its errors as damage to the file.
    """

    def __init__(
        self,
        table: str,
        columns: str,
        packed: Callable[[Any, int], Row],
        unpacked: Callable[[int, int, Integers, bytes], Content],
        ask: Callable[..., list[tuple[Any, ...]]],
        has: Callable[[str], bool],
        read: Callable[..., Any],
    ) -> None:
        self._table = table
        self._rows_after = f"SELECT {columns} FROM {table} WHERE first_seq > ? ORDER BY first_seq"
        self._data = f"SELECT data FROM {table} WHERE first_seq = ?"
        self._packed, self._unpacked = packed, unpacked
        self._ask, self._has, self._read = ask, has, read
        self._lock = threading.RLock()
        self._rows: list[Row] = []
        self._contents: OrderedDict[int, Content] = OrderedDict()

    def known(self, until: int = MAX_SEQ) -> list[Row]:
        """The rows that begin at or before a seq."""
        if not self._has(self._table):
            return []
        with self._lock:
            last = self._rows[-1].last if self._rows else -1
            if until <= last:  # what has been added is later
                return self._rows[: bisect_right(self._rows, until, key=lambda row: row.first)]
            for cells in self._ask(self._rows_after, last):
                self._rows.append(self._read(self._packed, cells, last))
                last = self._rows[-1].last
            if until >= last:
                return self._rows[:]
            return self._rows[: bisect_right(self._rows, until, key=lambda row: row.first)]

    def content(self, row: Row) -> Content:
        """The content of a row; the latest contents are cached.

        Raises:
            GoneError: The row is no longer there.
        """
        with self._lock:
            content = self._contents.pop(row.first, None)
            if content is None:
                data = self._ask(self._data, row.first)
                if not data:
                    raise GoneError(f"{self._table} has no row {row.first}")
                content = self._read(self._unpacked, row.first, row.last, row.ids, data[0][0])
                assert content is not None
            self._contents[row.first] = content
            if len(self._contents) > _KEPT:
                self._contents.popitem(last=False)
        return content


def counts(outputs: Iterable[Integers], values: Sequence[int]) -> list[int]:
    """How often these values occur in columns of value ids."""
    ids = np.unique(np.array([value for value in values if abs(value) <= MAX_SEQ], np.int64))
    times = np.zeros(len(ids) + 1, np.int64)  # the last one is that of all others
    for column in outputs:
        places = np.searchsorted(ids, column)
        others = ids[np.minimum(places, len(ids) - 1)] != column
        times += np.bincount(np.where(others, len(ids), places), minlength=len(times))
    known = dict(zip(ids.tolist(), times.tolist(), strict=False))
    return [known.get(value, 0) for value in values]


def holds(row: Packed, *ids: int) -> bool:
    """Whether one of these ids occurs in a row."""
    for id in ids:
        if abs(id) <= MAX_SEQ:
            place = int(np.searchsorted(row.ids, id))
            if place < len(row.ids) and int(row.ids[place]) == id:
                return True
    return False
