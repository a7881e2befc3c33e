"""Suiting: why a rule is recommended for a program, by the program's nodes.

Invariant: functions of the nodes alone; ``""`` means that the rule does not suit the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nodescope.ir.graph import Node

Suits = Callable[[Sequence[Node]], str]
"""Returns why a rule is recommended for a program with these nodes, or ``""``."""


def computes_gradients(reason: str) -> Suits:
    """Programs with a backward pass."""

    def suits(nodes: Sequence[Node]) -> str:
        backward = any(node.phase == "backward" for node in nodes)
        return f"it computes gradients; {reason}" if backward else ""

    return suits


def trains_weights(reason: str) -> Suits:
    """Programs that compute gradients and write to variables."""

    def suits(nodes: Sequence[Node]) -> str:
        backward = any(node.phase == "backward" for node in nodes)
        trains = backward and any(node.writes for node in nodes)
        return f"it trains weights; {reason}" if trains else ""

    return suits


def descends(reason: str) -> Suits:
    """Programs that train variables, or tensors carried from step to step, by gradients."""
    weights = trains_weights(reason)

    def suits(nodes: Sequence[Node]) -> str:
        trained = weights(nodes)
        if trained or not any(node.phase == "backward" for node in nodes):
            return trained
        makers = {value: node for node in nodes for value in node.outputs}
        carried = [node.name for node in nodes if _carries(node, makers)]
        return f"{carried[0]} moves down a gradient; {reason}" if carried else ""

    return suits


def _carries(node: Node, makers: Mapping[int, Node]) -> bool:
    """Whether a node subtracts a term computed from a gradient from its previous result."""
    if node.op != "subtract" or len(node.inputs) != 2 or node.inputs[0] not in node.outputs:
        return False
    todo, seen = [node.inputs[1]], set(node.outputs)
    while todo:
        value = todo.pop()
        maker = makers.get(value)
        if value in seen or maker is None:
            continue
        if maker.phase == "backward":
            return True
        seen.add(value)
        todo += maker.inputs
    return False


def has_ops(ops: frozenset[str], reason: str) -> Suits:
    """Programs with operations of these kinds in the forward pass."""

    def suits(nodes: Sequence[Node]) -> str:
        names = [node.op for node in nodes if node.op in ops and node.phase == "forward"]
        if not names:
            return ""
        return f"it has {len(names)} {names[0]} node{'s'[: len(names) > 1]}; {reason}"

    return suits
