"""StepSums: sums the times of steps during recording, for the table ``step_block``.

Invariant: only committed rows are taken in; a reader sums the rest from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np

from nodescope.ir.graph import Node
from nodescope.record.step_times.step_ledger import BLOCK_STEPS, Block, StepLedger
from nodescope.record.step_times.step_rows import Integers
from nodescope.record.timed.packing import DURATION, NODE, SEQ, START, STEP

# Rows are booked in groups of this many, because a NumPy call costs more than a few rows do.
_ROWS: Final = 1 << 13
# Of a row of the table ``execution``: seq, node, step, start and duration.
_TIMES: Final = itemgetter(0, 1, 2, 4, 5)
_OF_TIMED: Final = [SEQ, NODE, STEP, START, DURATION]


class StepSums:
    """The sums for one recording.

    Attributes:
        due: Blocks still to be written.
    """

    def __init__(self) -> None:
        self.due: list[Block] = []
        self._ledger = StepLedger(self.due.append)
        self._steps: dict[int, tuple[Any, ...]] = {}
        self._executions: list[tuple[Any, ...]] = []
        self._timed: list[Integers] = []
        self._spans: list[tuple[Any, ...]] = []
        self._host = 0

    def take(
        self,
        nodes: Iterable[Node],
        steps: dict[int, tuple[Any, ...]],
        executions: Sequence[tuple[Any, ...]],
        host: Sequence[tuple[Any, ...]],
        timed: Sequence[Integers] = (),
    ) -> None:
        """Take in table rows as written, executions in order, and those of the table ``timed``."""
        self._ledger.take_nodes(nodes)
        self._steps.update(steps)
        self._executions += executions
        self._timed += timed
        for _, kind, _, step, start_ns, end_ns, *_ in host:
            self._host += 1
            self._spans.append((self._host, kind, step, start_ns, end_ns))
        many = max(len(self._executions) + sum(map(len, self._timed)), len(self._spans))
        if many >= _ROWS or len(self._steps) >= BLOCK_STEPS:
            self._book()

    def _book(self) -> None:
        ledger = self._ledger
        steps = [
            (step, seq, start_ns, -1 if end_ns is None else end_ns, observed)
            for step, seq, start_ns, _, end_ns, observed in self._steps.values()
        ]
        ledger.take_steps(np.array(steps, dtype=np.int64).reshape(-1, 5))
        count = len(self._executions)
        columns = chain.from_iterable(map(_TIMES, self._executions))
        numbers = np.fromiter(columns, dtype=np.int64, count=5 * count).reshape(count, 5)
        if self._timed:
            numbers = np.concatenate([numbers, *(table[:, _OF_TIMED] for table in self._timed)])
            if count:
                numbers = numbers[np.argsort(numbers[:, 0], kind="stable")]
        ledger.take_executions(numbers)
        ledger.take_spans(self._spans)
        ledger.book()
        self._steps, self._executions, self._spans, self._timed = {}, [], [], []

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the blocks still to be written."""
        return [
            (None, *block.marks, _bytes(block.row), _bytes(block.late), block.data)
            for block in self.due
        ]


def _bytes(numbers: Integers) -> bytes:
    return numbers.astype("<i8").tobytes()
