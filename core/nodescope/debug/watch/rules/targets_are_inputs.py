"""Targets equal to the inputs: a sequence model whose targets were not shifted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.classifier_labels import LOSSES
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Need,
    Rule,
    Settings,
    count,
    needs_steps,
)
from nodescope.events import Array
from nodescope.ir.graph import Node

_NEEDS: Final[frozenset[Need]] = frozenset({"inputs", "values", "history"})
_LEAST: Final = 8
_MOST: Final = 1 << 20
_MOVES: Final = frozenset({"where", "choose", "roll", "pad", "flip", "cumsum", "take_along_axis",
                           "conv1d", "conv2d", "einsum", "concatenate"})  # fmt: skip


def _begin(settings: Settings) -> Look:
    least = settings["steps"]
    tokens: dict[int, Array] = {}  # by embedding node: its latest tokens
    equal: dict[tuple[int, int], int] = {}  # by loss and embedding: equal steps, -1 if they differ
    keeps: dict[tuple[int, int], bool] = {}

    def look(sight: Sight) -> Finding | None:
        node = sight.node
        inputs = sight.inputs
        if len(inputs) < 2:
            raise MissingData("the node has no second input with labels")
        array = inputs[1].array
        if array.dtype.kind not in "iu":
            raise Inapplicable("no loss takes class labels")
        if node.op == "embedding":
            if array.ndim == 2 and array.shape[1] > 2 and array.size <= _MOST:
                tokens[node.id] = array.copy()
            return None
        labels = array.reshape(-1)
        if labels.size < _LEAST or labels.min() == labels.max() or not tokens:
            return None
        above = sight.graph.above(node.inputs[0])
        seen = 0
        for place in above & tokens.keys():
            pair = node.id, place
            same = np.array_equal(labels, tokens[place].reshape(-1))
            equal[pair] = equal.get(pair, 0) + 1 if same and equal.get(pair, 0) >= 0 else -1
            if equal[pair] >= least and pair not in keeps:
                keeps[pair] = _keeps_places(sight.graph, node, place, tokens[place])
            if equal[pair] >= least and keeps[pair]:
                return Finding(
                    f"its targets equal the inputs, element by element, in all of {equal[pair]} "
                    "steps, so the model only learns to copy; shift the targets, as in inputs = "
                    "x[:, :-1] and targets = x[:, 1:]",
                    {"steps": equal[pair]},
                )
            seen = max(seen, equal[pair])
        if 0 < seen < least:
            raise needs_steps(least, seen)
        return None

    return look


def _keeps_places(graph: ProgramGraph, loss: Node, place: int, tokens: Array) -> bool:
    """Whether the scores at a position are computed from the token there.

    In autoencoders, they come from one code of all tokens. An op that may move, hide or mix
    positions ends the search.
    """
    rows, length = tokens.shape
    above = graph.above(loss.inputs[0])
    keeping = {place}
    parts: set[int] = set()  # nodes that select one position each
    for node in sorted((graph.nodes[item] for item in above), key=lambda node: node.id):
        if keeping.isdisjoint(maker.id for maker in graph.makers(node)):
            if node.op == "stack" and len(node.inputs) == length and _in_turn(graph, node, parts):
                keeping.add(node.id)
            continue
        shape = graph.shape(node.outputs[0]) or ()
        whole = rows * length in shape[:1] or (rows in shape[:2] and length in shape[:3])
        if whole and not _moves(graph, node, place):
            keeping.add(node.id)
        elif node.op == "getitem":
            parts.add(node.id)
    return any(maker.id in keeping for maker in graph.makers(loss)[:1])


def _in_turn(graph: ProgramGraph, stack: Node, parts: set[int]) -> bool:
    """Whether the first stacked value depends on fewer positions than the last one."""
    first, last = (graph.above(stack.inputs[port]) & parts for port in (0, -1))
    return bool(first) and first < last


def _moves(graph: ProgramGraph, node: Node, place: int) -> bool:
    if node.op in _MOVES:
        return True
    if node.op == "matmul":
        return all(place in graph.above(value) for value in node.inputs)
    others = [maker for maker in graph.makers(node) if maker.role in ("input", "constant")]
    return node.op == "multiply" and bool(others)


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    tokens = next((node.name for node in nodes if node.op == "embedding"), "")
    losses = any(node.op in LOSSES for node in nodes)
    return (
        f"{tokens} looks up tokens, which its targets must not equal" if tokens and losses else ""
    )


register(
    Rule(
        "targets_are_inputs",
        "the targets of a sequence model equal its inputs: they were not shifted",
        _begin,
        ("values",),
        ops=LOSSES | {"embedding"},
        needs=_NEEDS,
        parameters=(
            count("steps", 5, "number of steps in which they must be equal", low=1, unit="steps"),
        ),
        explains=True,
        suits=_suits,
    )
)
