"""Dependence: the input elements that an element of an output depends on.

`made_from` answers for one element of one call. The kind of an op is its `Op.reads`, or one of its
traits, or follows from its family; the kinds are functions of `nodescope.ops.reading`.

Invariant: uses the op's own ``impl`` and ``vjp``, so that no op is described a second time.
Elements are listed if they matter at these very values: for a maximum, the winner. A list that may
be too long says so (`ElementDependence.exact`); it is never too short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.errors import RegistryError
from nodescope.ir.graph import Graph
from nodescope.ops import get, reading
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.op import Array, Op
from nodescope.ops.reading import ElementDependence, Kind, OutputElement, Read
from nodescope.ops.traits import traits_of

__all__ = ["ElementDependence", "Read", "kind_named", "kind_of", "made_from"]

_BY_FAMILY = {
    "elementwise": "elementwise", "activation": "elementwise", "update": "elementwise",
    "leaf": "elementwise", "layout": "moved", "index": "moved", "reduction": "linear",
    "matmul": "linear", "norm": "smooth", "loss": "smooth", "random": "drawn",
    "control": "everything", "kernel": "body",
}  # fmt: skip

MOST_INSIDE = 20_000
"""The most elements followed inside a body; beyond, all of its inputs are listed."""


def kind_of(op: Op) -> str:
    """The kind of an op: a name of `nodescope.ops.reading.KINDS`, ``body`` or ``branch``."""
    kind = op.reads or traits_of(op.name).reads
    if kind:
        return kind
    return "elementwise" if op.elementwise else _BY_FAMILY.get(op.family, "everything")


def kind_named(op: str) -> str:
    """Like `kind_of`, for a canonical name; ``""`` if there is no such op."""
    try:
        return kind_of(get(op))
    except RegistryError:
        return ""


def made_from(
    op: Op,
    inputs: Sequence[Any],
    attrs: dict[str, Any],
    outputs: Sequence[Array],
    position: int,
    port: int = 0,
) -> ElementDependence:
    """The elements of its inputs that an element of an output depends on.

    Args:
        op: The executed op.
        inputs: Arrays and Python scalars, by port, as ``impl`` takes them.
        attrs: Its attributes.
        outputs: Its results.
        position: The element, in C order.
        port: The output port.
    """
    query = OutputElement(op, tuple(inputs), attrs, tuple(outputs), port, position)
    with np.errstate(all="ignore"):
        kind = kind_of(op)
        if kind == "body":
            return _inside(attrs["body"], query.inputs, 0, query)
        if kind == "branch":
            chosen = attrs["then" if bool(np.asarray(inputs[0])) else "otherwise"]
            branch_dependence = _inside(chosen, query.inputs[1:], 1, query)
            return ElementDependence(
                (Read(0, np.zeros(1, np.int64), True), *branch_dependence.reads),
                branch_dependence.exact,
            )
        return _element_reads(reading.KINDS[kind], query)


def _element_reads(kind: Kind, query: OutputElement) -> ElementDependence:
    try:
        return kind(query)
    except Exception:  # an op whose impl refuses stand-ins is treated as reading everything
        return reading.everything(query)


def _inside(
    body: Graph, arrays: Sequence[Any], first: int, query: OutputElement
) -> ElementDependence:
    """Follow an element through the nodes of a body to the body's inputs."""
    values: dict[int, Any] = dict(zip(body.inputs, arrays, strict=True))
    makers: dict[int, tuple[Any, int]] = {}
    for node in body.nodes:
        call = call_of(node)
        if call.op.is_leaf and not call.args:
            if node.role == "constant":
                return reading.everything(query)
            continue
        operands = [
            argument.value if isinstance(argument, Scalar) else values[argument]
            for argument in call.args
        ]
        data = call.op.impl(*operands, **call.attrs)
        results = data if isinstance(data, tuple) else (data,)
        for i, (value, result) in enumerate(zip(node.outputs, results, strict=True)):
            values[value] = np.asarray(result)
            makers[value] = (call, i)
    needed: dict[int, set[int]] = {body.outputs[query.port]: {query.position}}
    exact, followed = True, 0
    for node in reversed(body.nodes):
        call = call_of(node)
        if not call.args:
            continue
        operands = [
            argument.value if isinstance(argument, Scalar) else values[argument]
            for argument in call.args
        ]
        outs = [values[value] for value in node.outputs]
        for i, value in enumerate(node.outputs):
            for position in sorted(needed.pop(value, ())):
                followed += 1
                if followed > MOST_INSIDE:
                    return reading.everything(query)
                dependence = made_from(call.op, operands, call.attrs, outs, position, i)
                exact = exact and dependence.exact
                for read in dependence.reads:
                    source = call.args[read.port]
                    if not isinstance(source, Scalar):
                        needed.setdefault(source, set()).update(read.at.tolist())
    reads = [
        Read(i + first, np.array(sorted(needed[value]), np.int64))
        for i, value in enumerate(body.inputs)
        if needed.get(value)
    ]
    return ElementDependence(tuple(reads), exact)
