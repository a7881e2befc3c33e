"""Reshape: views of views become one view, or none.

Invariant: the memory layout stays the same wherever it can be observed.
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
from nodescope.passes.layouts import EXACT, Layouts, layouts_of, order_of
from nodescope.passes.patterns import call, feeds_weakly

_SHAPING: Final = frozenset(["reshape", "squeeze", "expand_dims"])


@graph_pass(
    "reshape",
    stage=40,
    help="replace several views by one, or none",
    again=True,
    rules=(
        Rule("same_order", "transpose that changes no order -> its operand"),
        Rule("two_orders", "transpose of transpose -> one, or none"),
        Rule("same_shape", "reshape to the shape that it has -> its operand"),
        Rule("two_shapes", "reshape, squeeze, expand_dims of such -> one reshape, or none"),
        Rule("order_and_back", "transpose(f(transpose(x))) -> f(x), or f(x) transposed once"),
    ),
)
def clean_views(draft: Draft) -> None:
    """Consider each view, in order."""
    layouts = layouts_of(draft)
    for node in draft:
        if node.op not in _SHAPING and node.op != "transpose":
            continue
        if node.control_inputs or feeds_weakly(draft, node.inputs):
            continue
        if node.op == "transpose":
            _transpose(draft, layouts, node)
        else:
            _shape(draft, layouts, node)


def _stand(draft: Draft, rule: str, node: Node, value: int) -> None:
    producer = draft.producer(value)
    after = [producer] if producer is not None else []
    draft.rewrite(rule, "eliminated", [node], after, {node.outputs[0]: value})


def _before(draft: Draft, node: Node) -> Node | None:
    """The producer of a node's operand, unless it is recomputed to save memory."""
    before = draft.producer(node.inputs[0])
    if before is None or (before.phase == "recompute") != (node.phase == "recompute"):
        return None
    return before


def _transpose(draft: Draft, layouts: Layouts, node: Node) -> None:
    x = node.inputs[0]
    ndim = len(draft.spec(x).shape)
    order = order_of(node, ndim)
    if order == tuple(range(ndim)):
        _stand(draft, "same_order", node, x)
        return
    before = _before(draft, node)
    if before is None:
        return
    if before.op == "transpose":
        inner = order_of(before, ndim)
        both = tuple(inner[axis] for axis in order)
        if both == tuple(range(ndim)):
            _stand(draft, "two_orders", node, before.inputs[0])
        else:
            now = draft.update(node, inputs=(before.inputs[0],), attrs={"axes": both})
            draft.rewrite("two_orders", "rewritten", [now], [now])
    elif draft.only_user(x) is not None:
        _through(draft, layouts, node, before, order)


def _through(
    draft: Draft, layouts: Layouts, node: Node, before: Node, order: tuple[int, ...]
) -> None:
    """``transpose(f(transpose(x), transpose(y)))``, if everything transposed is in row order."""
    if before.op not in EXACT or not isinstance(ops.get(before.op).impl, np.ufunc):
        return
    if before.control_inputs or draft.waiting(before.id):
        return
    shape, ndim = draft.spec(before.outputs[0]).shape, len(order)
    args, inner = [], None
    for argument in call_of(before).args:
        if isinstance(argument, Scalar) or not draft.spec(argument).shape:
            args.append(argument)
            continue
        producer = draft.producer(argument)
        if producer is None or producer.op != "transpose" or draft.spec(argument).shape != shape:
            return
        if (producer.phase == "recompute") != (node.phase == "recompute"):
            return
        turned = order_of(producer, ndim)
        if inner not in (None, turned) or layouts.of(producer.inputs[0]) != "rows":
            return
        inner = turned
        args.append(producer.inputs[0])
    if inner is None or feeds_weakly(draft, before.inputs):
        return
    producer = call(draft, before.op, args, before)
    value, after = producer.outputs[0], [producer]
    both = tuple(inner[axis] for axis in order)
    if both != tuple(range(ndim)):
        last = draft.add("transpose", [value], {"axes": both}, like=node)
        value, after = last.outputs[0], [producer, last]
    draft.rewrite("order_and_back", "rewritten", [node, before], after, {node.outputs[0]: value})


def _core(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its sizes of 1."""
    return tuple(n for n in shape if n != 1)


def _shape(draft: Draft, layouts: Layouts, node: Node) -> None:
    x, shape = node.inputs[0], draft.spec(node.outputs[0]).shape
    if draft.spec(x).shape == shape:
        _stand(draft, "same_shape", node, x)
        return
    before = _before(draft, node)
    if before is None or before.op not in _SHAPING:
        return
    source = before.inputs[0]
    if feeds_weakly(draft, (source,)):
        return
    first, middle = draft.spec(source).shape, draft.spec(x).shape
    # Dimensions of size 1 can be added and removed whatever the strides; other reshapes of values
    # not in row order may be copies with another layout.
    free = _core(first) == _core(middle) == _core(shape) and math.prod(shape) > 0
    if not free and layouts.of(source) != "rows":
        return
    if first == shape:
        _stand(draft, "two_shapes", node, source)
        return
    reshaped = draft.add("reshape", [source], {"shape": shape}, like=node)
    draft.rewrite(
        "two_shapes", "rewritten", [node], [reshaped], {node.outputs[0]: reshaped.outputs[0]}
    )
