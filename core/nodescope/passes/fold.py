"""Fold: expressions of constants are computed at compile time.

Invariant: the op's own impl computes them; operations that raise or warn are left to run time.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nodescope import ops
from nodescope.errors import NodescopeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Graph, Node, TensorSpec
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.op import Array
from nodescope.passes import Rule, graph_pass
from nodescope.passes.cost import nbytes
from nodescope.passes.draft import Draft
from nodescope.passes.layouts import Layouts, layouts_of

_LEFT: Final = frozenset(["leaf", "control", "kernel", "update"])
_WARNING: Final = frozenset(["var", "std", "nanargmax", "nanargmin", "lstsq", "broadcast_to"])
"""Ops that warn through `warnings`, which other threads would notice, and ops whose folding would
only enlarge the graph.
"""
_SMALL: Final = 4096
"""Bytes up to which a constant-filled array is folded."""


@graph_pass(
    "fold",
    stage=20,
    help="compute at compile time what depends only on constants",
    again=True,
    rules=(
        Rule("constant", "an op whose operands are constants"),
        Rule("like", "zeros_like and ones_like, whose operand's elements do not matter"),
    ),
)
def fold(draft: Draft) -> None:
    """Fold in order, so that chains of constants fold in one pass."""
    layouts = layouts_of(draft)
    for node in draft:
        if node.op in ("zeros_like", "ones_like"):
            _like(draft, layouts, node)
        elif _constant(draft, node):
            _fold(draft, node)


def _constant(draft: Draft, node: Node) -> bool:
    if not node.outputs or node.control_inputs or not all(
        draft.array(value) is not None for value in node.inputs
    ):  # fmt: skip
        return False
    if ops.get(node.op).family in _LEFT or node.op in _WARNING:
        return False
    if any(isinstance(value, Graph) for value in node.attrs.values()):
        return False
    most: int = draft.options.fold_bytes
    operand_specs = [draft.spec(value) for value in node.inputs]
    result_specs = [draft.spec(value) for value in node.outputs]
    if any(not math.prod(spec.shape) for spec in operand_specs):
        return False
    return sum(map(nbytes, result_specs)) <= most and sum(map(nbytes, operand_specs)) <= 8 * most


def _fold(draft: Draft, node: Node) -> None:
    call = call_of(node)
    args: list[Any] = [
        argument.value if isinstance(argument, Scalar) else draft.array(argument)
        for argument in call.args
    ]
    try:
        # The program must see floating-point warnings at run time, as without nodescope, so an op
        # that would warn is not folded.
        with np.errstate(divide="raise", over="raise", invalid="raise", under="ignore"):
            results = call.op.impl(*args, **call.attrs)
    except (ArithmeticError, ValueError, TypeError, IndexError, NodescopeError):
        return
    arrays = [
        np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))
    ]
    specs = [TensorSpec(array.shape, array.dtype.name) for array in arrays]
    if specs != [draft.spec(value) for value in node.outputs]:
        return
    if draft.inside and not all(array.flags.c_contiguous for array in arrays):
        return  # the constant would be stored in C order, and products with it round differently
    _stand_for(draft, "constant", node, arrays)


def _stand_for(draft: Draft, rule: str, node: Node, arrays: list[Array]) -> None:
    values = [draft.constant(_frozen(array), like=node, label=node.op) for array in arrays]
    after = [draft.producer(value) for value in values]
    draft.rewrite(
        rule, "folded", [node], [producer for producer in after if producer is not None],
        dict(zip(node.outputs, values, strict=True)),
    )  # fmt: skip


def _frozen(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _like(draft: Draft, layouts: Layouts, node: Node) -> None:
    spec, out = draft.spec(node.outputs[0]), node.outputs[0]
    if node.control_inputs:
        return
    number = np.full((), node.op == "ones_like", as_dtype(spec.dtype))
    if nbytes(spec) <= min(_SMALL, draft.options.fold_bytes):
        if layouts.harmless(out, "rows"):
            _stand_for(draft, "like", node, [np.full(spec.shape, number)])
        return
    if not layouts.harmless(out, "stretched") or not draft.users(out):
        return
    leaf = draft.constant(_frozen(number), like=node, label="number")
    broadcast = draft.add("broadcast_to", [leaf], {"shape": spec.shape}, like=node)
    draft.rewrite("like", "folded", [node], [broadcast], {out: broadcast.outputs[0]})
