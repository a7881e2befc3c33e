"""StepBlocks: finished steps in blocks, from the file or summed by its reader.

Invariant: a block is unpacked when a query needs its steps; otherwise its row suffices.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nodescope.errors import RecordingError
from nodescope.record.recording import Recording
from nodescope.record.step_times.step_ledger import Block, Marks
from nodescope.record.step_times.step_page import DATA, NONE, StepPage, unpacked
from nodescope.record.step_times.step_rows import (
    BEGIN,
    COLUMNS,
    COUNT,
    FIRST,
    LAST,
    UNTIL,
    Integers,
    joined,
)

_MOST_STEPS: Final = 1 << 16
"""The most steps in a block."""
_LATE: Final = 4


class StepBlocks:
    """The blocks of one recording."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, COLUMNS), dtype=np.int64)
        self._new: list[Integers] = []
        self._late: list[Integers] = []
        self._data: list[bytes | int] = []  # a packed block, or its row number in the file
        # Blocks as they were before times were added provisionally, by place.
        self._before: dict[int, tuple[bytes | int, Integers]] = {}

    @property
    def rows(self) -> Integers:
        """The row of each block as a whole; see `step_rows`."""
        if self._new:
            self._rows = np.concatenate([self._rows, np.array(self._new)])
            self._new = []
        return self._rows

    @property
    def steps(self) -> int:
        """The number of steps in all blocks."""
        return int(self.rows[:, COUNT].sum())

    @property
    def last(self) -> int:
        """The last step; -1 without any."""
        return int(self.rows[-1, LAST]) if len(self._data) else NONE

    def read(self, recording: Recording) -> Marks | None:
        """Read the sums made while recording; None if there are none, or they are damaged."""
        file_rows = recording.step_table.blocks()
        rows = b"".join([row[-2] for row in file_rows])
        late = b"".join([row[-1] for row in file_rows])
        if not file_rows or len(rows) != 8 * COLUMNS * len(file_rows) or len(late) % (8 * _LATE):
            return None
        table = np.frombuffer(rows, dtype="<i8").astype(np.int64).reshape(-1, COLUMNS)
        inside = (table[:, FIRST] <= table[:, LAST]) & (table[:, COUNT] > 0)
        inside &= table[:, COUNT] <= np.minimum(table[:, LAST] - table[:, FIRST] + 1, _MOST_STEPS)
        if not inside.all() or (table[1:, FIRST] <= table[:-1, LAST]).any() or table[0, FIRST] < 0:
            return None
        self._rows, self._data = table, [row[0] for row in file_rows]
        self.add(recording, np.frombuffer(late, dtype="<i8").reshape(-1, _LATE))
        return Marks(*file_rows[-1][1:5])

    def append(self, block: Block) -> None:
        """Append the next block; its late additions to other blocks are kept until `add`."""
        self._new.append(block.row)
        self._late.append(block.late)
        self._data.append(block.data)

    def pages(self, recording: Recording, low: int, high: int) -> list[StepPage]:
        """Some blocks, unpacked.

        Raises:
            RecordingError: The blocks are damaged.
        """
        data = self._data[low:high]
        stored = [row for row in data if isinstance(row, int)]
        read = recording.step_table.block_data(stored[0], stored[-1]) if stored else {}
        rows = self.rows[low:high]
        try:
            return [
                unpacked(
                    read[item] if isinstance(item, int) else item, int(row[COUNT]), int(row[UNTIL])
                )
                for item, row in zip(data, rows, strict=True)
            ]
        except (KeyError, ValueError) as error:
            raise RecordingError(f"{recording.path} is damaged: {error}") from error

    def take_back(self) -> None:
        """Take back the times that were added provisionally."""
        for place, (data, row) in self._before.items():
            self._data[place], self.rows[place] = data, row
        self._before.clear()

    def add(self, recording: Recording, late: Integers, *, provisional: bool = False) -> None:
        """Add late times to their blocks, maybe until `take_back`; see `Block.late`."""
        late, self._late = np.concatenate([*self._late, late]), []
        rows = self.rows
        middle = late[:, 2] + (late[:, 3] - late[:, 2]) // 2
        by_time = late[:, 1] == NONE
        blocks = np.where(
            by_time,
            np.searchsorted(rows[:, BEGIN], middle, "right") - 1,
            np.searchsorted(rows[:, LAST], late[:, 1], "left"),
        )
        for place in np.unique(blocks[(blocks >= 0) & (blocks < len(rows))]).tolist():
            (page,) = self.pages(recording, place, place + 1)
            if provisional:
                self._before[place] = self._data[place], rows[place].copy()
            block_rows = late[blocks == place]
            fetches, spans = block_rows[:, 0] == DATA, block_rows[:, 1] == NONE
            page.fetched(block_rows[fetches, 1:])
            page.add(page.executed(block_rows[~fetches & ~spans]))
            page.add(page.spent(block_rows[spans][:, [0, 2, 3]]))
            self._data[place] = page.packed()
            following = int(rows[place, UNTIL])
            rows[place] = joined(page.rows(following), [0])[0]
