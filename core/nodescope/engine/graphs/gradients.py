"""Gradients in graphs built by hand: nodes that compute and apply them.

Invariant: the nodes are those of the tape's own rules, in the order in which it runs them eagerly.
"""

from __future__ import annotations

from typing import Any

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.backward import start
from nodescope.engine.autodiff.tape import TRACED, pull_many
from nodescope.engine.graphs.api import GraphKeys, building, group, needed
from nodescope.engine.graphs.operation import Operation
from nodescope.engine.losses import began
from nodescope.engine.source import where
from nodescope.engine.tensor import (
    LEAF,
    Tensor,
)
from nodescope.errors import GradientError


def gradients(ys: Any, xs: Any, grad_ys: Any = None) -> list[Tensor | None]:
    """Add nodes that compute the gradients of the sum of ``ys`` with respect to each of ``xs``.

    Args:
        ys: One tensor or several.
        xs: One tensor or several: variables, placeholders, constants or intermediate values.
        grad_ys: Initial gradients, one for each of ``ys``; ones if None.

    Returns:
        A gradient for each of ``xs``; None where ``ys`` do not depend on it.

    Raises:
        GradientError: One of ``ys`` has no gradient.
    """
    graph = needed("gradients")
    outputs = [ys] if isinstance(ys, Tensor) else list(ys)
    inputs = [xs] if isinstance(xs, Tensor) else list(xs)
    starts: list[Any] = [None] * len(outputs)
    if grad_ys is not None:
        starts = [grad_ys] if not isinstance(grad_ys, list | tuple) else list(grad_ys)
    for y in outputs:
        if y.dtype.kind not in "fV":
            raise GradientError(f"gradients: {y.dtype} has no gradient to sum", source=where())
    leaves = {id(operand): operand for operand in inputs if operand.edge is LEAF}
    between = {id(operand): operand for operand in inputs if operand.edge not in (None, LEAF)}
    with dispatch_mode.recording(False), graph.backward() as differentiate:
        cts = []
        for y, seed in zip(outputs, starts, strict=True):
            differentiate(y)
            if seed is None:
                began(y)
            cts.append(TRACED.ones_like(y) if seed is None else start(y, seed, True, "gradients"))
    ends = pull_many(
        outputs, cts, traced=True, create_graph=True, keep=True, targets=leaves, passed=between
    )
    gradients_by_id = {key: ct for key, (_, ct) in ends.items()}
    for value in inputs:
        if id(value) in gradients_by_id:
            graph.pair(value, gradients_by_id[id(value)])
    return [gradients_by_id.get(id(operand)) for operand in inputs]


def minimize(optimizer: Any, loss: Tensor, name: str = "train") -> Operation | None:
    """Compute gradients of ``loss`` and let ``optimizer`` use them.

    Returns:
        In a graph, the operation that does it, which is also in the collection ``TRAIN_OP``.
        Eagerly, None, after the step.
    """
    graph = building()
    if graph is None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return None
    grads = gradients(loss, optimizer.parameters)
    if all(gradient is None for gradient in grads):
        raise GradientError("minimize: the loss does not depend on any of the parameters",
                            source=where())  # fmt: skip
    for parameter_, gradient in zip(optimizer.parameters, grads, strict=True):
        graph.write_grad(parameter_, gradient)
    with graph.updates() as nodes:
        optimizer.step()
    train = group(*(Operation(graph, node) for node in nodes), name=name)
    graph.add_to_collection(GraphKeys.TRAIN_OP, train)
    return train
