"""Common subexpressions: repeated expressions are computed once.

Invariant: nodes merge only if op, operands and attributes are identical to the bit, and each would
have run whenever the other runs.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Any, Final

import numpy as np

from nodescope.ir.graph import Graph, Node
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.layouts import layouts_of

_SMALL: Final = 4096  # bytes up to which constants are compared
_TURNING: Final = frozenset(
    [
        "add",
        "multiply",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "equal",
        "not_equal",
    ]
)
"""Ops with exchangeable operands: not ``maximum``, which may return either of two zeros."""


class _Unknown(Exception):
    """An attribute that cannot be compared."""


@graph_pass(
    "cse",
    stage=30,
    help="compute repeated expressions once",
    again=True,
    rules=(
        Rule("same", "the same op of the same operands"),
        Rule("turned", "x + y and y + x, and other commutative ops"),
        Rule("same_constant", "constants with the same elements"),
    ),
)
def merge_common(draft: Draft) -> None:
    """Merge each node into the first equal one."""
    first: dict[Any, Node] = {}
    layouts = layouts_of(draft)
    for node in draft:
        if node.op == "constant":
            key: Any = _constant_key(draft, node)
        elif not node.outputs or not draft.is_pure(node):
            continue
        else:
            key = _key(node)
        if key is None:
            continue
        known = first.setdefault(key, node)
        if known is node and node.op in _TURNING and len(node.inputs) == 2:
            turned = first.get((*key[:1], node.inputs[::-1], *key[2:]))
            if turned in (None, node) or any(layouts.of(value) != "rows" for value in node.inputs):
                continue
            if any(draft.spec(value).dtype.startswith("complex") for value in node.inputs):
                continue
            _merge(draft, "turned", node, turned)
            first[key] = turned
        elif known is not node:
            _merge(draft, "same_constant" if node.op == "constant" else "same", node, known)


def _merge(draft: Draft, rule: str, node: Node, into: Node) -> None:
    draft.rewrite(
        rule, "merged", [node], [draft.node(into.id)],
        dict(zip(node.outputs, into.outputs, strict=True)),
    )  # fmt: skip


def _key(node: Node) -> Any:
    """A key equal for nodes that may merge; None if its attributes cannot be compared."""
    again = node.phase == "recompute"
    attrs: Any = node.attrs
    if attrs:
        try:
            attrs = tuple((name, frozen(item)) for name, item in sorted(attrs.items()))
        except _Unknown:
            return None
    else:
        attrs = ()
    return node.op, node.inputs, attrs, node.device, again, frozenset(node.control_inputs)


def _constant_key(draft: Draft, node: Node) -> Any:
    array = draft.array(node.outputs[0])
    if array is None or node.control_inputs:
        return None
    about = (array.dtype.name, array.shape, array.strides, node.device, node.phase == "recompute")
    if array.nbytes <= _SMALL:
        return "constant", about, array.tobytes()
    return "constant", about, array.__array_interface__["data"][0]


def frozen(value: Any) -> Any:
    """A key that only the same value has: by type, and numbers by their bits.

    Raises:
        _Unknown: The value cannot be compared.
    """
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, str, bytes):
        return kind.__name__, value
    if kind is float:
        return "float", struct.pack("<d", value)
    if kind is complex:
        return "complex", struct.pack("<dd", value.real, value.imag)
    if isinstance(value, tuple | list):
        return kind.__name__, tuple(map(frozen, value))
    if kind is slice:
        return "slice", frozen((value.start, value.stop, value.step))
    if kind is dict:
        return "dict", tuple((frozen(key), frozen(item)) for key, item in value.items())
    if isinstance(value, np.dtype):
        return "dtype", value.str, value.name
    if isinstance(value, np.ndarray | np.generic):
        return "array", value.dtype.name, value.shape, value.tobytes()
    if kind is Graph:
        return "graph", _Body(value)
    if dataclasses.is_dataclass(value):
        parts = (getattr(value, field.name) for field in dataclasses.fields(value))
        return kind.__name__, tuple(map(frozen, parts))
    raise _Unknown


class _Body:
    """A body as part of a key: its content is compared only if everything else is equal."""

    __slots__ = ("graph",)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __hash__(self) -> int:
        return hash(tuple([node.op for node in self.graph.nodes if node.op != "placeholder"]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Body):
            return NotImplemented
        try:
            return self.graph is other.graph or bool(_content(self.graph) == _content(other.graph))
        except _Unknown:
            return False


def _content(graph: Graph) -> Any:
    """The computation of a body, whatever its ids and names."""
    number = {value: i for i, value in enumerate(graph.inputs)}
    nodes, specs = [], {value.id: value.spec for value in graph.values}
    for node in graph.nodes:
        for value in node.outputs:
            number.setdefault(value, len(number))
        if node.op != "placeholder":
            nodes.append(
                (
                    node.op,
                    tuple(number[value] for value in node.inputs),
                    frozen(dict(node.attrs)),
                    tuple(number[value] for value in node.outputs),
                    node.phase == "recompute",
                    tuple((specs[value].shape, specs[value].dtype) for value in node.outputs),
                )
            )
    operand_specs = tuple((specs[value].shape, specs[value].dtype) for value in graph.inputs)
    return operand_specs, tuple(nodes), tuple(number[value] for value in graph.outputs)
