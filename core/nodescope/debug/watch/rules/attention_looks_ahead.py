"""Attention that sees what it must predict: each position attends to the next one.

If targets are the tokens shifted by one, the next position holds the answer. A mask that begins one
diagonal too late, or a missing mask, lets attention read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.classifier_labels import LOSSES
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps
from nodescope.events import Array
from nodescope.ir.graph import Node

_MOST: Final = 1 << 20
_SEES: Final = 1e-9  # every position must give the next one more weight than this in some row
_PASSES: Final = frozenset({"where", "add", "subtract", "multiply", "divide", "astype", "copy"})


def _begin(settings: Settings) -> Look:
    least = settings["steps"]
    tokens: dict[int, Array] = {}  # by id of the embedding node: its latest tokens
    ahead: dict[int, tuple[Node, float]] = {}  # attention of this step that looks ahead
    leaks: dict[int, int] = {}

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if node.op == "embedding":
            array = sight.inputs[1].array if len(sight.inputs) > 1 else sight.array
            if array.ndim == 2 and array.shape[1] > 2 and array.size <= _MOST:
                tokens[node.id] = array.copy()
            ahead.clear()
            raise Inapplicable("no attention predicts the next token")
        if node.op == "softmax":
            shape = sight.spec.shape
            if len(shape) < 3 or shape[-1] != shape[-2] or not tokens:
                raise Inapplicable("no attention predicts the next token")
            ahead.pop(node.id, None)
            if sight.size <= _MOST:
                next_ones = np.diagonal(sight.array, 1, -2, -1)
                if next_ones.size and float(np.min(next_ones.max(axis=0))) > _SEES:
                    ahead[node.id] = node, float(np.mean(next_ones))
            return None
        if len(sight.inputs) < 2 or not tokens:
            raise Inapplicable("no attention predicts the next token")
        labels = sight.inputs[1].array
        if labels.dtype.kind not in "iu":
            raise Inapplicable("no loss takes class labels")
        above = graph.above(node.inputs[0])
        follow = [place for place in above & tokens.keys() if _follows(labels, tokens[place])]
        if not follow:
            return None
        for number, (attention, weight) in ahead.items():
            if number not in above or not _reads(graph, attention, follow):
                continue
            leaks[number] = leaks.get(number, 0) + 1
            if leaks[number] < least:
                raise needs_steps(least, leaks[number])
            source = _scores(graph, attention)
            line = f" (line {source.source.line})" if source.source is not None else ""
            return Finding(
                f"it predicts the next token, but in {source.name}{line} each position sees the "
                f"one after it, to which {attention.name} gives a weight of {weight:.3g} on "
                "average: the answer; mask what follows, as np.tril(np.ones((n, n), bool)) does",
                {"weight": weight, "steps": leaks[number]},
            )
        return None

    return look


def _follows(labels: Array, tokens: Array) -> bool:
    """Whether labels are the tokens shifted by one."""
    if labels.size != tokens.size:
        return False
    known = tokens[:, 1:]
    return known.min() != known.max() and np.array_equal(
        labels.reshape(tokens.shape)[:, :-1], known
    )


def _reads(graph: ProgramGraph, attention: Node, follow: list[int]) -> bool:
    """Whether both sides of the scores depend on the predicted tokens: it is self-attention."""
    maker, seen = _scores(graph, attention), set[int]()
    while maker.op != "matmul" and maker.op != "einsum":
        below = [node for node in graph.makers(maker) if not node.is_leaf]
        if not below or maker.op not in _PASSES or maker.id in seen:
            return False
        seen.add(maker.id)
        maker = below[0]
    sides = [graph.above(value) for value in maker.inputs]
    return all(place in side for side in sides for place in follow)


def _scores(graph: ProgramGraph, attention: Node) -> Node:
    """The node that computes the softmax's scores, such as the mask; else the softmax itself."""
    maker = graph.maker(attention.inputs[0]) if attention.inputs else None
    return maker if maker is not None and not maker.is_leaf else attention


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "forward"


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    tokens = next((node.name for node in nodes if node.op == "embedding"), "")
    attention = next((node.name for node in nodes if node.op == "softmax"), "")
    losses = any(node.op in LOSSES for node in nodes)
    return (
        f"{attention} may let a position see the token that it must predict"
        if tokens and attention and losses
        else ""
    )


register(
    Rule(
        "attention_looks_ahead",
        "attention sees the next token, which is what the model must predict",
        _begin,
        ops=LOSSES | {"embedding", "softmax"},
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("steps", 5, "number of steps in which it must see it", low=1, unit="steps"),
        ),
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
