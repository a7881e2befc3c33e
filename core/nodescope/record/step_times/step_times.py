"""StepTimes: how the time of each training step was spent.

A step lasts from the request for its item to its end; time held by the debugger is reported
separately and is not part of its length. Nodes that run at the same time, or within others, are
counted once: parts of a step never add up to more than the step.

Invariant: sums made while recording are not made again, and only rows recorded since the last read
are read, so that this object can be kept while a run grows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nodescope.errors import RecordingError
from nodescope.record.recording import Recording
from nodescope.record.rows import Holds
from nodescope.record.step_times.step_blocks import StepBlocks
from nodescope.record.step_times.step_ledger import StepLedger
from nodescope.record.step_times.step_page import NUMBER, OBSERVED, Additions, StepPage
from nodescope.record.step_times.step_rows import (
    BEGIN,
    COUNT,
    END,
    FIRST,
    LAST,
    LEFT_OUT,
    UNTIL,
    Integers,
    Stretch,
    joined,
    no_rows,
    observed_parts,
    stretches,
)

_AT_ONCE: Final = 100_000
_MOST_SINGLE: Final = 1 << 17
"""If a span of time has more steps than this, whole blocks are joined."""


class StepTimes:
    """The times of the steps of one recording, brought up to date by `update`.

    Attributes:
        since_ns, latest_ns: The time range covered.
    """

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._seq = self._host_row = self._nodes_seq = 0
        self.since_ns = self.latest_ns = 0
        self._blocks = StepBlocks()
        self._ledger = StepLedger(self._blocks.append)
        self._provisional: list[Additions] = []

    def __len__(self) -> int:
        return self._blocks.steps + len(self._ledger.page)

    def update(self, recording: Recording) -> None:
        """Take in everything recorded since the last call.

        Args:
            recording: The recording, which must stay open as long as this object is queried.
        """
        ledger = self._ledger
        self._take_back()
        until = recording.last_seq()
        self.latest_ns = max(self.latest_ns, recording.time_ns())
        over = recording.run().status is not None
        self.since_ns = self.since_ns or recording.since_ns()
        blocks_end = None
        if self._recording is None:
            marks = self._blocks.read(recording)
            if marks is not None:
                ledger.resume(marks, self._blocks.last)
                self._host_row, until = marks.host, max(until, marks.seq)
                blocks_end = int(self._blocks.rows[-1, UNTIL])
        self._recording = recording
        for row in recording.nodes(self._nodes_seq):
            self._nodes_seq = row.seq
            ledger.take_nodes([row.node])
        spans = recording.step_table.spans(self._host_row, blocks_end)
        if spans:
            self._host_row = max(self._host_row, spans[-1][0])
            self.latest_ns = max(self.latest_ns, ledger.take_spans(spans))
        self._take_steps(recording, until)
        self._seq = max(self._seq, until)
        self._provisional, late = ledger.provisional(over=over)
        for additions in self._provisional:
            ledger.page.add(additions)
        self._blocks.add(recording, late, provisional=True)

    def _take_back(self) -> None:
        for additions in self._provisional:
            self._ledger.page.add(additions, -1)
        self._provisional = []
        self._blocks.take_back()

    def _take_steps(self, recording: Recording, until: int) -> None:
        """Take in steps and their rows, as many at a time as fit comfortably in memory."""
        ledger, table, seq = self._ledger, recording.step_table, self._seq
        last = self._blocks.last
        while len(steps := table.times(self._seq, last, _AT_ONCE)):
            if steps[-1, 0] <= last:
                raise RecordingError(f"{recording.path} is damaged: its steps are not in order")
            ledger.take_steps(steps)
            last = int(steps[-1, 0])
            more = len(steps) == _AT_ONCE
            seq = self._take_executions(recording, seq, int(steps[-1, 1]) if more else until)
            if not more:
                return
        self._take_executions(recording, seq, until)

    def _take_executions(self, recording: Recording, seq: int, until: int) -> int:
        ledger = self._ledger
        if ledger.first_seq is None:
            return seq
        seq = max(seq, ledger.first_seq)
        while len(rows := recording.step_table.busy(seq, until, _AT_ONCE)):
            if rows[0, 0] <= seq or (np.diff(rows[:, 0]) <= 0).any():
                raise RecordingError(f"{recording.path} is damaged: executions are not in order")
            seq = int(rows[-1, 0])
            ledger.take_executions(rows)
            self._book(recording)
        self._book(recording)
        return max(seq, until)

    def _book(self, recording: Recording) -> None:
        self._ledger.book()
        self._blocks.add(recording, self._ledger.late())

    # ------------------------------------------------------------ questions

    def stretches(self, start_ns: int, end_ns: int, limit: int) -> list[Stretch]:
        """The steps that overlap a span of time; if more than ``limit``, neighbours are joined."""
        rows = self._between(start_ns, end_ns)
        low = int(np.searchsorted(rows[:, END], start_ns, "left"))
        high = int(np.searchsorted(rows[:, BEGIN], end_ns, "right"))
        answer: list[Stretch] = []
        for _, after in stretches(rows[max(low - 1, 0) : low]):
            if after is not None and after.end_ns >= start_ns and after.start_ns <= end_ns:
                answer.append(after)
        if low >= high:
            return answer
        rows = rows[low:high]
        if len(rows) > limit:
            edges = np.linspace(rows[0, BEGIN], rows[-1, BEGIN], limit, endpoint=False)
            rows = joined(rows, np.unique(np.searchsorted(rows[:, BEGIN], edges)))
        for step, after in stretches(rows):
            answer.append(step)
            # The time between joined steps is part of them, and not drawn separately.
            if after is not None and after.start_ns <= end_ns:
                answer.append(after)
        return answer

    def of(self, step: int) -> Stretch | None:
        """A step; None if it has not begun."""
        return self._both(step)[0]

    def after(self, step: int) -> Stretch | None:
        """The time after a step and before the next one; None if nothing ran then."""
        return self._both(step)[1]

    def around(self, holds: Holds) -> tuple[int | None, int | None]:
        """The program's own time before the first and after the last step; None without steps."""
        rows = self._joined()
        if not len(rows):
            return None, None
        before, last = int(rows[0, BEGIN]), int(rows[-1, END])
        return holds.ran_ns(before), max(holds.ran_ns(self.latest_ns) - holds.ran_ns(last), 0)

    def steps(self, first: int, last: int) -> tuple[Integers, NDArray[np.bool_]]:
        """Steps that began, in order, and whether each was observed; all steps between two
        numbers.
        """
        blocks = self._blocks.rows
        low = int(np.searchsorted(blocks[:, LAST], first, "left"))
        high = int(np.searchsorted(blocks[:, FIRST], last, "right"))
        table = np.concatenate([page.table for page in self._pages(low, high)])
        return table[:, NUMBER], table[:, OBSERVED] != 0

    def left_out(self) -> int:
        """The number of steps that were not observed."""
        return int(self._joined()[:, LEFT_OUT].sum())

    def observed_parts(self) -> Integers:
        """Nanoseconds by `PARTS` of all observed steps together."""
        return observed_parts(self._joined())

    # ------------------------------------------------------------ in order

    def _joined(self) -> Integers:
        """A row for each block, and for each step after the blocks."""
        return np.concatenate([self._blocks.rows, self._ledger.page.rows(self.latest_ns)])

    def _pages(self, low: int, high: int) -> list[StepPage]:
        """Some blocks, and the page after all of them."""
        if self._recording is None:
            return [self._ledger.page]
        return [*self._blocks.pages(self._recording, low, high), self._ledger.page]

    def _between(self, start_ns: int, end_ns: int) -> Integers:
        """Rows that overlap a span of time, possibly with neighbours: blocks, if there are many
        steps.
        """
        blocks = self._blocks.rows
        low = int(np.searchsorted(blocks[:, UNTIL], start_ns, "left"))
        high = int(np.searchsorted(blocks[:, BEGIN], end_ns, "right"))
        if low < high and blocks[low:high, COUNT].sum() > _MOST_SINGLE:
            parts = [self._steps(low, low + 1), blocks[low + 1 : high - 1]]
            parts.append(self._steps(high - 1, high))
        else:
            parts = [self._steps(low, high)]
        return np.concatenate([*parts, self._ledger.page.rows(self.latest_ns)])

    def _steps(self, low: int, high: int) -> Integers:
        """A row for each step in some blocks."""
        *pages, _ = self._pages(low, high)
        return np.concatenate([no_rows(), *(page.rows(self.latest_ns) for page in pages)])

    def _both(self, step: int) -> tuple[Stretch | None, Stretch | None]:
        """The stretch of a step, and that of the time after it."""
        blocks, rows = self._blocks.rows, self._ledger.page.rows(self.latest_ns)
        if step <= self._blocks.last:
            place = int(np.searchsorted(blocks[:, LAST], step))
            rows = self._steps(place, place + 1)
        matching = rows[rows[:, FIRST] == step]
        return stretches(matching)[0] if len(matching) else (None, None)
