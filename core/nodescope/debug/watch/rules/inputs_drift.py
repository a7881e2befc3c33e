"""Inputs that drift: from step to step, their mean moves away, while the targets stay the same.

Causes are a creeping calibration, an offset that is added again in each pass, or, for a lasting
jump, files in another unit. Data may drift on purpose: a curriculum, a time series in order, or the
states that a policy visits. In these cases the shape of the data changes, the targets move as well,
the rows are in order, or the model is also applied to the data outside the loss. None of these is
reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight, numbers
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    number,
)
from nodescope.debug.watch.rules.rows_change import MatchedData, data_of, is_data
from nodescope.events import Array
from nodescope.ir.graph import Node

_WINDOWS: Final = 10
_PAIRS: Final = _WINDOWS * (_WINDOWS - 1) // 2
_RISES: Final = _PAIRS - 4  # net number of ordered pairs of windows: 1 in 100,000 by chance
_MOVES_ALONG: Final = _PAIRS // 2  # net number of ordered pairs for targets that move as well
_ALONG: Final = 0.25  # least change of such targets, in their own deviations
_SURE: Final = 8.0  # least change, in standard errors
_FAR: Final = 8.0  # least jump, in multiples of the shift; data of another task is closer
_STEADY: Final = 0.2  # limit of the range of means before and after a jump, relative to the jump
_FEWEST_ROWS: Final = 4
_MOST_COLUMNS: Final = 64
_MOST_ELEMENTS: Final = 1 << 20
_MOST_MARKS: Final = 640
_IN_ORDER: Final = 0.9  # correlation of a column with its row numbers above which it is in order
_EVERY: Final = 8


class _Sample:
    """Rows of a batch, copied, by at most `_MOST_COLUMNS` columns, one in ``stride``."""

    __slots__ = ("columns", "stride")

    def __init__(self, array: Array) -> None:
        columns = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
        columns = columns[:: max(1, array.size // _MOST_ELEMENTS)]
        self.stride = max(1, -(-columns.shape[1] // _MOST_COLUMNS))
        self.columns: Array = columns[:, :: self.stride].copy()


class _Columns:
    """The columns of a batch: means, deviations, and correlations with the row numbers."""

    __slots__ = ("mean", "order", "std", "stride")

    def __init__(self, sample: _Sample) -> None:
        self.stride = sample.stride
        columns = numbers(sample.columns)
        rows = len(columns)
        self.mean: Array = columns.mean(axis=0)
        self.std: Array = columns.std(axis=0)
        place = np.arange(rows) - (rows - 1) / 2
        size = np.sqrt(place @ place * rows) * self.std
        with np.errstate(all="ignore"):
            self.order: Array = np.where(size > 0, place @ columns / size, 0.0)


class _Course:
    """The columns of a value over the steps, thinned out as the run goes on."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.marks: list[_Columns] = []
        self.every, self.seen = 1, 0

    def take(self, step: int, columns: _Columns) -> bool:
        """Add a step; return False if its number of columns has changed."""
        if self.marks and self.marks[0].mean.shape != columns.mean.shape:
            return False
        self.seen += 1
        if self.seen % self.every == 0:
            self.steps.append(step)
            self.marks.append(columns)
        if len(self.marks) > _MOST_MARKS:
            self.every *= 2
            del self.marks[1::2], self.steps[1::2]
        return True

    def windows(self) -> tuple[Array, Array, Array, Array]:
        """Means by window and column; by column: standard errors, deviations, order of rows."""
        means = np.stack([mark.mean for mark in self.marks])
        parts = np.array_split(means, _WINDOWS)
        error = np.sqrt(np.mean([part.var(axis=0) / len(part) for part in parts], axis=0))
        std = np.sqrt(np.mean([mark.std**2 for mark in self.marks], axis=0))
        order = np.abs(np.mean([mark.order for mark in self.marks], axis=0))
        return np.stack([part.mean(axis=0) for part in parts]), error, std, order

    def deviations(self) -> Array:
        """The mean deviation within a batch, by window and column."""
        parts = np.array_split(np.stack([mark.std for mark in self.marks]), _WINDOWS)
        return np.stack([part.mean(axis=0) for part in parts])


def _rises(windows: Array) -> Array:
    """By column: the absolute Mann-Kendall statistic of the windows (rising less falling pairs)."""
    above, below = np.triu_indices(_WINDOWS, 1)
    net: Array = np.sign(windows[below] - windows[above]).sum(axis=0)
    return np.abs(net)


def _moves(target: _Course) -> bool:
    """Whether targets move as well, or say nothing because all are equal."""
    windows, _, std, _ = target.windows()
    change = np.abs(windows[-1] - windows[0])
    moved = (change > _ALONG * std) & (_rises(windows) >= _MOVES_ALONG)
    return bool(moved.any()) or not bool((std > 0).any())


class _Drift(NamedTuple):
    """The movement of a column: its position, first and last mean, and deviation; for a jump, the
    window ``since`` which it has moved.
    """

    column: int
    first: float
    last: float
    std: float
    since: int = 0


