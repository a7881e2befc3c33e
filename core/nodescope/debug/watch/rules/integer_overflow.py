"""Integers that wrap around: the exact result is outside the range of the dtype.

The statistics of the inputs rule it out for nearly all operations; elements are computed only for
the others. Hashes and random number generators wrap around on purpose; they also mix bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import ObservedContent, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Example, Finding, Look, Rule, Settings
from nodescope.events import Array
from nodescope.ir.graph import Node

_COMPUTE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "power": np.power,
}
_MIXES_BITS: Final = frozenset({
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift",
    "remainder",
})  # fmt: skip
# The dtypes of hashes. Quantities are seldom near the ends of their ranges.
_MODULAR: Final = frozenset({"uint32", "uint64"})
_MOST_SEARCHED: Final = 200
# For dtypes wider than 32 bits, float64 rounds; this share of the range is allowed for that.
_ROUNDING: Final = 1e-9


def _begin(settings: Settings) -> Look:
    seen: set[int] = set()

    def look(sight: Sight) -> Finding | None:
        dtype = sight.spec.dtype
        if not dtype.startswith(("int", "uint")) or dtype in _MODULAR or not sight.size:
            return None
        # It may be a running checksum; the second execution shows whether it depends on itself.
        if sight.size == 1 and dtype.startswith("uint") and sight.value not in seen:
            seen.add(sight.value)
            return None
        compute = _COMPUTE[sight.node.op]
        operands = _operands(sight)
        known = [ends for ends in map(_extremes, operands) if ends is not None]
        if len(operands) != 2 or len(known) != 2:
            return None
        low, high = _range(dtype)
        one, other = np.meshgrid(known[0], known[1])
        corners = _exact(compute, one, other)
        if low <= corners.min() and corners.max() <= high:
            return None
        one, other = map(_array, operands)
        exact = _exact(compute, one, other)
        outside = (exact < low) | (exact > high)
        if not outside.any() or _wraps_on_purpose(sight.node, sight.graph):
            return None
        place = tuple(int(index) for index in np.argwhere(outside)[0])
        worst = float(exact[place])
        where = f", first at {list(place)}" if place else ""
        return Finding(
            f"{int(outside.sum())} of {sight.size} elements of {sight.node.op} wrap around"
            f"{where}, where the exact result is {worst:.15g} and {dtype} ends at "
            f"{_end(dtype, worst)}; convert to a wider dtype first",
            {"wrapped": int(outside.sum()), "exact": worst},
        )

    return look


def _operands(sight: Sight) -> list[ObservedContent | int]:
    """The two operands in order; a Python number comes from the attributes."""
    operands: list[ObservedContent | int] = list(sight.inputs)
    for name, place in (("x1", 0), ("x2", 1)):
        number = sight.attrs.get(name)
        if isinstance(number, int | np.integer) and len(operands) == 1:
            operands.insert(place, int(number))
    return operands


def _extremes(operand: ObservedContent | int) -> tuple[float, float] | None:
    if isinstance(operand, int):
        return float(operand), float(operand)
    summary = operand.summary
    whole = summary.spec.dtype.startswith(("int", "uint", "bool"))
    if not whole or summary.min is None or summary.max is None:
        return None
    return summary.min, summary.max


def _array(operand: ObservedContent | int) -> Array:
    return np.asarray(operand if isinstance(operand, int) else operand.array)


def _range(dtype: str) -> tuple[float, float]:
    limits = np.iinfo(dtype)
    slack = 1 + _ROUNDING if limits.bits > 32 else 1.0
    return float(limits.min) * slack, float(limits.max) * slack


def _end(dtype: str, exact: float) -> int:
    """The end of the range that a number exceeds."""
    limits = np.iinfo(dtype)
    return int(limits.max if exact > 0 else limits.min)


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node's result may be integers; an unknown dtype may be."""
    return node.phase != "backward" and (graph.dtype(node.outputs[0]) or "int").startswith(
        ("int", "uint")
    )


def _exact(compute: Callable[[Any, Any], Any], one: Any, other: Any) -> Array:
    """The result in float64, which is exact up to 2**53."""
    with np.errstate(all="ignore"):
        result = compute(np.asarray(one, np.float64), np.asarray(other, np.float64))
    return np.asarray(np.nan_to_num(result, nan=0.0))


def _wraps_on_purpose(node: Node, graph: ProgramGraph) -> bool:
    """Whether bit operations are near, or an unsigned result depends on its own previous value.

    This is typical of hashes, checksums and random number generators.
    """
    unsigned = graph.dtype(node.outputs[0]).startswith("uint")
    if unsigned and graph.comes_back(node):
        return True
    todo, seen = [node], {node.id}
    while todo and len(seen) < _MOST_SEARCHED:
        current = todo.pop()
        if current.op in _MIXES_BITS:
            return True
        for near in (*graph.makers(current), *graph.readers(current.outputs[0])):
            whole = near.outputs and graph.dtype(near.outputs[0]).startswith(("int", "uint"))
            if whole and not near.is_leaf and near.id not in seen:
                seen.add(near.id)
                todo.append(near)
    return False


def _suits(nodes: Sequence[Node]) -> str:
    names = [node.name for node in nodes if node.op in _COMPUTE and node.phase == "forward"]
    return f"{names[0]} would wrap around if its operands were integers" if names else ""


def _bytes(*numbers: int) -> Array:
    return np.array(numbers, np.uint8)


register(
    Rule(
        "integer_overflow",
        "integers wrap around: the exact result is outside the range of their dtype",
        _begin,
        ops=frozenset(_COMPUTE),
        needs=frozenset({"summary", "inputs"}),
        suits=_suits,
        concerns=_concerns,
        examples=(
            Example([(_bytes(124, 40), _bytes(19, 2), _bytes(20, 20))], (1,), {}, {"x": "multiply"},
                    about="19 by 20 is 380"),
            Example([(_bytes(255, 1), _bytes(3, 5), _bytes(4, 4))], (1,), {}, {"x": "subtract"}),
            Example([(_bytes(200, 210), _bytes(200, 10), _bytes(0, 200))], (), {}, {"x": "add"},
                    about="the largest are not added to each other"),
            Example([(np.array([-128], np.int8), np.array([127], np.int8), np.array([1], np.int8))],
                    (1,), {}, {"x": "add"}),
            Example([(_bytes(0, 0, 250), _bytes(0, 0, 125), _bytes(2, 2, 2))], (), {},
                    {"x": "multiply"}),
        ),
    )
)  # fmt: skip
