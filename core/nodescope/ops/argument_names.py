"""Argument names: other libraries' names for the arguments of nodescope's ops.

A recording keeps the library's own names, which its users know. Rules are written once for all
libraries and use nodescope's names.

Invariant: a table and lookups in it; attributes of nodescope's own nodes are returned unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from nodescope.ir.graph import Node

_NAMES: Final[dict[str, dict[str, str]]] = {
    "torch": {
        "dim": "axis", "keepdim": "keepdims", "other": "x2", "exponent": "x2", "self": "x1",
        "min": "low", "max": "high", "correction": "ddof", "padding_idx": "padding_index",
    },
}  # fmt: skip
_REDUCTIONS: Final = ("none", "mean", "sum")


def known_attrs(dialect: str, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of another library's node, under nodescope's names."""
    names = _NAMES.get(dialect)
    if names is None:
        return attrs
    known = {names.get(name, name): value for name, value in attrs.items()}
    reduction = known.get("reduction")
    if isinstance(reduction, int) and 0 <= reduction < len(_REDUCTIONS):
        known["reduction"] = _REDUCTIONS[reduction]
    return known


def known_node(node: Node) -> Node:
    """A node with its attributes under nodescope's names."""
    attrs = known_attrs(node.dialect, node.attrs)
    if attrs is node.attrs:
        return node
    return msgspec.structs.replace(node, attrs=dict(attrs))
