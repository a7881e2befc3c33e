"""ExecutionTable: the executions of a recording, from the tables ``execution`` and ``timed``.

Invariant: reads only; where an execution is kept makes no difference to the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from nodescope.record.rows import Execution, NodeCost
from nodescope.record.schema import EXECUTION, RAN_LAST
from nodescope.record.timed.packing import DURATION, FLAGS, NODE, SEQ, STEP, Integers
from nodescope.record.timed.timed_table import TimedTable, added_cost

_PRODUCER: Final = "SELECT producer FROM value WHERE id = ? AND seq <= ? ORDER BY row DESC LIMIT 1"

Row = tuple[Any, ...]


class ExecutionTable:
    """Reads executions.

    Args:
        ask: Runs a query on the file.
        by_seq: Runs a query on many seqs.
        has: Whether the file has a table.
        read: Calls a function on content of the file; reports its errors as damage to the file.
        timed: Executions that are not in table ``execution``.
    """

    def __init__(
        self,
        ask: Callable[..., list[Row]],
        by_seq: Callable[..., list[Row]],
        has: Callable[[str], bool],
        read: Callable[..., Any],
        timed: TimedTable,
    ) -> None:
        self._ask, self._by_seq, self._has, self._read = ask, by_seq, has, read
        self._timed = timed

    def between(
        self, after: int, until: int, node: int | None, limit: int | None
    ) -> list[Execution]:
        """See `Recording.executions`."""
        condition = "" if node is None else " AND node = ?"
        rows = self._ask(
            f"SELECT {EXECUTION} FROM execution WHERE seq > ? AND seq <= ?{condition} "
            "ORDER BY seq LIMIT ?",
            after,
            until,
            *(() if node is None else (node,)),
            -1 if limit is None else limit,
        )
        if any(row[0] <= before[0] for before, row in pairwise([(after,), *rows])):
            # Otherwise a reader that continues after the last one would never finish.
            self._read(_refuse, "its executions are not in order")
        if len(timed := self._timed.between(after, until, node=node, limit=limit)):
            if not rows and not self._any_placed():
                # The usual case. For a million rows, making lists and tuples would take most time.
                return [*map(Execution, *timed[:limit, : FLAGS + 1].T.tolist())]
            rows = _merged(rows, timed)[:limit]
        return self.placed(rows)

    def latest(self, node: int) -> int:
        """The seq of a node's last execution; 0 if it has none."""
        seq = self._ask("SELECT max(seq) FROM execution WHERE node = ?", node)[0][0] or 0
        timed = self._timed.latest_of(node)
        return max(int(seq), int(timed[0, SEQ]) if len(timed) else 0)

    def last_of(self, node: int, before: int) -> Execution | None:
        """The last execution of a node with a seq below ``before``."""
        question = f"SELECT {EXECUTION} FROM execution WHERE node = ? AND seq < ? ORDER BY seq DESC"
        rows = self._ask(f"{question} LIMIT 1", node, before)
        rows = _merged(rows, self._timed.latest_of(node, before - 1))
        return Execution(*rows[-1]) if rows else None

    def ran_last(self, value: int, seq: int) -> int:
        """See `Recording.ran_last`."""
        ran = int(self._ask(RAN_LAST, seq, value, seq)[0][0] or 0)
        producer = self._ask(_PRODUCER, value, seq)
        if producer and producer[0][0] is not None:
            timed = self._timed.latest_of(producer[0][0], seq)
            ran = max(ran, int(timed[0, SEQ]) if len(timed) else 0)
        return ran

    def durations(self, limit: int) -> list[tuple[int, int]]:
        """Node and nanoseconds of the latest executions, in any order."""
        question = "SELECT seq, node, duration_ns FROM execution ORDER BY seq DESC LIMIT ?"
        rows = self._ask(question, limit)
        timed = self._timed.newest(limit)
        if not rows:
            return [(node, duration) for node, duration in timed[:, [NODE, DURATION]].tolist()]
        if len(timed):
            rows += map(tuple, timed[:, [SEQ, NODE, DURATION]].tolist())
            rows = sorted(rows)[-limit:]
        return [(node, nanoseconds) for _, node, nanoseconds in rows]

    def costs(self) -> list[NodeCost]:
        """The time of each node, slowest first."""
        rows = self._ask(  # SQLite takes the step from the row that has the maximum
            "SELECT node, count(*), sum(duration_ns), max(duration_ns), step FROM execution "
            "GROUP BY node ORDER BY 3 DESC"
        )
        if timed := self._timed.costs():
            sums = {row[0]: row for row in timed}
            for row in rows:
                node, count, total, longest, step = row
                cost = (node, count, total, longest, step)
                sums[node] = added_cost(sums.get(node), cost)
            rows = sorted(sums.values(), key=lambda row: row[2], reverse=True)
        return [NodeCost(*row) for row in rows]

    def ran_in(self, step: int, first: int, end: int) -> list[tuple[int, int]]:
        """The first execution of each node in a step between two seqs: node and seq, in order."""
        rows = self._ask(
            "SELECT node, min(seq) FROM execution WHERE seq > ? AND seq < ? AND step = ? "
            "GROUP BY node ORDER BY min(seq)",
            first, end, step,
        )  # fmt: skip
        timed = self._timed.between(first, end - 1)
        timed = timed[timed[:, STEP] == step]
        if not len(timed):
            return rows
        nodes, places = np.unique(timed[:, NODE], return_index=True)
        firsts = dict(zip(nodes.tolist(), timed[places, SEQ].tolist(), strict=True))
        for node, seq in rows:
            firsts[node] = min(seq, firsts.get(node, seq))
        return sorted(firsts.items(), key=lambda pair: pair[1])

    def timeline(
        self, seqs: tuple[int, int], start_ns: int, end_ns: int, limit: int
    ) -> tuple[int, list[Execution]]:
        """Executions between two seqs that overlap a span of time; see `Recording.timeline`."""
        condition = "seq BETWEEN ? AND ? AND start_ns <= ? AND start_ns + duration_ns >= ?"
        bounds = (*seqs, end_ns, start_ns)
        total = self._ask(f"SELECT count(*) FROM execution WHERE {condition}", *bounds)[0][0]
        longest = f"SELECT {EXECUTION} FROM execution WHERE {condition} ORDER BY duration_ns DESC"
        rows = self._ask(f"{longest} LIMIT ?", *bounds, limit)
        best: list[Integers] = []
        for timed in self._timed.within(*seqs, start_ns, end_ns):
            total += len(timed)
            both = np.concatenate([*best, timed])
            best = [both[np.argsort(-both[:, DURATION], kind="stable")[:limit]]]
        if best and len(best[0]):
            rows += map(tuple, best[0][:, : FLAGS + 1].tolist())
            rows = sorted(rows, key=lambda row: row[DURATION], reverse=True)[: max(limit, 0)]
        return total, self.placed(sorted(rows))

    def seqs_of(self, node: int, until: int) -> list[int]:
        """The seqs of a node's executions up to a seq, in order."""
        rows = self._ask(
            "SELECT seq FROM execution WHERE node = ? AND seq <= ? ORDER BY seq", node, until
        )
        seqs = [row[0] for row in rows]
        timed = self._timed.between(-1, until, node=node)
        return sorted([*seqs, *timed[:, SEQ].tolist()]) if len(timed) else seqs

    def of(self, seqs: Sequence[int]) -> list[Execution]:
        """The executions with these seqs, in order."""
        rows = self._by_seq(f"SELECT {EXECUTION} FROM execution WHERE seq IN", seqs)
        if len(rows) < len(seqs) and len(timed := self._timed.chosen(seqs)):
            rows = _merged(rows, timed)
        return self.placed(sorted(rows))

    def placed(self, rows: list[Row]) -> list[Execution]:
        """Executions from their rows, each with the place where it ran."""
        places: dict[int, tuple[int, int]] = {}
        if rows and self._any_placed():
            lanes = self._by_seq(
                "SELECT seq, worker, lane FROM placed WHERE seq IN", [row[0] for row in rows]
            )
            places = {seq: (worker, lane) for seq, worker, lane in lanes}
        if not places:
            return [Execution(*row) for row in rows]
        return [Execution(*row, *places.get(row[0], (0, 0))) for row in rows]  # type: ignore[call-arg]

    def _any_placed(self) -> bool:
        return self._has("placed") and bool(self._ask("SELECT 1 FROM placed LIMIT 1"))


def _merged(rows: Iterable[Row], timed: Integers) -> list[Row]:
    """Rows of both tables, in order, by the columns `EXECUTION`."""
    more = [tuple(row) for row in timed[:, : FLAGS + 1].tolist()]
    rows = [*rows]
    return sorted([*rows, *more]) if rows else more


def _refuse(reason: str) -> None:
    raise ValueError(reason)
