"""Target comparisons: operations that may compare predictions with targets, for rules about them.

Invariant: pure functions of a program's nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.ir.graph import Node

# Ops between a difference and the loss computed from it.
_TO_LOSS: Final = frozenset({
    "square", "power", "abs", "multiply", "divide", "add", "mean", "sum", "sqrt", "negative",
    "where", "expand_dims", "squeeze", "reshape", "astype", "mse", "huber", "vector_norm",
})  # fmt: skip


def becomes_loss(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node's result becomes a loss by ops of `_TO_LOSS` alone."""
    todo, seen = [node], {node.id}
    while todo:
        current = todo.pop()
        for value in current.outputs:
            if value in graph.losses:
                return True
            for reader in graph.readers(value):
                if reader.phase == "forward" and reader.op in _TO_LOSS and reader.id not in seen:
                    seen.add(reader.id)
                    todo.append(reader)
    return False


def is_only_loss(graph: ProgramGraph, node: Node) -> bool:
    """Whether the only loss is a node's result, or its scaled or squared mean.

    With several losses, or in adversarial training, a loss need not fall.
    """
    if len(graph.losses) != 1:
        return False
    (loss,) = graph.losses
    value = node.outputs[0]
    for _ in range(3):
        if value == loss:
            return True
        readers = [reader for reader in graph.readers(value) if reader.phase == "forward"]
        if len(readers) != 1 or not readers[0].outputs:
            return False
        squares = readers[0].op == "power" and readers[0].attrs.get("x2") == 2
        if not (squares or readers[0].op in ("mean", "square", "multiply")):
            return False
        value = readers[0].outputs[0]
    return value == loss


def target_port(graph: ProgramGraph, node: Node) -> int | None:
    """The input port with the program's data, if the other input is computed from weights."""
    if len(node.inputs) != 2:
        return None
    for port in (1, 0):
        maker = graph.given(node.inputs[port])
        if maker is not None and maker.role in ("input", "constant"):
            leaves = graph.leaves(node.inputs[1 - port])
            return port if any(leaf.is_weight for leaf in leaves) else None
    return None


def takes_two_forward(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node takes two values in the forward pass."""
    return node.phase == "forward" and len(node.inputs) == 2


def comparing(nodes: Sequence[Node], ops: Collection[str], words: str) -> str:
    """Why a rule about comparisons suits a program: its first comparison; or ``""``.

    Args:
        nodes: The program's nodes.
        ops: The operations that compare.
        words: The text after the comparison's name.
    """
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.phase == "forward" and node.op in ops and len(node.inputs) == 2:
            return f"{node.name} {words}"
    return ""
