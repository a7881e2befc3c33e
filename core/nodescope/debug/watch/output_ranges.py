"""Output ranges: the range of a result for any inputs.

Invariant: pure functions of a program's graph; None if a value is unbounded.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.ir.graph import Node

_INF: Final = math.inf
_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "relu": (0.0, _INF),
    "relu6": (0.0, 6.0),
    "softplus": (0.0, _INF),
    "exp": (0.0, _INF),
    "square": (0.0, _INF),
    "abs": (0.0, _INF),
    "sigmoid": (0.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "log_softmax": (-_INF, 0.0),
    "logsigmoid": (-_INF, 0.0),
}
_MOST_STEPS: Final = 12


class OutputRange(NamedTuple):
    """The range of a value.

    Attributes:
        low, high: The bounds, one of which may be infinite.
        node: The node that bounds the value.
    """

    low: float
    high: float
    node: Node


def output_range(graph: ProgramGraph, value: int, most: int = _MOST_STEPS) -> OutputRange | None:
    """The range of a value computed by a bounded operation, followed by scaling and shifting."""
    maker = graph.given(value)
    if maker is None or len(maker.inputs) != 1 or most <= 0:
        return None
    known = bounds_of(maker)
    if known is not None:
        return OutputRange(*known, maker)
    inner = output_range(graph, maker.inputs[0], most - 1)
    if inner is None:
        return None
    ends = _moved(maker, inner.low, inner.high)
    return None if ends is None else OutputRange(min(ends), max(ends), inner.node)


def bounds_of(node: Node) -> tuple[float, float] | None:
    """The output range of an operation with one input; None if it is unbounded."""
    number = _operand(node)
    if node.op in _BOUNDS:
        return _BOUNDS[node.op]
    if node.op in ("maximum", "minimum") and number is not None:
        return (number, _INF) if node.op == "maximum" else (-_INF, number)
    if node.op == "power" and node.attrs.get("x2") in (2, 4):
        return 0.0, _INF
    if node.op == "clip":
        low, high = node.attrs.get("low"), node.attrs.get("high")
        ends = (-_INF if low is None else low), (_INF if high is None else high)
        if all(isinstance(end, int | float) for end in ends):
            return float(ends[0]), float(ends[1])
    return None


def _moved(node: Node, low: float, high: float) -> tuple[float, float] | None:
    """The range after a number is added or multiplied; None for other operations."""
    if node.op == "negative":
        return -low, -high
    number, first = _operand(node), "x1" in node.attrs
    if number is None or not math.isfinite(number):
        return None
    if node.op == "add":
        return low + number, high + number
    if node.op == "subtract":
        return (number - low, number - high) if first else (low - number, high - number)
    if number and (node.op == "multiply" or (node.op == "divide" and not first)):
        factor = number if node.op == "multiply" else 1 / number
        return low * factor, high * factor
    return None


def _operand(node: Node) -> float | None:
    """The Python number among a node's operands; None if there is none."""
    for name in ("x1", "x2"):
        number = node.attrs.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return float(number)
    return None
