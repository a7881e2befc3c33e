"""Scores that a mask sets to 0 before a softmax: exp(0) is 1, so masked elements get a weight.

A mask is computed from data alone, contains only 0 and 1, and varies along the axis of the softmax.
If the weights are masked again after the softmax, nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps
from nodescope.events import Array
from nodescope.ir.graph import Node

_NORMALISES: Final = frozenset({"softmax", "log_softmax"})
_MASKS: Final = frozenset({"multiply", "where"})
_SCALES: Final = frozenset({"multiply", "divide", "astype", "copy"})
_DATA: Final = ("input", "constant")
_MOST: Final = 1 << 20  # elements of a mask
_AT_ONCE: Final = 6  # limit of operations between mask and softmax


def _begin(settings: Settings) -> Look:
    least = settings["num_steps"]
    masks: dict[int, Array] = {}  # by masked value: where the mask is 0
    steps: dict[int, set[int]] = {}

    def look(sight: Sight) -> Finding | None:
        node = sight.node
        if node.op in _MASKS:
            zeros = _zeros(sight)
            if zeros is None:
                masks.pop(sight.value, None)
            else:
                masks[sight.value] = zeros
            raise Inapplicable("no masked scores are normalised by a softmax")
        scores = _masked(sight.graph, node, masks)
        zeros = masks.get(scores) if scores else None
        if zeros is None or zeros.shape != sight.spec.shape or not zeros.ndim:
            raise Inapplicable("no masked scores are normalised by a softmax")
        axis = sight.attrs.get("axis", -1)
        if not isinstance(axis, int):
            return None
        mixed = zeros.any(axis=axis) & ~zeros.all(axis=axis)
        if not mixed.any() or _is_masked_again(sight.graph, node):
            return None
        known = steps.setdefault(node.id, set())
        known.add(sight.step)
        if len(known) < least:
            raise needs_steps(least, len(known))
        masked = int((zeros & np.expand_dims(mixed, axis)).sum())
        return Finding(
            f"{masked} of {zeros.size} scores are masked with 0, but {node.op} gives each of them "
            "the weight exp(0) = 1 all the same; exclude them with minus infinity: "
            "np.where(mask, scores, -np.inf)",
            {"masked": masked},
        )

    return look


def _zeros(sight: Sight) -> Array | None:
    """Where a mask sets scores to 0, in the shape of the result; None if nothing is a mask."""
    port = _mask_port(sight.node, sight.graph)
    inputs = sight.inputs
    if port is None:
        return None
    if len(inputs) <= port:
        raise MissingData("the node has no inputs")
    mask = inputs[port]
    if mask.size > _MOST or sight.size > 4 * _MOST:
        return None
    array = mask.array
    if not ((array == 0) | (array == 1)).all():
        return None
    return np.broadcast_to(array == 0, sight.spec.shape).copy()


def _mask_port(node: Node, graph: ProgramGraph) -> int | None:
    """The input port of a possible mask: computed from data alone, unlike the scores; or None."""
    if len(node.inputs) != 2:
        return None
    if node.op == "where":
        scores = 1
        if node.attrs.get("y") != 0 or not _is_data(graph, node.inputs[0]):
            return None
        return None if _is_data(graph, node.inputs[scores]) else 0
    data = [_is_data(graph, value) for value in node.inputs]
    return data.index(True) if data.count(True) == 1 else None


def _is_data(graph: ProgramGraph, value: int) -> bool:
    leaves = graph.leaves(value)
    return bool(leaves) and all(leaf.role in _DATA for leaf in leaves)


def _masked(graph: ProgramGraph, node: Node, masks: dict[int, Array]) -> int:
    """The masked scores that a softmax normalises, perhaps scaled by a number; or 0."""
    value = node.inputs[0] if node.inputs else 0
    for _ in range(_AT_ONCE):
        if value in masks:
            return value
        maker = graph.maker(value)
        if maker is None or maker.op not in _SCALES or len(maker.inputs) != 1:
            return 0
        value = maker.inputs[0]
    return 0


def _is_masked_again(graph: ProgramGraph, node: Node) -> bool:
    """Whether a mask is also applied to the weights."""
    return any(
        reader.phase == "forward"
        and reader.op in _MASKS
        and any(_is_data(graph, value) for value in reader.inputs)
        for reader in graph.readers(node.outputs[0])
    )


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is a (log) softmax, or may mask scores."""
    if node.phase != "forward":
        return False
    return node.op in _NORMALISES or _mask_port(node, graph) is not None


def _suits(nodes: Sequence[Node]) -> str:
    ops = {node.op for node in nodes if node.phase == "forward"}
    for node in nodes:
        if node.op in _NORMALISES and node.phase == "forward" and ops & _MASKS:
            return f"{node.name} gives a weight to every score, also to one that is 0"
    return ""


register(
    Rule(
        "masked_by_zero",
        "a mask sets scores to 0 before a softmax, which gives them a weight all the same",
        _begin,
        ops=_NORMALISES | _MASKS,
        needs=frozenset({"inputs", "values", "history"}),
        parameters=(count("num_steps", 3, "number of steps required", unit="steps", low=1),),
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
