"""Data that changes a little more in each pass over it: something is added to it in place.

``noisy = batch; noisy += noise`` writes to the data set. Noise that is added to a copy differs each
time, but is no farther from the data in the last pass than in the first. Data may also change on
purpose, such as the state of a simulation or generated images. So the rule reports only data to
which noise is added, and only if the targets stay the same, or are the same array as the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight, numbers
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count
from nodescope.debug.watch.rules.rows_change import MatchedData, data_of, is_data
from nodescope.events import Array
from nodescope.ir.graph import Node

_LEAST: Final = 32  # elements
_MOST: Final = 4096  # elements that are compared
_MOST_BATCHES: Final = 64
_ALIKE: Final = 0.8  # the correlation of a batch with itself in the previous pass
_NOISE: Final = 0.3  # limit of the correlation between the changes of consecutive passes
_GROWN: Final = 0.5  # least share of the change that accumulated noise would cause
_SHRUNK: Final = 0.1  # factor below which a pass has scaled the data down


class _Sample:
    """Evenly spaced elements of an array; copying all of it in each step would take too long."""

    __slots__ = ("dtype", "elements", "shape", "size")

    def __init__(self, array: Array) -> None:
        self.shape, self.dtype, self.size = array.shape, array.dtype, array.size
        self.elements: Array = array.reshape(-1)[:: max(1, -(-array.size // _MOST))].copy()

    def equals(self, other: _Sample) -> bool:
        return self.shape == other.shape and bool(np.array_equal(self.elements, other.elements))


class _Batch:
    """Rows that came back: their first and last content, and the change in each pass."""

    def __init__(self, array: Array, targets: bytes) -> None:
        self.first = self.last = array
        self.direction = _direction(array)
        self.targets = targets
        self.change: Array | None = None
        self.passes = self.shrunk = 0
        self.added = 0.0  # sum of the mean squares of changes
        self.related = 0.0  # sum of the correlations of each change with the previous one
        self.same_targets = True

    def take(self, array: Array, targets: bytes, target_is_it: bool) -> None:
        change = array - self.last
        self.passes += 1
        self.added += float(np.mean(change * change))
        if self.change is not None:
            self.related += float(_direction(change) @ _direction(self.change))
        scale = float(np.abs(self.last).max())
        self.shrunk += float(np.abs(array).max()) < _SHRUNK * scale
        self.same_targets &= target_is_it or targets == self.targets
        self.last, self.change, self.targets = array, change, targets
        self.direction = _direction(array)

    @property
    def walked(self) -> float:
        """The root mean square of the change since the first pass."""
        return float(np.sqrt(np.mean((self.last - self.first) ** 2)))

    @property
    def step(self) -> float:
        """The root mean square of the change in one pass."""
        return float(np.sqrt(self.added / self.passes))

    def is_random_walk(self, passes: int) -> bool:
        if self.passes < passes or not self.same_targets:
            return False
        related = abs(self.related / (self.passes - 1))
        far = self.walked**2 >= _GROWN * self.added
        return far and related < _NOISE and self.walked >= _GROWN * float(self.first.std())


def _direction(array: Array) -> Array:
    """The vector whose product with that of another array is their correlation."""
    centered: Array = array - array.mean()
    size = float(np.sqrt(centered @ centered))
    return centered / size if size else centered


def _begin(settings: Settings) -> Look:
    passes = settings["passes"]
    batches: dict[tuple[int, int], list[_Batch]] = {}  # by value and size
    matched = MatchedData()
    kept: set[int] = set()  # values of which a batch came back unchanged
    now: dict[int, _Sample] = {}
    step = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal step
        finding = None
        if sight.step != step:
            finding = judge(sight)
            step = sight.step
            now.clear()
        if sight.value not in kept:
            now[sight.value] = _Sample(sight.array)
        return finding

    def judge(sight: Sight) -> Finding | None:
        graph = sight.graph
        for data, target in matched.of(graph, now):
            if data in kept:
                continue
            array, targets = now[data], now[target]
            if array.dtype.kind != "f" or array.size < _LEAST or len(array.shape) < 2:
                continue
            sample = numbers(array.elements)
            if not np.isfinite(sample).all() or not sample.std():
                continue
            equal, content = targets.equals(array), targets.elements.tobytes()
            known = batches.setdefault((data, array.size), [])
            batch = _one_of(known, sample)
            if batch is None:
                if len(known) < _MOST_BATCHES:
                    known.append(_Batch(sample, content))
                continue
            if np.array_equal(batch.last, sample):
                kept.add(data)
                continue
            batch.take(sample, content, equal)
            names = [maker.name for maker in map(graph.maker, (data, target)) if maker]
            text = _words(batch, array.shape[0], names[0], names[1] if equal else "", passes)
            if text:
                return Finding(text, {"passes": batch.passes})
        return None

    return look


def _words(batch: _Batch, rows: int, name: str, same: str, passes: int) -> str:
    mend = "change a copy (x.copy()), not the data"
    if batch.shrunk >= 2 and batch.shrunk == batch.passes:
        return (
            f"{rows} rows of {name} came back {batch.passes} times, divided once more each time, "
            f"from at most {float(np.abs(batch.first).max()):.3g} to "
            f"{float(np.abs(batch.last).max()):.3g}: they are scaled in place; {mend}"
        )
    if not batch.is_random_walk(passes):
        return ""
    also = f", and {same}, their target, is the same array" if same else ""
    return (
        f"{rows} rows of {name} came back {batch.passes} times, changed in place: by about "
        f"{batch.step:.2g} per pass and {batch.walked:.2g} in all{also}; {mend}"
    )


def _one_of(known: list[_Batch], sample: Array) -> _Batch | None:
    """The known batch that correlates with a sample; None unless there is exactly one."""
    direction = _direction(sample)
    candidates = [batch for batch in known if batch.direction @ direction > _ALIKE]
    return candidates[0] if len(candidates) == 1 else None


def _suits(nodes: Sequence[Node]) -> str:
    data = data_of(nodes)
    return f"{data[0]} is training data, which must not be modified" if data else ""


register(
    Rule(
        "data_overwritten",
        "data come back changed a little more in each pass: they are modified in place",
        _begin,
        needs=frozenset({"values", "history"}),
        parameters=(count("passes", 6, "number of times that rows must come back changed", low=2),),
        explains=True,
        suits=_suits,
        concerns=is_data,
    )
)
