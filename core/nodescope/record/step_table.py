"""StepTable: the training steps of a recording, possibly millions.

Invariant: the amount read does not grow with the number of steps, except in `StepTable.after` from
the beginning, `StepTable.times` and `StepTable.blocks`. (Files of earlier releases lack the index
by seq.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nodescope.record.rows import StepRow
from nodescope.record.schema import STEP_BLOCK
from nodescope.record.timed.packing import DURATION, NODE, SEQ, START, STEP
from nodescope.record.timed.timed_table import TimedTable

MAX_STEPS: Final = 4000
"""A page cannot show more at once."""

_BUSY: Final = [SEQ, NODE, STEP, START, DURATION]

_RUNNING: Final = 64
"""The most steps that may run at the same time."""


class StepTable:
    """Reads the table.

    Args:
        ask: Runs a query on the file.
        table: Runs a query whose result is integers, by row and column.
        has: Whether the file has a table.
        timed: Executions that are not in table ``execution``.
    """

    def __init__(
        self,
        ask: Callable[..., list[tuple[Any, ...]]],
        table: Callable[..., NDArray[np.int64]],
        has: Callable[[str], bool],
        timed: TimedTable,
    ) -> None:
        self._ask = ask
        self._timed = timed
        self._has = has
        self._table = table
        self._observed = ""

    def count(self, at_most: int = -1) -> int:
        """The number of steps that began; counting ends at ``at_most``."""
        rows = self._ask("SELECT count(*) FROM (SELECT 1 FROM step LIMIT ?)", at_most)
        return int(rows[0][0])

    def has(self, step: int) -> bool:
        """Whether a step with this number began."""
        return bool(self._ask("SELECT 1 FROM step WHERE step = ?", step))

    def row(self, step: int) -> StepRow | None:
        """The step with this number."""
        rows = self._rows("WHERE step = ?", step)
        return rows[0] if rows else None

    def first(self) -> int:
        """The lowest step number; 0 if no step began."""
        return int(self._ask("SELECT coalesce(min(step), 0) FROM step")[0][0])

    def last(self) -> int:
        """The highest step number; 0 if no step began."""
        return int(self._ask("SELECT coalesce(max(step), 0) FROM step")[0][0])

    def end_of(self, step: int, beyond: int) -> int:
        """The seq at which a step ended, or else a later step began; ``beyond`` if neither."""
        ended = self._ask("SELECT end_seq FROM step WHERE step = ?", step)
        if ended and ended[0][0] is not None:
            return int(ended[0][0])
        later = self._ask("SELECT min(start_seq) FROM step WHERE step > ?", step)[0][0]
        return beyond if later is None else int(later)

    def after(self, seq: int) -> list[StepRow]:
        """Steps that began or ended after a seq, in order; all steps if it is 0."""
        if not seq:
            return self._rows("ORDER BY start_seq")
        # The index is by start: steps that ended later are among the last that began before.
        before = self._rows("WHERE start_seq <= ? ORDER BY start_seq DESC LIMIT ?", seq, _RUNNING)
        ended = [step for step in before if step.end_seq is not None and step.end_seq > seq]
        began = self._rows("WHERE start_seq > ? ORDER BY start_seq", seq)
        return [*reversed(ended), *began]

    def some(self, until: int, most: int = MAX_STEPS) -> list[StepRow]:
        """Steps that began at or before a seq: all of them, or if there are more than ``most``,
        evenly spaced ones and the newest.
        """
        newest = self._rows("WHERE start_seq <= ? ORDER BY start_seq DESC LIMIT ?", until, most + 1)
        if len(newest) <= most:
            return newest[::-1]
        newest = newest[most // 2 - 1 :: -1]
        first, last = self._ask("SELECT min(step) FROM step")[0][0], newest[0].step
        even = self._rows(
            "WHERE step IN (WITH RECURSIVE some(at) AS (SELECT ?1 UNION ALL "
            "SELECT (SELECT min(step) FROM step WHERE step >= some.at + ?2) FROM some "
            "WHERE some.at + ?2 <= ?3) SELECT at FROM some) ORDER BY start_seq",
            first, max(2 * (last - first) // most, 1), last,
        )  # fmt: skip
        return [*(row for row in even if row.start_seq < newest[0].start_seq), *newest]

    def around(self, seq: int, each_way: int) -> list[StepRow]:
        """The steps around a seq, in order; none if `some` returns all steps of the run."""
        if self.count(MAX_STEPS + 1) <= MAX_STEPS:
            return []
        before = self._rows("WHERE start_seq <= ? ORDER BY start_seq DESC LIMIT ?", seq, each_way)
        after = self._rows("WHERE start_seq > ? ORDER BY start_seq LIMIT ?", seq, each_way)
        return [*reversed(before), *after]

    def times(self, after_seq: int, after_step: int, most: int) -> NDArray[np.int64]:
        """Number, seq, start, end (-1 if running) and observed of steps that began or ended later.

        Creates no object per step. If the seq is 0, returns the first ``most`` steps after a step.
        """
        if after_seq:
            rows = [
                (row.step, row.start_seq, row.start_ns, -1 if row.end_ns is None else row.end_ns,
                 row.observed)
                for row in self.after(after_seq)
                if row.step > after_step
            ]  # fmt: skip
            return np.array(rows[:most], dtype=np.int64).reshape(-1, 5)
        return self._table(
            f"SELECT step, start_seq, start_ns, coalesce(end_ns, -1), {self._seen()} FROM step "
            "WHERE step > ? ORDER BY step LIMIT ?",
            after_step, most,
        )  # fmt: skip

    def busy(self, after_seq: int, until: int, most: int) -> NDArray[np.int64]:
        """Seq, node, step, start and duration of the first executions in ``(after, until]``."""
        rows = self._table(
            "SELECT seq, node, step, start_ns, duration_ns FROM execution "
            "WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            after_seq, until, most,
        )  # fmt: skip
        timed = self._timed.between(after_seq, until, limit=most)[:, _BUSY]
        if not len(timed):
            return rows
        both = np.concatenate((rows.reshape(-1, len(_BUSY)), timed))
        return both[np.argsort(both[:, 0])[:most]]

    def spans(self, row: int, since_ns: int | None) -> list[tuple[int, str, int, int, int]]:
        """Rows written to `host` after a row: row, kind, step, start and end.

        Args:
            since_ns: Also include earlier rows that ended after this time.
        """
        if not self._has("host"):
            return []
        question = "SELECT row, kind, step, start_ns, end_ns FROM host WHERE "
        if since_ns is None:
            return self._ask(f"{question} row > ? ORDER BY row", row)
        union = f"{question} row > ? UNION {question} end_ns >= ? ORDER BY row"
        return self._ask(union, row, since_ns)

    def blocks(self) -> list[tuple[Any, ...]]:
        """Blocks of steps summed while recording, in order: columns `STEP_BLOCK`."""
        if not self._has("step_block"):
            return []
        return self._ask(f"SELECT {STEP_BLOCK} FROM step_block ORDER BY row")

    def block_data(self, first: int, last: int) -> dict[int, bytes]:
        """The packed steps of blocks, by row."""
        question = "SELECT row, data FROM step_block WHERE row BETWEEN ? AND ?"
        return dict(self._ask(question, first, last))

    def _rows(self, condition: str, *parameters: Any) -> list[StepRow]:
        rows = self._ask(
            f"SELECT step, start_seq, start_ns, end_seq, end_ns, {self._seen()} "
            f"FROM step {condition}",
            *parameters,
        )
        return [StepRow(*times, bool(observed)) for *times, observed in rows]  # type: ignore[call-arg]

    def _seen(self) -> str:
        """The column that says whether a step was observed, which older files lack."""
        if not self._observed:
            columns = self._ask("SELECT name FROM pragma_table_info('step')")
            self._observed = "observed" if ("observed",) in columns else "1"
        return self._observed
