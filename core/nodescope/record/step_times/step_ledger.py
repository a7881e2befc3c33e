"""StepLedger: adds the times of recorded rows to their steps, in order.

A row is booked (added) once no later row can change its meaning: an execution when the next step
has begun, a span when a step has begun at or after its end. Blocks of finished steps are sealed. So
the sums do not depend on how many rows arrive at a time.

Invariant: pure; the writer and the readers of a recording use the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.ir.graph import Node
from nodescope.record.step_times.step_page import DATA, NONE, Additions, StepPage
from nodescope.record.step_times.step_rows import PARTS, Integers, joined
from nodescope.record.timed.packing import distinct

BLOCK_STEPS: Final = 256
_OPERATIONS: Final = 4
_NO_OPERATION: Final = -1
_PHASES: Final = {"forward": 0, "backward": 1, "optimizer": 2}
_PART: Final = {
    kind: PARTS.index(part)
    for kind, part in (
        ("data", "data"), ("waiting", "waiting"), ("input", "waiting"), ("python", "python"),
        ("library", "python"), ("compiling", "compiling"), ("unobserved", "between"),
        ("held", "held"),
    )
}  # fmt: skip
# Steps with many executions are sealed in smaller blocks, and booked in parts.
_BLOCK_ROWS: Final = 1 << 16
_PIECE: Final = 1 << 16
_MOST_SPANS: Final = 1 << 22
_BEFORE_STEPS: Final = 1000
_SMALL: Final = 1 << 20


class Marks(NamedTuple):
    """How far rows are booked: executions up to a seq, spans up to a row and a time.

    Attributes:
        seq, host, until_ns: The seq of executions, and the row and the time of spans.
        cover_ns: The end of the last execution before the steps that are not sealed.
    """

    seq: int = 0
    host: int = 0
    until_ns: int = NONE
    cover_ns: int = NONE


class Block(NamedTuple):
    """Consecutive finished steps.

    Attributes:
        row: The row of all steps together, see `step_rows`.
        data: `StepPage.packed`.
        marks: How far rows were booked when it was sealed.
        late: Times booked since the last block that belong to earlier ones: part, step (or `NONE`:
            by time), start, and the end of a span or the nanoseconds of an execution.
    """

    row: Integers
    data: bytes
    marks: Marks
    late: Integers


class StepLedger:
    """Books the times of steps.

    Args:
        seal: Takes each block.

    Attributes:
        page: The steps that are not sealed; the last of them may still run.
        marks: How far rows are booked.
    """

    def __init__(self, seal: Callable[[Block], None]) -> None:
        self._seal = seal
        self.page = StepPage()
        self.marks = Marks()
        self._resumed = Marks()
        self._sealed = NONE  # the last existing step
        # For each step of the page: its start, and the end of the last execution before it.
        self._seqs = self._covers = np.zeros(0, dtype=np.int64)
        self._cover_ns = NONE
        self._parts: dict[int, int] = {}  # by node; a file may give nodes any numbers
        self._table: Integers | None = None  # the same by place, if the numbers are small
        self._executions = np.zeros((0, 5), dtype=np.int64)
        self._spans = np.zeros((0, 5), dtype=np.int64)
        self._taken = [self._executions], [self._spans]
        self._last_host = 0
        self._late: list[Integers] = []
        self._booked = 0  # executions since the last block

    def resume(self, marks: Marks, sealed: int) -> None:
        """Continue after blocks sealed earlier, the last of which ends with a step."""
        self.marks = self._resumed = marks
        self._sealed = sealed
        self._last_host = marks.host
        self._cover_ns = marks.cover_ns

    @property
    def first_seq(self) -> int | None:
        """The seq at which the steps that are not sealed began; None if there are none."""
        return int(self._seqs[0]) if len(self._seqs) else None

    # ------------------------------------------------------------ taking in

    def take_nodes(self, nodes: Iterable[Node]) -> None:
        """Take in nodes, before they run."""
        for node in nodes:
            self._table = None
            # Nodes that only hold data are not operations: the time to take them in is between
            # operations.
            part = _PHASES.get(node.phase, _OPERATIONS - 1)
            self._parts[node.id] = _NO_OPERATION if node.is_leaf else part

    def take_steps(self, table: Integers) -> None:
        """Take in steps: number, seq, start, end (or -1) and observed."""
        if not len(table):
            return
        page, count = self.page, len(self.page)
        steps = table[:, [0, 2, 3, 4]]
        places, known = page.find(table[:, 0])
        last = page.numbers[-1] if count else self._sealed
        # Step numbers only grow; a table that breaks this is damaged.
        highest = np.maximum.accumulate(np.append(last, table[:-1, 0]))
        fresh = ~known & (table[:, 0] > highest)
        page.table[places[known], :4] = steps[known]
        page.append(steps[fresh])
        self._seqs = np.append(self._seqs, table[fresh, 1])

    def take_executions(self, rows: Integers) -> None:
        """Take in executions in the order of their seqs: seq, node, step, start, duration."""
        self._taken[0].append(rows)

    def take_spans(self, rows: Iterable[tuple[Any, ...]]) -> int:
        """Take in spans between nodes: row, kind, step, start, end. Returns the latest end."""
        known = [(row, _PART[kind], *times) for row, kind, *times in rows if kind in _PART]
        if not known:
            return 0
        table = np.array(known, dtype=np.int64)
        self._last_host = max(self._last_host, int(table[-1, 0]))
        self._taken[1].append(table)
        return int(table[:, 4].max())

    # ------------------------------------------------------------ booking

    def book(self) -> None:
        """Book all rows that can be booked, and seal blocks."""
        executions, spans = (
            np.concatenate([waiting, *taken])
            for waiting, taken in zip((self._executions, self._spans), self._taken, strict=True)
        )
        self._taken = [], []
        if not len(self.page):
            # Executions before the first step belong to no step.
            self._executions = executions[:0]
            self._spans = spans[-_BEFORE_STEPS:]
            return
        if self._sealed == NONE:
            executions = executions[np.searchsorted(executions[:, 0], self._seqs[0], "right") :]
        complete = int(np.searchsorted(executions[:, 0], self._seqs[-1], "right"))
        complete += (len(executions) - complete) // _PIECE * _PIECE
        self._book_executions(executions[:complete])
        self._executions = executions[complete:]
        self._spans = self._book_spans(spans)[-_MOST_SPANS:]
        self._seal_some()

    def provisional(self, *, over: bool) -> tuple[list[Additions], Integers]:
        """The waiting rows booked provisionally, as if they belonged to known steps.

        Args:
            over: Whether no further step follows.

        Returns:
            The additions to the page, and the times that belong to blocks; see `Block.late`.
        """
        rows, _ = self._shares(self._executions)
        spans = self._spans[self._spans[:, 1] != DATA]
        additions = [
            self.page.executed(rows[:, 1:]),
            self.page.spent(spans[:, [1, 3, 4]], over=over),
        ]
        late = [rows[rows[:, 2] <= self._sealed, 1:]]
        if self._sealed != NONE and len(self.page):
            late.append(self._of_blocks(spans))
        return additions, np.concatenate(late)

    def _of_blocks(self, spans: Integers) -> Integers:
        """The times of those spans that belong to blocks; see `Block.late`."""
        middle = spans[:, 3] + (spans[:, 4] - spans[:, 3]) // 2
        of_blocks = spans[middle < self.page.begins()[0], 1:]
        of_blocks[:, 1] = NONE
        return of_blocks

    def _book_executions(self, rows: Integers) -> None:
        covered, additions, late = self._additions(rows)
        before = np.searchsorted(rows[:, 0], self._seqs[len(self._covers) :], "right")
        self._covers = np.append(self._covers, covered[before])
        self._cover_ns = int(covered[-1])
        if len(rows):
            self.marks = self.marks._replace(seq=int(rows[-1, 0]))
        self._booked += len(rows)
        self._late.append(late)
        self.page.add(additions)

    def _additions(self, rows: Integers) -> tuple[Integers, Additions, Integers]:
        """What executions add to the page.

        Returns:
            The latest end before each execution, and after the last; the additions; and what
            belongs to blocks, see `Block.late`.
        """
        parts = self._parts_by_node()
        if parts is not None:
            added = self.page.executed_in_turn(rows, self._cover_ns, parts, self._sealed)
            if added is not None:
                return *added, np.zeros((0, 4), dtype=np.int64)
        shares, covered = self._shares(rows)
        late = (shares[:, 2] <= self._sealed) & (shares[:, 0] > self._resumed.seq)
        return covered, self.page.executed(shares[:, 1:]), shares[late, 1:]

    def _parts_by_node(self) -> Integers | None:
        """The part of each node, by its id; None if ids are no small numbers."""
        nodes = self._parts
        if self._table is None and nodes and min(nodes) >= 0 and max(nodes) < _SMALL:
            self._table = np.full(max(nodes) + 1, _NO_OPERATION, np.int64)
            self._table[[*nodes]] = [*nodes.values()]
        return self._table

    def _shares(self, rows: Integers) -> tuple[Integers, Integers]:
        """Rows of operations: seq, part, step, start, and the time that counts for each alone.

        Returns:
            The rows; and the latest end before each of all executions, and after the last.
        """
        # Operations at the same time or nested are counted once, with the one that began first.
        # This is done within a step; a step with many executions is processed in parts.
        if (rows[1:, 3] <= rows[:-1, 3]).any():  # in a single thread, they are in order
            group = np.searchsorted(self._seqs, rows[:, 0], "left")
            first = np.searchsorted(group, group, "left")
            piece = (np.arange(len(rows)) - first) // _PIECE
            rows = rows[np.lexsort((-rows[:, 4], rows[:, 3], piece, group))]
        starts, ends = rows[:, 3], rows[:, 3] + rows[:, 4]
        covered = np.maximum.accumulate(np.append(self._cover_ns, ends))
        alone = np.maximum(ends - np.maximum(starts, covered[:-1]), 0)
        numbers, inverse, _ = distinct(rows[:, 1])
        known = [self._parts.get(node, _NO_OPERATION) for node in numbers.tolist()]
        parts = np.array(known, dtype=np.int64)[inverse]
        shares = np.empty((len(rows), 5), dtype=np.int64)
        shares[:, 0], shares[:, 1], shares[:, 2] = rows[:, 0], parts, rows[:, 2]
        shares[:, 3], shares[:, 4] = starts, alone
        is_operation = parts != _NO_OPERATION
        return shares if is_operation.all() else shares[is_operation], covered

    def _book_spans(self, spans: Integers) -> Integers:
        """Book spans; return those that have to wait."""
        page = self.page
        is_new = (spans[:, 0] > self._resumed.host) | (spans[:, 4] > self._resumed.until_ns)
        fetches = spans[:, 1] == DATA
        _, known = page.find(spans[:, 2])
        page.fetched(spans[fetches, 2:])
        sealed = fetches & (spans[:, 2] <= self._sealed)
        self._late.append(spans[sealed & is_new, 1:])
        begins = page.begins()
        waits = np.where(fetches, ~known & ~sealed, spans[:, 4] > begins[-1])
        booked = spans[~waits & ~fetches]
        if self._sealed != NONE:
            self._late.append(self._of_blocks(booked[is_new[~waits & ~fetches]]))
        page.add(page.spent(booked[:, [1, 3, 4]]))
        self.marks = self.marks._replace(host=self._last_host, until_ns=int(begins[-1]))
        waiting: Integers = spans[waits]
        return waiting

    def _seal_some(self) -> None:
        begins, at = self.page.begins(), 0
        while (over := len(begins) - 1 - at) > 0:
            if over < 2 * BLOCK_STEPS and self._booked < _BLOCK_ROWS:
                break
            self._booked = 0
            end = at + min(over, BLOCK_STEPS)
            following = int(begins[end])
            block = StepPage(self.page.table[at:end], following)
            self._sealed = int(block.numbers[-1])
            marks = self.marks._replace(cover_ns=int(self._covers[end]))
            row = joined(block.rows(following), [0])[0]
            self._seal(Block(row, block.packed(), marks, self.late()))
            at = end
        if at:
            self.page = self.page.without_first(at)
            self._seqs, self._covers = self._seqs[at:], self._covers[at:]

    def late(self) -> Integers:
        """Times for sealed blocks since the last call."""
        late = np.concatenate([np.zeros((0, 4), dtype=np.int64), *self._late])
        self._late = []
        return late
