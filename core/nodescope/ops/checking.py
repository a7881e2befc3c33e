"""Checking: infers node outputs from ops, for `nodescope.ir.verify`.

Invariant: nothing is run.
"""

from __future__ import annotations

from typing import Any

from nodescope import ops
from nodescope.errors import ShapeError
from nodescope.ir.graph import Node, TensorSpec
from nodescope.ops.op import port_name


def inferred(node: Node, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...] | None:
    """The specs of a node's outputs; None if they depend on values, or it is a leaf.

    Raises:
        RegistryError: The op does not exist.
        ShapeError, DtypeError: The op refuses these inputs.
        KeyError: An attribute is missing.
    """
    op = ops.get(node.op)
    if op.is_leaf and node.op != "read":
        return None
    attrs: dict[str, Any] = dict(node.attrs)
    waiting, operands, port = list(specs), [], 0
    while waiting or port_name(op, port) in attrs:
        name = port_name(op, port)
        operands.append(attrs.pop(name) if name in attrs else waiting.pop(0))
        port += 1
    port_count, operand_count = len(op.ports), len(operands)
    optional = {"weight", "bias"} if op.family == "norm" else {"bias"}
    if not op.variadic and (
        operand_count > port_count or not optional.issuperset(op.ports[operand_count:])
    ):
        raise ShapeError(f"{op.name} takes {port_count} inputs, not {operand_count}")
    try:
        result = op.infer(tuple(operands), attrs)
    except ShapeError as error:
        if "depends on" in error.message:
            return None
        raise
    return result if isinstance(result, tuple) else (result,)