def _drift(data: _Course, shift: float) -> _Drift | None:
    """The column that drifts or jumps farthest."""
    windows, error, std, order = data.windows()
    sure = (std > 0) & (order < _IN_ORDER)
    change = np.abs(windows[-1] - windows[0])
    drifts = sure & (change > shift * std) & (change > _SURE * error)
    drifts &= _rises(windows) >= _RISES
    if drifts.any():
        return _farthest(np.where(drifts, change, 0.0), windows[0], windows[-1], std)
    deviations = data.deviations()
    for since in range(2, _WINDOWS // 2 + 1):  # at least half of the run must follow the jump
        before, after = windows[:since], windows[since:]
        narrow = np.minimum(deviations[:since].mean(axis=0), deviations[since:].mean(axis=0))
        change = np.abs(after.mean(axis=0) - before.mean(axis=0))
        jumps = sure & (change > _FAR * shift * narrow) & (change > _SURE * error) & (narrow > 0)
        for side in (before, after):
            jumps &= np.ptp(side, axis=0) < _STEADY * change
        if jumps.any():
            low, high = before.mean(axis=0), after.mean(axis=0)
            return _farthest(np.where(jumps, change, 0.0), low, high, narrow, since)
    return None


def _farthest(change: Array, first: Array, last: Array, std: Array, since: int = 0) -> _Drift:
    column = int(np.argmax(change / np.where(std > 0, std, 1.0)))
    return _Drift(column, float(first[column]), float(last[column]), float(std[column]), since)


def _begin(settings: Settings) -> Look:
    least, shift = max(settings["num_steps"], 2 * _WINDOWS), settings["shift"]
    courses: dict[tuple[int, int], tuple[_Course, _Course]] = {}
    changing: set[int] = set()  # data whose number of columns changes
    findings: dict[int, Finding] = {}
    matched = MatchedData()
    now: dict[int, _Sample] = {}
    step = aside = steps = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal step, aside, steps
        if sight.step != step:
            steps += 1
            aside += any(_is_asked_aside(sight.graph, value) for value in now)
            _settle(sight.graph)
            step = sight.step
            now.clear()
        array = sight.array
        if array.ndim and array.size and len(array) >= _FEWEST_ROWS and array.dtype.kind in "fiub":
            now[sight.value] = _Sample(array)
        seen = [data.seen for (value, _), (data, _) in courses.items() if value == sight.value]
        if sight.value in changing or not seen:
            raise Inapplicable("no data of constant shape have targets that a loss compares")
        if max(seen) < least:
            raise needs_steps(least, max(seen))
        return findings.get(sight.value)

    def _settle(graph: ProgramGraph) -> None:
        """Process the step that has ended."""
        for data, target in matched.of(graph, now):
            columns, targets = _Columns(now[data]), _Columns(now[target])
            numeric = graph.dtype(data)[:1] in ("f", "b") and graph.dtype(data) != "bool"
            if not numeric or not np.isfinite([*columns.mean, *targets.mean]).all():
                continue
            pair = courses.setdefault((data, target), (_Course(), _Course()))
            if not (pair[0].take(step, columns) and pair[1].take(step, targets)):
                changing.add(data)
            elif pair[0].seen >= least and pair[0].seen % _EVERY == 0:
                _judge(data, *pair)

    def _judge(value: int, data: _Course, target: _Course) -> None:
        findings.pop(value, None)
        asked_outside = 2 * aside > steps
        drift = None if asked_outside or _moves(target) else _drift(data, shift)
        if drift is None:
            return
        column, first, last, std, since = drift
        mark = data.marks[0]
        column *= mark.stride
        when = f"over steps {data.steps[0]}–{data.steps[-1]}"
        if since:
            near = np.array_split(np.asarray(data.steps), _WINDOWS)[since][0]
            when = f"at once, near step {near}, and stayed there"
        which = f"the mean of column {column}" if mark.mean.size > 1 else "their mean"
        findings[value] = Finding(
            f"the inputs drift: {which} went from {first:.3g} to {last:.3g} {when} (standard "
            f"deviation within a batch: {std:.3g}), while the targets have not changed; are the "
            "data shifted or scaled repeatedly, or are later ones preprocessed differently?",
            {"shift": abs(last - first) / std, "column": column},
        )

    return look


def _is_asked_aside(graph: ProgramGraph, value: int) -> bool:
    """Whether weights are applied to data outside the loss, so that later data may depend on it."""
    maker = graph.maker(value)
    if maker is None or graph.reaches_loss(maker):
        return False
    for reader in graph.readers(value):
        others = [graph.maker(graph.held_in(other)) for other in reader.inputs if other != value]
        if any(other is not None and other.is_weight for other in others):
            return True
    return False


def _suits(nodes: Sequence[Node]) -> str:
    data = data_of(nodes)
    return f"{data[0]} is its data, whose mean should not drift from step to step" if data else ""


register(
    Rule(
        "inputs_drift",
        "the mean of the inputs drifts, or jumps for good, while that of their targets does not",
        _begin,
        needs=frozenset({"summary", "values", "history"}),
        parameters=(
            count("num_steps", 40, "number of steps required", unit="steps", low=1),
            number(
                "shift", 1.0, "hit if a mean moves by more deviations of a batch than this", low=0
            ),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=is_data,
    )
)
