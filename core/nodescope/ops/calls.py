"""Calls: a node's inputs and attributes in the form of its op's operands.

Invariant: a call depends only on the node, and is cached because it is needed often; no op is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodescope import ops
from nodescope.ir.graph import Node
from nodescope.ops.op import Op, port_name


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python scalar operand."""

    value: Any


@dataclass(frozen=True, slots=True)
class Call:
    """One node, prepared to run.

    Attributes:
        op: Its op.
        args: A value id per input port, or a `Scalar` for a Python scalar.
        attrs: The op's own attributes.
        drop: Values that are no longer needed afterwards.
    """

    node: Node
    op: Op
    args: tuple[int | Scalar, ...]
    attrs: dict[str, Any]
    drop: tuple[int, ...] = ()


_MOST = 8192
_known: dict[int, Call] = {}  # by id of the node, which the call keeps alive


def call_of(node: Node) -> Call:
    """Split a node's attributes into scalar operands and the op's own."""
    call = _known.get(id(node))
    if call is None:
        if len(_known) >= _MOST:
            _known.clear()
        call = _known[id(node)] = _split(node)
    return call


def _split(node: Node) -> Call:
    op = ops.get(node.op)
    attrs = dict(node.attrs)
    args: list[int | Scalar] = []
    waiting = list(node.inputs)
    port = 0
    while waiting or port_name(op, port) in attrs:
        name = port_name(op, port)
        args.append(Scalar(attrs.pop(name)) if name in attrs else waiting.pop(0))
        port += 1
    return Call(node, op, tuple(args), attrs)
