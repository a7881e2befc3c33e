"""StepTimes: where the time of each training step went.

A step reaches from the moment at which its item was asked for to its end; what the debugger held of
that is told apart and is no part of its length. Nodes that run at the same time, or within others,
are counted once: parts of a step never add up to more than the step.

Invariant: reads only what was recorded since it last looked, so that it can be kept while a run
grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodescope.record.recording import Recording

Part = Literal[
    "forward", "backward", "optimizer", "other", "data", "waiting", "python", "between", "held"
]
PARTS: Final[tuple[Part, ...]] = (
    "forward", "backward", "optimizer", "other", "data", "waiting", "python", "between", "held",
)  # fmt: skip
"""The first four are operations, by phase. ``python`` is the program's own code and libraries as
they were sampled; ``between`` lies between operations and has no name: Python, and observing."""

_OPERATIONS: Final = 4
_PHASES: Final = {"forward": 0, "backward": 1, "optimizer": 2}
_COLUMN: Final = {
    "data": 4, "waiting": 5, "input": 5, "python": 6, "library": 6, "held": 8,
}  # fmt: skip
_AT_ONCE: Final = 100_000
_MOST_PENDING: Final = 10_000

Floats = NDArray[np.float64]


class Stretch(msgspec.Struct, frozen=True):
    """One step, or several in a row.

    Attributes:
        first, last: The steps.
        start_ns, end_ns: Since the run began, with what was held.
        parts: Nanoseconds by `PARTS`; all but ``held`` add up to how long it took.
        left_out: How many of the steps were not observed: their operations count as ``between``.
    """

    first: int
    last: int
    start_ns: int
    end_ns: int
    parts: tuple[float, ...]
    left_out: int = 0

    @property
    def duration_ns(self) -> float:
        """How long it took, without what was held."""
        return self.end_ns - self.start_ns - self.parts[-1]


class StepTimes:
    """The times of the steps of one recording, brought up to date by `update`.

    Attributes:
        since_ns, latest_ns: From where and how far it goes.
    """

    def __init__(self) -> None:
        self._seq = self._host_row = 0
        self.since_ns = self.latest_ns = 0
        self._cover_ns = -1.0
        self._places: dict[int, int] = {}
        self._phases: dict[int, int] = {}  # by node: a file may give it any number
        self._nodes_seq = 0
        # By place: number, start, end (or -1), observed; where fetching its item began and ended.
        self._steps = np.zeros((0, 4), dtype=np.int64)
        self._fetch = np.zeros((0, 2), dtype=np.int64)
        self._parts: Floats = np.zeros((0, len(PARTS)))
        self._pending: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._places)

    def update(self, recording: Recording) -> None:
        """Take in what was recorded since the last time."""
        until = recording.last_seq()
        self.latest_ns = max(self.latest_ns, recording.time_ns())
        self.since_ns = self.since_ns or recording.since_ns()
        self._take_steps(recording)
        self._take_phases(recording)
        while rows := recording.busy(self._seq, until, _AT_ONCE):
            self._take_executions(np.array(rows, dtype=np.int64))
            self._seq = rows[-1][0]
        self._seq = max(self._seq, until)
        found = recording.host_after(self._host_row)
        if found:
            self._host_row = found[-1][0]
        self._take_host([*self._pending, *(row[1:] for row in found)])

    def stretches(self, start_ns: int, end_ns: int, limit: int) -> list[Stretch]:
        """The steps that overlap a span of time; of more than ``limit``, neighbours are joined."""
        n = len(self)
        if not n:
            return []
        begins, ends = self._begins(), self._ends()
        low = int(np.searchsorted(ends, start_ns, "left"))
        high = int(np.searchsorted(begins, end_ns, "right"))
        if low >= high:
            return []
        if high - low <= limit:
            groups = np.arange(low, high)
        else:
            edges = np.linspace(begins[low], begins[high - 1], limit, endpoint=False)
            groups = np.unique(np.searchsorted(begins[low:high], edges)) + low
        parts = np.add.reduceat(self._complete(low, high), groups - low, axis=0)
        left_out = np.add.reduceat(1 - self._steps[low:high, 3], groups - low)
        lasts = np.append(groups[1:], high) - 1
        return [
            Stretch(
                int(self._steps[first, 0]), int(self._steps[last, 0]),
                int(begins[first]), int(ends[last]), tuple(row.tolist()), int(unseen),
            )
            for first, last, row, unseen in zip(groups, lasts, parts, left_out, strict=True)
        ]  # fmt: skip

    def of(self, step: int) -> Stretch | None:
        """One step; None if it has not begun."""
        place = self._places.get(step)
        if place is None:
            return None
        parts = self._complete(place, place + 1)[0]
        return Stretch(
            step, step, int(self._begins()[place]), int(self._ends()[place]),
            tuple(parts.tolist()), int(1 - self._steps[place, 3]),
        )  # fmt: skip

    # ------------------------------------------------------------ in order

    def _begins(self) -> NDArray[np.int64]:
        n = len(self)
        fetch = self._fetch[:n, 0]
        return np.where(fetch >= 0, fetch, self._steps[:n, 1])

    def _ends(self) -> NDArray[np.int64]:
        ends = self._steps[: len(self), 2]
        following = np.append(self._begins()[1:], self.latest_ns)
        return np.where(ends >= 0, ends, np.maximum(following, self._steps[: len(self), 1]))

    def _complete(self, low: int, high: int) -> Floats:
        """The parts of some steps, with what has no name."""
        parts = self._parts[low:high].copy()
        whole = (self._ends() - self._begins())[low:high]
        between = PARTS.index("between")
        parts[:, between] = np.maximum(whole - parts.sum(axis=1) + parts[:, between], 0)
        return parts

    # ------------------------------------------------------------ taking in

    def _take_steps(self, recording: Recording) -> None:
        for row in recording.steps(self._seq):
            place = self._places.get(row.step)
            if place is None:
                place = len(self._places)
                if place and row.step <= self._steps[place - 1, 0]:
                    continue  # damaged: steps are counted upwards
                self._places[row.step] = place
                if place >= len(self._steps):
                    self._grow()
            end = -1 if row.end_ns is None else row.end_ns
            self._steps[place] = (row.step, row.start_ns, end, row.observed)

    def _grow(self) -> None:
        size = max(256, 2 * len(self._steps))
        for name, filler in (("_steps", 0), ("_fetch", -1), ("_parts", 0)):
            old = getattr(self, name)
            new = np.full((size, old.shape[1]), filler, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def _take_phases(self, recording: Recording) -> None:
        rows = recording.phases(self._nodes_seq)
        if not rows:
            return
        self._nodes_seq = rows[-1][0]
        for _, node, phase in rows:
            self._phases[node] = _PHASES.get(phase, _OPERATIONS - 1)

    def _take_executions(self, rows: NDArray[np.int64]) -> None:
        """Columns: seq, node, step, start, duration."""
        rows = rows[np.lexsort((-rows[:, 4], rows[:, 3]))]
        nodes, starts = rows[:, 1], rows[:, 3]
        ends = starts + rows[:, 4]
        covered = np.maximum.accumulate(np.append(self._cover_ns, ends[:-1]))
        self._cover_ns = max(float(covered[-1]), float(ends[-1]))
        own = np.maximum(ends - np.maximum(starts, covered), 0)
        n = len(self)
        if not n:
            return
        places = np.minimum(np.searchsorted(self._steps[:n, 0], rows[:, 2]), n - 1)
        numbers, which = np.unique(nodes, return_inverse=True)
        columns = np.array([self._phases.get(node, -1) for node in numbers.tolist()])[which]
        known = (self._steps[places, 0] == rows[:, 2]) & (columns >= 0)
        np.add.at(self._parts, (places[known], columns[known]), own[known])

    def _take_host(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rows: kind, step, start, end."""
        waiting = [row for row in rows if row[0] == "data" and not self._take_fetch(*row[1:])]
        n = len(self)
        begins, ends = self._begins(), self._ends()
        if n and self._steps[n - 1, 2] < 0:
            ends[-1] = np.iinfo(np.int64).max  # it goes on
        for row in rows:
            kind, _, start, end = row
            column = _COLUMN.get(kind)
            self.latest_ns = max(self.latest_ns, end)
            if kind == "data" or column is None or end <= start:
                continue
            at = int(np.searchsorted(begins, (start + end) / 2, "right")) - 1
            if n == 0 or (at == n - 1 and start > ends[at]):
                waiting.append(row)  # of a step that is not known yet, or of none
                continue
            if at < 0:
                continue
            begin, fetched = int(begins[at]), int(self._fetch[at, 1])
            if kind != "held" and fetched > 0 and (start + end) / 2 < fetched:
                continue  # what made the item wait is part of its fetching
            low = begin if kind == "held" else max(begin, fetched)
            self._parts[at, column] += max(min(end, int(ends[at])) - max(start, low), 0)
            if kind == "held" and fetched > 0:
                self._parts[at, _COLUMN["data"]] -= max(min(end, fetched) - start, 0)
        self._pending = waiting[-_MOST_PENDING:]

    def _take_fetch(self, step: int, start: int, end: int) -> bool:
        place = self._places.get(step)
        if place is None:
            return False
        self._fetch[place] = (start, end)
        self._parts[place, _COLUMN["data"]] += max(end - start, 0)
        return True
