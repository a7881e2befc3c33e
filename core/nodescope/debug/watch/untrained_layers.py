"""Untrained layers: the position of a layer that no optimizer updates among the trained layers.

Layers before the trained ones may be frozen on purpose, and so may a network through which earlier
layers are trained. Nobody freezes only the last layer with its random initial weights.

Invariant: pure functions of the graph.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.ir.graph import Node

Place = Literal["before", "last", ""]
"""The position of an untrained layer: ``before`` a trained one; ``last`` after trained layers only;
or neither."""

PRODUCTS: Final = frozenset({"matmul", "conv1d", "conv2d", "dot"})


def bias_and_weight(graph: ProgramGraph, node: Node) -> tuple[Node | None, Node | None]:
    """The bias that a node adds to a product, and the product's weight; else None and None."""
    if node.op != "add" or len(node.inputs) != 2:
        return None, None
    for port in (0, 1):
        bias = graph.maker(node.inputs[port])
        product = graph.maker(node.inputs[1 - port])
        if bias is None or not bias.is_weight or product is None or product.op not in PRODUCTS:
            continue
        for value in product.inputs[1:]:
            weight = graph.maker(graph.held_in(value))
            if weight is not None and weight.is_weight:
                return bias, weight
    return None, None


def layer_of(graph: ProgramGraph, weight: int) -> tuple[int, ...]:
    """The value ids of the weight and the bias of a layer; ``()`` if there is no such layer.

    Args:
        graph: The program's graph.
        weight: The value id of either parameter.
    """
    for node in graph.forward():
        bias, product = bias_and_weight(graph, node)
        if bias is not None and product is not None:
            pair = product.outputs[0], bias.outputs[0]
            if weight in pair:
                return pair
    return ()


def place_of(
    graph: ProgramGraph, layer: Collection[int], trained: Collection[int], idle: Collection[int]
) -> Place:
    """The position of a layer.

    Args:
        graph: The program's graph.
        layer: The value ids of the layer's parameters.
        trained, idle: The value ids of all parameters that change, and that do not change.
    """
    users = _users(graph, layer)
    for weight in trained:
        for reader in _users(graph, (weight,)):
            if not users.isdisjoint(graph.above(graph.nodes[reader].outputs[0]) - {reader}):
                return "before"
    others = set(idle) - set(layer)
    before: set[int] = set()
    for user in users:
        before |= {leaf.outputs[0] for leaf in graph.leaves(graph.nodes[user].outputs[0])}
    after_it = any(
        not users.isdisjoint(graph.above(graph.nodes[reader].outputs[0]))
        for reader in _users(graph, others)
    )
    alone = others.isdisjoint(before) and not after_it
    return "last" if users and alone and not before.isdisjoint(trained) else ""


def _users(graph: ProgramGraph, values: Collection[int]) -> set[int]:
    """Ids of the forward nodes that read these parameters and from which a loss is computed."""
    return {
        reader.id
        for value in values
        for reader in graph.readers(value)
        if reader.phase == "forward" and reader.outputs and graph.reaches_loss(reader)
    }
