"""Whether a recorded node can be run again, as far as its attributes go; if not, why."""

from __future__ import annotations

from nodescope import ops
from nodescope.errors import ReplayError
from nodescope.ir.attrs import opaque_in
from nodescope.ir.graph import Graph, Node

_BODIES = {
    "fused": ("body",), "scan": ("body",), "cond": ("then", "otherwise"),
    "while_loop": ("condition", "body"),
}  # fmt: skip


def bodies_missing(node: Node) -> str:
    """Which graph a node needs that its attributes do not hold, or ``""``."""
    if ops.get(node.op).family not in ("kernel", "control"):
        return ""
    wanted = _BODIES.get(node.op, ())
    return next((name for name in wanted if not isinstance(node.attrs.get(name), Graph)), "")


def check_known(node: Node) -> None:
    """Refuse a node with attributes of which only the text was recorded.

    Raises:
        ReplayError: Names the attribute.
    """
    for name, value in node.attrs.items():
        if name in _BODIES.get(node.op, ()):
            continue
        if text := opaque_in(value):
            raise ReplayError(
                f"{node.name}: its attribute {name} cannot be restored; recorded was only the "
                f"text {text[:80]!r}",
                hint="nodes whose attributes are numbers, text, tuples, slices and dtypes can be "
                "run again",
            )
