"""StepPage: the times of consecutive steps, and their packed form once they are over.

Invariant: pages only accumulate sums, so the order of additions does not matter.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nodescope import native
from nodescope.record.step_times.step_rows import PARTS, Integers, step_rows

DATA: Final = PARTS.index("data")
HELD: Final = PARTS.index("held")
NONE: Final = -1
"""In place of a time: the step is running, or no item was fetched for it."""

# Columns of known data; the parts of the step and of the time after it follow.
NUMBER, START, STOP, OBSERVED, FETCH_START, FETCH_STOP = range(6)
_PARTS: Final = slice(6, 6 + len(PARTS))
_AFTER: Final = slice(_PARTS.stop, _PARTS.stop + len(PARTS))
_WIDTH: Final = _AFTER.stop
_LATE: Final = np.iinfo(np.int64).max
_ENDED, _FETCHED = 2, 4  # beside observed, in the flags of a packed page
_DIFFERENCES: Final = [NUMBER, START]  # stored as differences
_SIZES: Final = (1, 2, 4)
_HEAD: Final = np.dtype([("base", "<i8"), ("size", "u1")])

Additions = tuple[NDArray[np.intp], Integers, Integers]
"""Additions: places, columns and amounts."""


class StepPage:
    """The times of some consecutive steps.

    Args:
        table: Values by step and column.

    Attributes:
        following: The start of the step after the last one; None if none has begun.
    """

    def __init__(self, table: Integers | None = None, following: int | None = None) -> None:
        self._room = np.zeros((0, _WIDTH), dtype=np.int64) if table is None else table
        self._count = len(self._room)
        self.following = following

    def __len__(self) -> int:
        return self._count

    @property
    def table(self) -> Integers:
        """Values by step and column."""
        return self._room[: self._count]

    @property
    def numbers(self) -> Integers:
        """The numbers of the steps."""
        return self.table[:, NUMBER]

    def append(self, steps: Integers) -> None:
        """Take in steps that have begun: number, start, stop and observed."""
        count = self._count + len(steps)
        if count > len(self._room):
            room = np.zeros((max(256, 2 * count), _WIDTH), dtype=np.int64)
            room[: self._count] = self.table
            self._room = room
        new = self._room[self._count : count]
        new[:] = 0
        new[:, : OBSERVED + 1] = steps
        new[:, FETCH_START : FETCH_STOP + 1] = NONE
        self._count = count

    def without_first(self, count: int) -> StepPage:
        """The page of the steps after the first ones."""
        return StepPage(self.table[count:].copy(), self.following)

    def find(self, numbers: Integers) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The places of steps, and whether each is on this page."""
        # A step has many executions in a row: only the first of them is looked for.
        firsts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        firsts = np.concatenate([[0], firsts]) if len(numbers) else firsts
        steps = numbers[firsts]
        places = np.searchsorted(self.numbers, steps)
        known = places < self._count
        known[known] = self.numbers[places[known]] == steps[known]
        if len(steps) == len(numbers):
            return places, known
        many = np.diff(firsts, append=len(numbers))
        return np.repeat(places, many), np.repeat(known, many)

    def begins(self) -> Integers:
        """The start of each step, including the fetching of its item."""
        fetch = self.table[:, FETCH_START]
        return np.where(fetch != NONE, fetch, self.table[:, START])

    def spans(self, latest_ns: int) -> tuple[Integers, Integers, Integers]:
        """The start and end of each step, and the start of the next."""
        begins = self.begins()
        until = np.append(begins[1:], latest_ns if self.following is None else self.following)
        until = until[: self._count]
        stop = self.table[:, STOP]
        ends = np.where(stop != NONE, stop, np.maximum(until, self.table[:, START]))
        return begins, ends, until

    def rows(self, latest_ns: int) -> Integers:
        """A row for each step; see `step_rows`."""
        table = self.table
        return step_rows(
            table[:, NUMBER], self.spans(latest_ns), table[:, STOP] != NONE, table[:, OBSERVED],
            table[:, _PARTS], table[:, _AFTER],
        )  # fmt: skip

    # ------------------------------------------------------------ taking in

    def add(self, additions: Additions, sign: int = 1) -> None:
        """Add amounts, or take them back."""
        places, columns, amounts = additions
        np.add.at(self._room, (places, columns), sign * amounts)

    def fetched(self, rows: Integers) -> None:
        """Add the fetching of the items of steps: step, start and end."""
        places, known = self.find(rows[:, 0])
        places, rows = places[known], rows[known]
        self.table[places, FETCH_START : FETCH_STOP + 1] = rows[:, 1:]
        took = np.maximum(rows[:, 2] - rows[:, 1], 0)
        self.add((places, np.full(len(places), _PARTS.start + DATA), took))

    def executed(self, rows: Integers) -> Additions:
        """The additions of executions: part, step, start, and nanoseconds that count for it
        alone.
        """
        places, known = self.find(rows[:, 1])
        if not known.all():
            places, rows = places[known], rows[known]
        stop = self.table[places, STOP]
        # An execution after the end of a step has its number, but is not part of it.
        later = (stop != NONE) & (rows[:, 2] >= stop)
        first = np.where(later, _AFTER.start, _PARTS.start)
        return places, first + rows[:, 0], rows[:, 3]

    def executed_in_turn(
        self, rows: Integers, cover: int, parts: Integers, sealed: int
    ) -> tuple[Integers, Additions] | None:
        """The additions of executions that started one after the other, summed up.

        Args:
            rows: Seq, node, step, start and duration of each.
            cover: The latest end before them.
            parts: The part of each node, by its id; -1 for nodes that are no operations.
            sealed: The last step before this page.

        Returns:
            The latest end before each execution, and after the last; and the additions. None
            without a native core, if executions are out of order or belong to earlier steps.
        """
        if native.step_additions is None:
            return None
        numbers, stops = (np.ascontiguousarray(self.table[:, at]) for at in (NUMBER, STOP))
        rows = np.ascontiguousarray(rows)
        found = native.step_additions(rows, cover, parts, numbers, stops, sealed, len(PARTS))
        if found is None:
            return None
        covered, additions = (np.frombuffer(part, np.int64) for part in found)
        places, columns, amounts = additions.reshape(-1, 3).T
        return covered, (places, columns + _PARTS.start, amounts)

    def spent(self, rows: Integers, *, over: bool = True) -> Additions:
        """The additions of spans between nodes: part, start and end.

        Args:
            over: Whether no step follows the last one, so that later spans are known to come after
                it.
        """
        begins, ends, until = self.spans(_LATE)
        if not over and self._count and self.table[-1, STOP] != NONE:
            until = until.copy()
            until[-1] = ends[-1]
        middle = rows[:, 1] + (rows[:, 2] - rows[:, 1]) // 2
        places = np.searchsorted(begins, middle, "right") - 1
        inside = (places >= 0) & (rows[:, 2] > rows[:, 1])
        places, rows, middle = places[inside], rows[inside], middle[inside]
        columns, starts, stops = rows.T
        end, fetched = ends[places], self.table[places, FETCH_STOP]
        held = columns == HELD
        later = starts >= end
        low = np.where(held, begins[places], np.maximum(begins[places], fetched))
        amounts = np.where(
            later,
            np.minimum(stops, until[places]) - starts,
            np.minimum(stops, end) - np.maximum(starts, low),
        )
        # Time that delayed an item is part of fetching it.
        amounts[~later & ~held & (fetched > 0) & (middle < fetched)] = 0
        # Time held by the debugger during a fetch is not part of the fetch.
        during = ~later & held & (fetched > 0)
        less = np.maximum(np.minimum(stops, fetched) - starts, 0)[during]
        first = np.where(later, _AFTER.start, _PARTS.start)
        return (
            np.concatenate([places, places[during]]),
            np.concatenate([first + columns, np.full(len(less), _PARTS.start + DATA)]),
            np.concatenate([np.maximum(amounts, 0), -less]),
        )

    # ------------------------------------------------------------ packed

    def packed(self) -> bytes:
        """The page in compact form: each column in as many bytes as its numbers need."""
        table = self.table.copy()
        ended, has_item = table[:, STOP] != NONE, table[:, FETCH_START] != NONE
        start = table[:, START].copy()
        table[:, OBSERVED] = (table[:, OBSERVED] != 0) + _ENDED * ended + _FETCHED * has_item
        table[:, FETCH_STOP] = np.where(has_item, table[:, FETCH_STOP] - table[:, FETCH_START], 0)
        table[:, FETCH_START] = np.where(has_item, start - table[:, FETCH_START], 0)
        table[:, STOP] = np.where(ended, table[:, STOP] - start, 0)
        firsts = table[0, _DIFFERENCES].copy()
        table[1:, _DIFFERENCES] = np.diff(table[:, _DIFFERENCES], axis=0)
        table[0, _DIFFERENCES] = table[-1, _DIFFERENCES]
        head = np.zeros(_WIDTH, dtype=_HEAD)
        head["base"] = table.min(axis=0)
        table -= head["base"]
        most = table.max(axis=0)
        fits = [(most >= 0) & (most < 1 << 8 * size - 1) for size in _SIZES]
        head["size"] = sizes = np.select([most == 0, *fits], [0, *_SIZES], default=8)
        used = np.flatnonzero(sizes).tolist()
        columns = [table[:, place].astype(f"<i{sizes[place]}").tobytes() for place in used]
        return b"".join([firsts.astype("<i8").tobytes(), head.tobytes(), *columns])


