"""StepTimes: how the time of each training step was spent.

A step lasts from the request for its item to its end; time held by the debugger is reported
separately and is not part of its length. Nodes that run at the same time, or within others, are
counted once: parts of a step never add up to more than the step.

Invariant: reads only what was recorded since the last read, so that it can be kept while a run
grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodescope.record.recording import Recording
from nodescope.record.rows import Holds

Part = Literal[
    "forward", "backward", "optimizer", "other", "data", "waiting", "python", "compiling",
    "between", "held",
]  # fmt: skip
PARTS: Final[tuple[Part, ...]] = (
    "forward", "backward", "optimizer", "other", "data", "waiting", "python", "compiling",
    "between", "held",
)  # fmt: skip
"""The first four are operations, by phase. ``python`` is the program's own code and libraries as
they were sampled; ``compiling`` makes graphs of functions, and code of these; ``between`` lies
between operations and has no name: Python, and observing."""

_OPERATIONS: Final = 4
_NO_OPERATION: Final = -1
_PHASES: Final = {"forward": 0, "backward": 1, "optimizer": 2}
_COLUMN: Final = {
    kind: PARTS.index(part)
    for kind, part in (
        ("data", "data"), ("waiting", "waiting"), ("input", "waiting"), ("python", "python"),
        ("library", "python"), ("compiling", "compiling"), ("unobserved", "between"),
        ("held", "held"),
    )
}  # fmt: skip
_AT_ONCE: Final = 100_000
_MOST_PENDING: Final = 10_000

Floats = NDArray[np.float64]


class Stretch(msgspec.Struct, frozen=True):
    """One step, or several in a row; or what ran after a step and before the next.

    Attributes:
        first, last: The steps.
        start_ns, end_ns: Since the run began, with what was held.
        parts: Nanoseconds by `PARTS`; all but ``held`` add up to how long it took.
        left_out: How many of the steps were not observed: their operations count as ``between``.
        after: It is what ran after step ``last``, such as an evaluation, and no part of it.
    """

    first: int
    last: int
    start_ns: int
    end_ns: int
    parts: tuple[float, ...]
    left_out: int = 0
    after: bool = False

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
        self._over = False  # no step follows
        self._count = 0
        self._edges: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._phases: dict[int, int] = {}  # by node: a file may give it any number
        self._nodes_seq = 0
        # By place: number, start, end (or -1), observed; where fetching its item began and ended.
        self._steps = np.zeros((0, 4), dtype=np.int64)
        self._fetch = np.zeros((0, 2), dtype=np.int64)
        self._parts: Floats = np.zeros((0, len(PARTS)))
        self._after: Floats = np.zeros((0, len(PARTS)))  # of what ran after each step
        self._pending: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return self._count

    def update(self, recording: Recording) -> None:
        """Take in what was recorded since the last time."""
        until = recording.last_seq()
        known = self._seq, self._host_row, self.latest_ns
        self.latest_ns = max(self.latest_ns, recording.time_ns())
        self._over = recording.run().status is not None
        self.since_ns = self.since_ns or recording.since_ns()
        self._take_steps(recording)
        self._take_phases(recording)
        while len(rows := recording.step_table.busy(self._seq, until, _AT_ONCE)):
            self._take_executions(rows)
            self._seq = int(rows[-1, 0])
        self._seq = max(self._seq, until)
        host_rows = recording.host_after(self._host_row)
        if host_rows:
            self._host_row = host_rows[-1][0]
        self._take_host([*self._pending, *(row[1:] for row in host_rows)])
        if known != (self._seq, self._host_row, self.latest_ns):
            self._edges = None

    def stretches(self, start_ns: int, end_ns: int, limit: int) -> list[Stretch]:
        """The steps that overlap a span of time; of more than ``limit``, neighbours are joined."""
        n = len(self)
        if not n:
            return []
        begins, ends = self._begins(), self._ends()
        low = int(np.searchsorted(ends, start_ns, "left"))
        high = int(np.searchsorted(begins, end_ns, "right"))
        stretches: list[Stretch] = []
        before = self._after_place(low - 1) if low else None
        if before is not None and before.end_ns >= start_ns and before.start_ns <= end_ns:
            stretches.append(before)
        if low >= high:
            return stretches
        if high - low <= limit:
            groups = np.arange(low, high)
        else:
            edges = np.linspace(begins[low], begins[high - 1], limit, endpoint=False)
            groups = np.unique(np.searchsorted(begins[low:high], edges)) + low
        parts = np.add.reduceat(self._complete(low, high), groups - low, axis=0)
        left_out = np.add.reduceat(1 - self._steps[low:high, 3], groups - low)
        lasts = np.append(groups[1:], high) - 1
        for first, last, row, unseen in zip(groups, lasts, parts, left_out, strict=True):
            step = Stretch(
                int(self._steps[first, 0]), int(self._steps[last, 0]),
                int(begins[first]), int(ends[last]), tuple(row.tolist()), int(unseen),
            )  # fmt: skip
            stretches.append(step)
            # What ran between joined steps is between them, and not drawn.
            after = self._after_place(int(last))
            if after is not None and after.start_ns <= end_ns:
                stretches.append(after)
        return stretches

    def of(self, step: int) -> Stretch | None:
        """One step; None if it has not begun."""
        place = self._place(step)
        if place is None:
            return None
        parts = self._complete(place, place + 1)[0]
        return Stretch(
            step, step, int(self._begins()[place]), int(self._ends()[place]),
            tuple(parts.tolist()), int(1 - self._steps[place, 3]),
        )  # fmt: skip

    def after(self, step: int) -> Stretch | None:
        """What ran after a step and before the next one; None if nothing did."""
        place = self._place(step)
        return None if place is None else self._after_place(place)

    def around(self, holds: Holds) -> tuple[int | None, int | None]:
        """The program's own time before the first step and after the last; None without steps."""
        if not len(self):
            return None, None
        last = int(self._ends()[-1])
        return holds.ran_ns(int(self._begins()[0])), (
            max(holds.ran_ns(self.latest_ns) - holds.ran_ns(last), 0)
        )

    def numbers(self) -> NDArray[np.int64]:
        """The steps that began, in order."""
        return self._steps[: len(self), 0]

    def observed(self) -> NDArray[np.bool_]:
        """Which of `numbers` were observed."""
        seen: NDArray[np.bool_] = self._steps[: len(self), 3] != 0
        return seen

    def observed_parts(self) -> Floats:
        """Nanoseconds by `PARTS` of all observed steps together."""
        total: Floats = self._complete(0, len(self))[self.observed()].sum(axis=0)
        return total

    # ------------------------------------------------------------ in order

    def _after_place(self, place: int) -> Stretch | None:
        parts = self._after[place].copy()
        end = int(self._steps[place, 2])
        if end < 0 or not parts[:-1].any():  # a hold alone is no time of the program
            return None
        until = int(self._begins()[place + 1]) if place + 1 < len(self) else self.latest_ns
        between = PARTS.index("between")
        parts[between] = max(until - end - parts.sum() + parts[between], 0)
        number = int(self._steps[place, 0])
        return Stretch(number, number, end, until, tuple(parts.tolist()), 0, after=True)

    def _begins(self) -> NDArray[np.int64]:
        return self._spans()[0]

    def _ends(self) -> NDArray[np.int64]:
        return self._spans()[1]

    def _spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """When each step begins, with its fetching, and ends; kept until the next update."""
        if self._edges is None:
            n = len(self)
            fetch, ends = self._fetch[:n, 0], self._steps[:n, 2]
            begins = np.where(fetch >= 0, fetch, self._steps[:n, 1])
            following = np.append(begins[1:], self.latest_ns)
            self._edges = (
                begins,
                np.where(ends >= 0, ends, np.maximum(following, self._steps[:n, 1])),
            )
        return self._edges

    def _complete(self, low: int, high: int) -> Floats:
        """The parts of some steps, with what has no name."""
        parts = self._parts[low:high].copy()
        lengths = self._ends()[low:high] - self._begins()[low:high]
        between = PARTS.index("between")
        parts[:, between] = np.maximum(lengths - parts.sum(axis=1) + parts[:, between], 0)
        return parts

    # ------------------------------------------------------------ taking in

    def _take_steps(self, recording: Recording) -> None:
        table = recording.step_table.times(self._seq)
        if not len(table):
            return
        self._edges = None
        n = len(self)
        places, known = self._find(table[:, 0])
        highest = np.append(self._steps[n - 1, 0] if n else np.iinfo(np.int64).min, table[:-1, 0])
        # Damaged otherwise: steps are counted upwards.
        fresh = ~known & (table[:, 0] > np.maximum.accumulate(highest))
        self._count = n + int(fresh.sum())
        if self._count > len(self._steps):
            self._grow()
        self._steps[places[known]] = table[known]
        self._steps[n : self._count] = table[fresh]

    def _find(self, steps: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The places of steps, and which of them are there at all."""
        numbers = self._steps[: len(self), 0]
        places = np.searchsorted(numbers, steps)
        known = places < len(numbers)
        known[known] = numbers[places[known]] == steps[known]
        return places, known

    def _place(self, step: int) -> int | None:
        places, known = self._find(np.array([step]))
        return int(places[0]) if known[0] else None

    def _grow(self) -> None:
        size = max(256, 2 * len(self._steps), self._count)
        for name, filler in (("_steps", 0), ("_fetch", -1), ("_parts", 0), ("_after", 0)):
            old = getattr(self, name)
            # Zeros cost nothing until they are written to.
            new = np.zeros((size, old.shape[1]), dtype=old.dtype)
            if filler:
                new[:] = filler
            new[: len(old)] = old
            setattr(self, name, new)

    def _take_phases(self, recording: Recording) -> None:
        for row in recording.nodes(self._nodes_seq):
            node, self._nodes_seq = row.node, row.seq
            # What only holds data is no operation: the time to take it in is between operations.
            phase = _PHASES.get(node.phase, _OPERATIONS - 1)
            self._phases[node.id] = _NO_OPERATION if node.is_leaf else phase

    def _take_executions(self, rows: NDArray[np.int64]) -> None:
        """Columns: seq, node, step, start, duration."""
        rows = rows[np.lexsort((-rows[:, 4], rows[:, 3]))]
        nodes, starts = rows[:, 1], rows[:, 3]
        ends = starts + rows[:, 4]
        covered = np.maximum.accumulate(np.append(self._cover_ns, ends[:-1]))
        self._cover_ns = max(float(covered[-1]), float(ends[-1]))
        exclusive = np.maximum(ends - np.maximum(starts, covered), 0)
        n = len(self)
        if not n:
            return
        places = np.minimum(np.searchsorted(self._steps[:n, 0], rows[:, 2]), n - 1)
        numbers, inverse = np.unique(nodes, return_inverse=True)
        columns = np.array([self._phases.get(node, _NO_OPERATION) for node in numbers.tolist()])[
            inverse
        ]
        counted = (self._steps[places, 0] == rows[:, 2]) & (columns >= 0)
        # What runs after a step has ended has its number, and is no part of it.
        over = self._steps[places, 2]
        later = (over >= 0) & (starts >= over)
        for parts, mask in ((self._parts, counted & ~later), (self._after, counted & later)):
            np.add.at(parts, (places[mask], columns[mask]), exclusive[mask])

    def _take_host(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rows: kind, step, start, end."""
        if not rows:
            return
        self._edges = None
        waiting = self._take_fetches([row for row in rows if row[0] == "data"])
        n = len(self)
        begins, ends = self._begins(), self._ends().copy()
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
                if at == n - 1 and n and self._over:
                    self._after[at, column] += end - max(start, int(ends[at]))
                else:
                    waiting.append(row)  # of a step that is not known yet, or of none
                continue
            if at < 0:
                continue
            if start >= ends[at]:
                until = int(begins[at + 1]) if at + 1 < n else end
                self._after[at, column] += max(min(end, until) - start, 0)
                continue
            begin, fetched = int(begins[at]), int(self._fetch[at, 1])
            if kind != "held" and fetched > 0 and (start + end) / 2 < fetched:
                continue  # what made the item wait is part of its fetching
            low = begin if kind == "held" else max(begin, fetched)
            self._parts[at, column] += max(min(end, int(ends[at])) - max(start, low), 0)
            if kind == "held" and fetched > 0:
                self._parts[at, _COLUMN["data"]] -= max(min(end, fetched) - start, 0)
        self._pending = waiting[-_MOST_PENDING:]

    def _take_fetches(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The rows whose steps have not begun."""
        if not rows:
            return []
        table = np.array([row[1:] for row in rows], dtype=np.int64)
        places, known = self._find(table[:, 0])
        self._fetch[places[known]] = table[known, 1:]
        took = np.maximum(table[known, 2] - table[known, 1], 0)
        np.add.at(self._parts[:, _COLUMN["data"]], places[known], took)
        return [row for row, is_known in zip(rows, known.tolist(), strict=True) if not is_known]
