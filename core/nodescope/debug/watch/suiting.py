"""Which programs a rule suits: why it is recommended, by the nodes of the program.

Invariant: functions of the nodes alone; ``""`` says that the rule does not suit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodescope.ir.graph import Node

Suits = Callable[[Sequence[Node]], str]
"""Gives why a rule is recommended for a program of these nodes, or ``""``."""


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


def has_ops(ops: frozenset[str], reason: str) -> Suits:
    """Programs with operations of these kinds in the forward pass."""

    def suits(nodes: Sequence[Node]) -> str:
        found = [node.op for node in nodes if node.op in ops and node.phase == "forward"]
        if not found:
            return ""
        return f"it has {len(found)} {found[0]} node{'s'[: len(found) > 1]}; {reason}"

    return suits
