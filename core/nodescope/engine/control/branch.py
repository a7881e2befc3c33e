"""cond: runs one of two functions, chosen by a value.

Invariant: in a graph, both branches have the same inputs and outputs; only the chosen one runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.emit.scopes import name_scope
from nodescope.engine import dispatch_mode
from nodescope.engine.control.body import (
    TracedBody,
    check_form,
    evaluate,
    graph_of,
    tensor_of,
    trace,
)
from nodescope.engine.control.derivative import cotangents
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import SMOOTH, Tensor
from nodescope.engine.trees import Tree, flatten, map_leaves, unflatten
from nodescope.errors import ShapeError, TraceError
from nodescope.ir.graph import Graph
from nodescope.ops.control import Rules, give_rules
from nodescope.ops.op import Sample


def cond(
    pred: Any, true_fn: Callable[..., Tree], false_fn: Callable[..., Tree], *operands: Tree
) -> Tree:
    """``true_fn(*operands)`` if ``pred`` is true, else ``false_fn(*operands)``.

    Eagerly, only the chosen function is called. In a graph both are recorded, the chosen one runs,
    and both must return trees of the same structure, shapes and dtypes. The functions may capture
    tensors, and assign to parameters. (As ``jax.lax.cond``.)

    Args:
        pred: A scalar: a boolean, a number, or a tensor.
        true_fn, false_fn: Functions of the operands.
        operands: Trees of tensors.

    Raises:
        ShapeError: ``pred`` is not a scalar.
        TraceError: The branches return different structures, shapes or dtypes.
    """
    if not isinstance(pred, Tensor):
        pred = tensor_of(pred, "cond")
    if pred.ndim:
        raise ShapeError(
            f"cond: the condition must be a scalar, not of shape {pred.shape}",
            source=where(),
            hint="reduce it with .any() or .all(), or choose element by element with np.where",
        )
    if dispatch_mode.builder() is None:
        chosen = bool(pred)
        with name_scope("cond/then" if chosen else "cond/else"):
            result = (true_fn if chosen else false_fn)(*operands)
        return map_leaves(lambda leaf: tensor_of(leaf, "cond"), result)
    return _record(pred, true_fn, false_fn, operands)


def _record(pred: Tensor, true_fn: Any, false_fn: Any, operands: tuple[Tree, ...]) -> Tree:
    yes, no = trace("cond", true_fn, operands), trace("cond", false_fn, operands)
    check_form("cond", yes.structure, no.structure, "the branches' results")
    for path, value, other in zip(
        yes.structure.paths("result"), yes.outputs, no.outputs, strict=True
    ):
        if yes.spec(value) != no.spec(other):
            raise TraceError(
                f"cond: {path} is {yes.spec(value)} in one branch "
                f"and {no.spec(other)} in the other",
                source=where(),
                hint="make the branches agree, as with .astype or np.broadcast_to",
            )
    captures = {id(tensor): tensor for tensor in (*yes.captures, *no.captures)}
    writes = {id(tensor): tensor for tensor, _ in (*yes.writes, *no.writes)}
    captures.update(writes)
    around = list(captures.values())

    def graph(body: TracedBody) -> Graph:
        known = {id(tensor): value for tensor, value in body.writes}
        with dispatch_mode.building(body.builder):
            after = [
                known.get(key) or body.builder.value_of(tensor) for key, tensor in writes.items()
            ]
        return body.graph(around, (*body.outputs, *after))

    leaves = [tensor_of(leaf, "cond") for leaf in flatten(list(operands))[0]]
    results: Any = apply(
        COND, (pred, *leaves, *around), {"then": graph(yes), "otherwise": graph(no)}
    )
    count = len(yes.outputs)
    for target, new in zip(writes.values(), results[count:], strict=True):
        apply(ops.get("assign"), (target, new), {})
    return unflatten(yes.structure, results[:count])


def _inline(inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
    pred, *operands = inputs
    if dispatch_mode.builder() is not None:
        return apply(COND, inputs, attrs)  # type: ignore[return-value]
    chosen = bool(pred)
    with name_scope("cond/then" if chosen else "cond/else"):
        return tuple(evaluate(attrs["then" if chosen else "otherwise"], operands))


def _vjp(
    F: Any, ct: Any, out: Any, pred: Any, *operands: Any, then: Graph, otherwise: Graph
) -> list[Any]:
    smooth = [value.dtype.kind in SMOOTH for value in operands]
    yes, no = cotangents(then, smooth), cotangents(otherwise, smooth)
    reached = tuple(sorted({*yes.reached, *no.reached}))
    if not reached:
        return [None] * (1 + len(operands))
    gradients = F.cond(
        pred,
        *operands,
        *(ct[i] for i in yes.smooth),
        then=yes.graph if yes.reached == reached else cotangents(then, smooth, reached).graph,
        otherwise=no.graph
        if no.reached == reached
        else cotangents(otherwise, smooth, reached).graph,
    )
    cts: list[Any] = [None] * (1 + len(operands))
    for position, gradient in zip(reached, gradients, strict=True):
        cts[1 + position] = gradient
    return cts


def _samples(rng: np.random.Generator) -> list[Sample]:
    x, y = rng.standard_normal((2, 3)), rng.standard_normal(3)
    attrs = {
        "then": graph_of(lambda x, y: (np.tanh(x) * y, x), x, y),
        "otherwise": graph_of(lambda x, y: (x * x, x * 2.0), x, y),
    }
    return [Sample((np.array(flag), x, y), attrs) for flag in (True, False)]


COND = give_rules("cond", Rules(_vjp, _inline, _samples))
