"""A layer that is saturated from the first step on: its initial weights are too large.

Most results of a tanh or sigmoid are near its bounds, where the slope is below 0.01, from the first
steps to the end of the run. Nothing is reported if the loss has become small, if the weights are
not trained, or if the results are gates or answers, which may be saturated on purpose.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.loss_progress import LossProgress
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    percent,
)
from nodescope.debug.watch.suiting import has_ops
from nodescope.debug.watch.untrained_layers import PRODUCTS
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"tanh", "sigmoid"})
# Results beyond these bounds belong to inputs at which the slope is below 0.01.
_ENDS: Final = {"tanh": (-0.995, 0.995), "sigmoid": (0.0101, 0.9899)}
_LOSSES: Final = frozenset({"loss", "reduction", "elementwise"})


def _begin(settings: Settings) -> Look:
    steps, least, left_ge = (
        settings["num_steps"], settings["share"] / 100, settings["left"] / 100,
    )  # fmt: skip
    seen: dict[int, int] = {}
    free: set[int] = set()
    progress = LossProgress()

    def look(sight: Sight) -> Finding | None:
        node, graph, value = sight.node, sight.graph, sight.value
        if node.op not in _OPS:
            if value in graph.losses:
                progress.take(sight)
            raise Inapplicable("it has no layers with tanh or sigmoid")
        if value in free or not sight.size or len(sight.spec.shape) < 2:
            return None
        low, high = _ENDS[node.op]
        array = sight.array
        share = float(np.mean((array < low) | (array > high)))
        if share < least:
            free.add(value)
            return None
        seen[value] = seen.get(value, 0) + 1
        if seen[value] < steps:
            raise needs_steps(steps, seen[value])
        weight = _weight(graph, node)
        left = progress.left
        if weight is None or not _feeds_layer(graph, node):
            raise Inapplicable("it has no layers with tanh or sigmoid")
        if left is None or left < left_ge:
            return None
        return Finding(
            f"{100 * share:.3g}% of its results are at the ends of {node.op}, where its slope is "
            f"below 0.01, and most were in each of {seen[value]} steps from the first one on; "
            f"{100 * left:.3g}% of the loss is left: {weight.name} is too large; initialise it "
            "with a deviation of 1 / sqrt(inputs), or scale the inputs",
            {"share": 100 * share, "left": 100 * left},
        )

    return look


def _weight(graph: ProgramGraph, node: Node) -> Node | None:
    """The trained weight of the product, perhaps plus a bias, before an activation; or None."""
    values, most = [node.inputs[0]], 4
    while values and most:
        most -= 1
        maker = graph.given(values.pop())
        if maker is None:
            continue
        if maker.op in PRODUCTS:
            for value in maker.inputs:
                weight = graph.given(graph.held_in(value))
                if weight is not None and weight.is_weight and value in graph.gradients:
                    return weight
            return None
        if maker.op == "add":
            values += maker.inputs
    return None


def _feeds_layer(graph: ProgramGraph, node: Node) -> bool:
    """Whether another layer reads the results."""
    todo, seen = list(node.outputs), set(node.outputs)
    while todo:
        for reader in graph.readers(todo.pop()):
            if reader.phase != "forward" or not reader.outputs:
                continue
            if reader.op in PRODUCTS:
                return True
            shifts = len(reader.inputs) == 1 and reader.op in ("add", "subtract", "multiply")
            if (shifts or reader.family == "layout") and reader.outputs[0] not in seen:
                seen.add(reader.outputs[0])
                todo.append(reader.outputs[0])
    return False


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is such an activation, or may be a loss."""
    if node.op in _OPS:
        return node.phase == "forward"
    return node.phase == "forward" and node.family in _LOSSES


register(
    Rule(
        "saturated_start",
        "most results of a tanh or sigmoid layer are at its ends from the first step on",
        _begin,
        ("activations", "losses"),
        needs=frozenset({"values", "history"}),
        parameters=(
            count("num_steps", 30, "number of steps required", unit="steps", low=1),
            percent("share", 60, "hit if at least this share of the results is at the ends"),
            percent("left", 30, "hit if at least this share of the loss is left"),
        ),
        lasting=True,
        explains=True,
        follows=("saturated_layer", "inputs_scale"),
        suits=has_ops(_OPS, "large initial weights leave a layer no slope"),
        concerns=_concerns,
    )
)
