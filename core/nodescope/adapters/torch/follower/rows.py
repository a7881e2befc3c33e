"""Rows: statistics of the outputs of a followed step, and copies of their elements.

Invariant: memory is read only within the elements of a tensor.
"""

from __future__ import annotations

from array import array as array_of
from typing import Any, Final

import numpy as np
import torch

from nodescope import native
from nodescope.adapters.torch.follower.script import Fact, Item, Script, layout_of
from nodescope.record.blocks import STATISTICS

ALIGNED: Final = 64
"""The alignment of copies, in bytes."""

_fill: Any = native.fill_row


def can_fill() -> bool:
    """Whether statistics can be computed, which requires the native core."""
    return _fill is not None


class Rows:
    """The rows of a script.

    Attributes:
        on: Whether rows are filled in this step.
        room: Memory for copies, or None.
        size: The bytes of that memory.
        used: The bytes that completed operators have used.
        filled: The bytes used, including those of the operator that is running.
        reported: The bytes whose copies were reported.
    """

    def __init__(self) -> None:
        self.on = False
        self.room: Any = None
        self.size = self.used = self.filled = self.reported = 0
        self._script: Script | None = None
        self._table = np.zeros(0, STATISTICS)
        self._origins = array_of("q")
        self._table_at = self._origins_at = self._room_at = 0

    def begin(self, script: Script, *, on: bool) -> None:
        """Prepare for a step that follows a script."""
        if script is not self._script:
            self._script = None  # until the tables are complete
            self._table = np.zeros(script.statistics, STATISTICS)
            self._table_at = self._table.ctypes.data
            self._origins = array_of("q", [-1] * (2 * script.statistics))
            self._origins_at = self._origins.buffer_info()[0]
            self._script = script
        self.on = on

    def fill(self, tensor: Any, fact: Fact, place: int, items: list[Item]) -> bool:
        """Fill a row with the statistics of a tensor, and copy its elements if they are wanted.

        Args:
            tensor: The tensor.
            fact: The script's fact about it.
            place: The index of the row.
            items: The items of the row's script; another thread may have replaced that script.

        Returns:
            Whether the row was filled.
        """
        if tensor.untyped_storage().nbytes() < fact.needed:  # the storage was shrunk
            return False
        return self._fill(tensor, fact.layout, place, items)

    def fill_number(self, number: Any, place: int, items: list[Item]) -> bool:
        """Like `fill`, for a number that was read from a tensor; it is recorded as a tensor."""
        tensor = torch.as_tensor(number)
        layout = layout_of(tensor.dtype, (), ())
        return bool(layout) and self._fill(tensor, layout, place, items)

    def _fill(self, tensor: Any, layout: bytes, place: int, items: list[Item]) -> bool:
        address, version = tensor.data_ptr(), tensor._version
        # From here until the core returns, no other thread runs, as nothing in between releases the
        # interpreter lock.
        script = self._script
        if script is None or script.items is not items:
            return False
        nbytes = script.kept[place] if self.room is not None else 0
        if nbytes and nbytes > self.size - self.filled:
            return False
        if not _fill(
            self._table_at, place, script.same[place], self._origins_at, version, address, layout,
            self._room_at + self.filled if nbytes else 0,
        ):  # fmt: skip
            return False
        if nbytes:
            self.filled += -(-nbytes // ALIGNED) * ALIGNED
        return True

    def between(self, first: int, last: int) -> bytes:
        """The rows from ``first`` up to ``last``."""
        return self._table[first:last].tobytes()

    def hold(self, memory: Any) -> None:
        """Set the memory for copies; None to make no copies."""
        address, size = (0, 0) if memory is None else (memory.ctypes.data, memory.nbytes)
        self.room, self._room_at, self.size = memory, address, size
        self.used = self.filled = self.reported = 0
