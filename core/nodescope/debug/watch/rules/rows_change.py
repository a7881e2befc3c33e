"""Rows that come back with another row's target: inputs and targets were shuffled separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Need, Rule, Settings, count
from nodescope.events import Array
from nodescope.ir.graph import Node

_NEEDS: Final[frozenset[Need]] = frozenset({"values", "history"})
DATA_ROLES: Final = ("input", "constant")
_MOST_ROWS: Final = 1 << 16
_MOST_BYTES: Final = 16 << 20
_FEW: Final = 4
# With few classes, targets may seem to move by chance, so they must move in this many passes.
_PASSES: Final = 3


class _Pair:
    """The rows of one input and their targets in consecutive passes over the data."""

    def __init__(self) -> None:
        self.first: dict[bytes, bytes] = {}
        self.again: dict[bytes, bytes] = {}
        self.moved = 0

    def take(self, rows: list[bytes], targets: list[bytes]) -> None:
        for row, target in zip(rows, targets, strict=True):
            (self.again if row in self.first else self.first).setdefault(row, target)

    def passed(self, least: int) -> int:
        """After a full pass: the number of rows whose targets were exchanged among them; else 0."""
        size = len(self.first)
        if size > _MOST_ROWS:
            self.first, self.again = {}, {}
        if size < least or len(self.again) < size:
            return 0
        first, again = self.first, self.again
        self.first, self.again = again, {}
        counts = Counter(first.values())
        changed = sum(first[row] != again[row] for row in first)
        mixed = size * (1 - sum((number / size) ** 2 for number in counts.values()))
        if changed < mixed / 2 or not changed or counts != Counter(again.values()):
            self.moved = 0
            return 0
        self.moved += 1
        return changed if self.moved >= (1 if len(counts) > size / 2 else _PASSES) else 0


def _begin(settings: Settings) -> Look:
    least = settings["rows"]
    seen: dict[int, Array] = {}  # by value: its latest array
    fresh: set[int] = set()
    pairs: dict[tuple[int, int], _Pair] = {}
    matched = MatchedData()
    step = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal step
        finding = None
        if sight.step != step:
            step = sight.step
            finding = _judge(sight.graph)
            fresh.clear()
        array = sight.array
        if array.ndim and array.shape[0] >= _FEW and array.nbytes <= _MOST_BYTES:
            seen[sight.value] = array.copy()
            fresh.add(sight.value)
        return finding

    def _judge(graph: ProgramGraph) -> Finding | None:
        for data, target in matched.of(graph, seen):
            if data not in fresh and target not in fresh:
                continue
            rows, targets = seen[data], seen[target]
            if rows.shape[0] != targets.shape[0] or _numbers_rows(targets):
                continue
            pair = pairs.setdefault((data, target), _Pair())
            pair.take(_rows(rows), _rows(targets))
            size = len(pair.first)
            changed = pair.passed(least)
            if changed:
                names = [maker.name for maker in map(graph.maker, (data, target)) if maker]
                return Finding(
                    f"{changed} of {size} rows of {names[0]} came back with the {names[1]} of "
                    "another row: the two are shuffled separately; use one permutation for both",
                    {"rows": changed},
                )
        return None

    return look


class MatchedData:
    """Pairs of data and the targets that a loss compares with predictions from that data."""

    def __init__(self) -> None:
        self._known: tuple[int, frozenset[int]] = (-1, frozenset())
        self._pairs: list[tuple[int, int]] = []

    def of(self, graph: ProgramGraph, seen: Collection[int]) -> list[tuple[int, int]]:
        """The pairs among the seen values, recomputed when these or the graph have changed."""
        known = graph.version, frozenset(seen)
        if known != self._known:
            self._known, self._pairs = known, _matched(graph, seen)
        return self._pairs


def _matched(graph: ProgramGraph, seen: Collection[int]) -> list[tuple[int, int]]:
    pairs: dict[tuple[int, int], None] = {}
    for node in graph.forward():
        compares = node.family == "loss" or node.op == "subtract"
        if not compares or len(node.inputs) != 2 or not graph.reaches_loss(node):
            continue
        for port in (0, 1):
            target = graph.given(node.inputs[port])
            if target is None or target.outputs[0] not in seen:
                continue
            above = [leaf for leaf in graph.leaves(node.inputs[1 - port]) if leaf is not target]
            leaves = [leaf.outputs[0] for leaf in above if leaf.role == "input"]
            leaves = leaves or [leaf.outputs[0] for leaf in above if leaf.role == "constant"]
            data = [value for value in leaves if value in seen]
            if len(data) == 1 and len(leaves) == 1:
                pairs[data[0], target.outputs[0]] = None
    return list(pairs)


def is_data(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node holds data of the program: an input, or an array passed to an operation."""
    return node.role in DATA_ROLES and node.phase == "forward"


def data_of(nodes: Sequence[Node]) -> list[str]:
    """The names of a training program's data, inputs first; empty if fewer than two."""
    if not any(node.phase == "backward" for node in nodes):
        return []
    data = [node for node in nodes if node.role in DATA_ROLES and node.phase == "forward"]
    if len(data) < 2 or not any(node.role == "input" for node in data):
        return []
    return [node.name for node in sorted(data, key=lambda node: node.role != "input")]


def _rows(array: Array) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(array)]


def _numbers_rows(targets: Array) -> bool:
    """Whether targets only number the rows of a batch, as in contrastive losses."""
    if targets.dtype.kind not in "iu" or targets.ndim != 1:
        return False
    return np.unique(targets).size == targets.size


def _suits(nodes: Sequence[Node]) -> str:
    data = data_of(nodes)
    return f"{data[0]} and {data[1]} are its data, whose rows must stay paired" if data else ""


register(
    Rule(
        "rows_change",
        "rows of the data come back with the targets of other rows: the two are shuffled "
        "separately",
        _begin,
        needs=_NEEDS,
        parameters=(count("rows", 32, "number of rows that must have come back", low=4),),
        explains=True,
        suits=_suits,
        concerns=is_data,
    )
)