def unpacked(data: bytes, count: int, following: int) -> StepPage:
    """The page of ``count`` steps.

    Raises:
        ValueError: The data is damaged.
    """
    firsts = np.frombuffer(data, dtype="<i8", count=len(_DIFFERENCES))
    head = np.frombuffer(data, dtype=_HEAD, count=_WIDTH, offset=firsts.nbytes)
    at = firsts.nbytes + head.nbytes
    table = np.tile(head["base"].astype(np.int64), (count, 1))
    for place in np.flatnonzero(head["size"]).tolist():
        size = int(head["size"][place])
        if size not in (*_SIZES, 8):
            raise ValueError("times of steps are damaged")
        table[:, place] += np.frombuffer(data, dtype=f"<i{size}", count=count, offset=at)
        at += size * count
    table[0, _DIFFERENCES] = firsts
    table[:, _DIFFERENCES] = np.cumsum(table[:, _DIFFERENCES], axis=0)
    if at != len(data) or not (np.diff(table[:, NUMBER]) > 0).all():
        raise ValueError("times of steps are damaged")
    start, flags = table[:, START], table[:, OBSERVED].copy()
    table[:, OBSERVED] = flags & 1
    fetch = start - table[:, FETCH_START]
    has_item = flags & _FETCHED != 0
    table[:, FETCH_STOP] = np.where(has_item, fetch + table[:, FETCH_STOP], NONE)
    table[:, FETCH_START] = np.where(has_item, fetch, NONE)
    table[:, STOP] = np.where(flags & _ENDED != 0, start + table[:, STOP], NONE)
    return StepPage(table, following)
