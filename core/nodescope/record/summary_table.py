"""SummaryTable: the statistics of a recording, from the tables ``summary`` and ``measured``.

Invariant: reads only; where statistics are kept makes no difference to the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nodescope.record.kept.kept_table import KeptTable
from nodescope.record.measured.measured_table import MeasuredTable
from nodescope.record.rows import MAX_SEQ, ValueAt
from nodescope.record.schema import SUMMARY, summary_of

_HAS_BLOB: Final = "EXISTS (SELECT 1 FROM blob AS b WHERE b.value = s.value AND b.seq = s.seq)"

Row = tuple[Any, ...]


class SummaryTable:
    """Reads statistics.

    Args:
        ask: Runs a query on the file.
        by_seq: Runs a query on many seqs.
        read: Calls a function on content of the file; reports its errors as damage to the file.
        measured: Statistics that are not in table ``summary``.
        kept: Arrays that are not in table ``blob``.
    """

    def __init__(
        self,
        ask: Callable[..., list[Row]],
        by_seq: Callable[..., list[Row]],
        read: Callable[..., Any],
        measured: MeasuredTable,
        kept: KeptTable,
    ) -> None:
        self._ask, self._by_seq, self._read = ask, by_seq, read
        self._measured, self._kept = measured, kept

    def latest_at(self, value: int, seq: int | None, arrays: bool = True) -> ValueAt | None:
        """See `Recording.latest_at`."""
        until = MAX_SEQ if seq is None else min(seq, MAX_SEQ)
        rows = self._ask(
            f"SELECT {SUMMARY}, {_HAS_BLOB if arrays else 0} FROM summary AS s "
            "WHERE value = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            value,
            until,
        )
        measured = self._measured.latest(value, until)
        if measured is not None and (not rows or measured[1] > rows[0][0]):
            rows = self._with_blobs([measured]) if arrays else [(*measured[1:], False)]
        if arrays:
            rows = self._with_kept(value, rows)
        return self._value_at(value, rows[0]) if rows else None

    def at(self, value: int, seqs: Sequence[int]) -> dict[int, ValueAt]:
        """The statistics of a value at these seqs, by seq."""
        rows = self._by_seq(
            f"SELECT {SUMMARY}, {_HAS_BLOB} FROM summary AS s WHERE value = {value:d} AND seq IN",
            seqs,
        )
        if len(rows) < len(seqs):
            rows = [*self._with_blobs(self._measured.chosen(value, seqs)), *rows]
        rows = self._with_kept(value, rows)
        return {row[0]: self._value_at(value, row) for row in rows}

    def means(self, value: int) -> list[tuple[int, int, float | None, bool]]:
        """See `Recording.means`."""
        rows = self._ask(
            "SELECT seq, step, mean, nan_count, inf_count FROM summary WHERE value = ? "
            "ORDER BY seq",
            value,
        )
        if measured := self._measured.means(value):
            rows = sorted([*rows, *measured], key=lambda row: row[0]) if rows else [*measured]
        return [(seq, step, mean, bool(nan or inf)) for seq, step, mean, nan, inf in rows]

    def kept_of(self, values: Sequence[int]) -> list[tuple[int, int]]:
        """See `Recording.kept_of`."""
        question = "SELECT (SELECT count(*) FROM blob WHERE value = ?), count(*) FROM summary "
        rows = [self._ask(f"{question} WHERE value = ?", value, value)[0] for value in values]
        packed = zip(self._kept.counts(values), self._measured.counts(values), strict=True)
        return [
            (kept + more_kept, known + more)
            for (kept, known), (more_kept, more) in zip(rows, packed, strict=True)
        ]

    def steps_with_arrays(self) -> set[int]:
        """See `Recording.steps_with_arrays`."""
        rows = self._ask(
            "SELECT DISTINCT s.step FROM blob AS b JOIN summary AS s "
            "ON s.value = b.value AND s.seq = b.seq"
        )
        pairs = self._ask(
            "SELECT value, seq FROM blob AS s WHERE NOT EXISTS "
            "(SELECT 1 FROM summary AS b WHERE b.value = s.value AND b.seq = s.seq)"
        )
        return {row[0] for row in rows} | self._measured.steps_of(pairs) | self._kept.steps()

    def _with_blobs(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of table ``measured``, by the columns `SUMMARY` and whether the array is kept."""
        seqs = [row[1] for row in rows]
        kept: set[int] = set()
        if rows:
            value = rows[0][0]
            blobs = self._by_seq(f"SELECT seq FROM blob WHERE value = {value:d} AND seq IN", seqs)
            kept = {seq for (seq,) in blobs}
        return [(*row[1:], row[1] in kept) for row in rows]

    def _with_kept(self, value: int, rows: list[Row]) -> list[Row]:
        """Update the last column of rows, whether the array is kept, for arrays in packs."""
        kept = self._kept.seqs_of(value, [row[0] for row in rows if not row[-1]])
        return [(*row[:-1], row[-1] or row[0] in kept) for row in rows] if kept else rows

    def _value_at(self, value: int, row: Row) -> ValueAt:
        seq, step, *statistics, has_blob = row
        summary = self._read(lambda: summary_of(tuple(statistics), blob=bool(has_blob)))
        return ValueAt(seq, step, value, summary)
