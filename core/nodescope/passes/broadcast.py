"""Broadcast: compute on small arrays before broadcasting them, not after.

Invariant: only ops that round each element once, independent of its position, are moved, and only
where the difference between a broadcast and a filled array cannot be observed.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nodescope import ops
from nodescope.ir.graph import Node
from nodescope.ops.calls import Scalar, call_of
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.layouts import EXACT, Layouts, layouts_of
from nodescope.passes.patterns import Operand, call, feeds_weakly, result

_OPS: Final = EXACT - {"copy", "detach", "identity", "keep"}


@graph_pass(
    "broadcast",
    stage=42,
    help="compute on small arrays before broadcasting them",
    again=True,
    rules=(
        Rule("dropped", "f(broadcast_to(x), y) -> f(x, y) where f broadcasts by itself"),
        Rule("sunk", "f(broadcast_to(x)) -> broadcast_to(f(x))"),
        Rule("sum_of_broadcast", "sum(broadcast_to(x)) -> x times how often", exact=False),
    ),
)
def sink_broadcasts(draft: Draft) -> None:
    """Consider each node that takes a broadcast value, in order."""
    if not any(node.op == "broadcast_to" for node in draft):
        return
    layouts = layouts_of(draft)
    for node in draft:
        if node.op == "broadcast_to":
            _twice(draft, node)
        elif any(_source(draft, value, node) is not None for value in node.inputs):
            if node.op == "sum":
                _sum(draft, node)
            elif node.op in _OPS and not node.control_inputs and not _drop(draft, node):
                _sink(draft, layouts, node)


def _source(draft: Draft, value: Operand, user: Node) -> int | None:
    """The source of a broadcast value; None if it is not one."""
    if isinstance(value, Scalar):
        return None
    producer = draft.producer(value)
    if producer is None or producer.op != "broadcast_to" or producer.control_inputs:
        return None
    if (producer.phase == "recompute") != (user.phase == "recompute"):
        return None
    return None if feeds_weakly(draft, producer.inputs) else producer.inputs[0]


def _twice(draft: Draft, node: Node) -> None:
    source = _source(draft, node.inputs[0], node)
    if source is not None and not node.control_inputs:
        now = draft.update(node, inputs=(source,))
        draft.rewrite("dropped", "rewritten", [now], [now])


def _drop(draft: Draft, node: Node) -> bool:
    """Drop the broadcast: NumPy's iterator sees the same strides either way, so that results are
    unchanged.
    """
    if node.op != "where" and not isinstance(ops.get(node.op).impl, np.ufunc):
        return False
    args = call_of(node).args
    small = [_source(draft, argument, node) for argument in args]
    inputs = tuple(
        argument if operand_source is None else operand_source
        for argument, operand_source in zip(args, small, strict=True)
        if isinstance(argument, int)
    )
    shape = np.broadcast_shapes(*(draft.spec(operand).shape for operand in inputs))
    if shape != draft.spec(node.outputs[0]).shape:
        return False  # this operand determined the shape
    now = draft.update(node, inputs=inputs)
    draft.rewrite("dropped", "rewritten", [now], [now])
    return True


def _sink(draft: Draft, layouts: Layouts, node: Node) -> None:
    old = node.outputs[0]
    spec = draft.spec(old)
    args: list[Operand] = []
    for arg in call_of(node).args:
        source = _source(draft, arg, node)
        args.append(arg if source is None else source)
    operands = [
        argument.value if isinstance(argument, Scalar) else draft.spec(argument)
        for argument in args
    ]
    small = result(node.op, operands)
    if small is None or small.dtype != spec.dtype or "complex" in small.dtype:
        return
    rows = all(layouts.of(argument) == "rows" for argument in args if isinstance(argument, int))
    if math.prod(small.shape) >= math.prod(spec.shape):
        return
    if not layouts.harmless(old, "stretched" if rows else "any"):
        return
    broadcast_over = call(draft, node.op, args, node)
    last = draft.add("broadcast_to", [broadcast_over.outputs[0]], {"shape": spec.shape}, like=node)
    draft.rewrite("sunk", "rewritten", [node], [broadcast_over, last], {old: last.outputs[0]})


def _sum(draft: Draft, node: Node) -> None:
    source = _source(draft, node.inputs[0], node)
    if source is None or not draft.options.allows("sum_of_broadcast"):
        return
    wide, out = draft.spec(node.inputs[0]), draft.spec(node.outputs[0])
    if node.attrs["axis"] is not None or wide.dtype != out.dtype or node.attrs["keepdims"]:
        return
    size = math.prod(draft.spec(source).shape)
    if not size:
        return
    total = draft.add("sum", [source], {"axis": None, "keepdims": False}, like=node)
    times = math.prod(wide.shape) // size
    number = float(times) if wide.dtype.startswith("float") else times
    product = call(draft, "multiply", [total.outputs[0], Scalar(number)], node)
    draft.rewrite(
        "sum_of_broadcast", "rewritten", [node], [total, product],
        {node.outputs[0]: product.outputs[0]},
    )  # fmt: skip
