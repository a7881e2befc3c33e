"""Bodies: the functions of branches and loops, as graphs.

A body is closed: values that its function takes from outside (parameters, constants, values of the
enclosing graph) are captured and become inputs after the given ones, so that the node can pass them
in.

Invariant: building a body changes nothing around it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.building import Builder
from nodescope.engine.execution.node_by_node import replay
from nodescope.engine.source import where
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import Tensor, make, operand, spec_of
from nodescope.engine.trees import Structure, Tree, difference, flatten, unflatten
from nodescope.errors import TraceError, UsageError
from nodescope.ir.graph import Graph, Node, TensorSpec
from nodescope.ops.control import constants_of
from nodescope.ops.op import Array


@dataclass
class TracedBody:
    """A traced function.

    Attributes:
        builder: The builder that recorded it.
        inputs: Value ids of the given inputs.
        outputs: Value ids of the results.
        structure: The structure of the function's result.
        captures: Tensors taken from outside, in the order of the inputs after the given ones.
        writes: Captured tensors that were assigned to, with their new values' ids.
    """

    builder: Builder
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    structure: Structure
    writes: list[tuple[Tensor, int]] = field(default_factory=list)

    @property
    def captures(self) -> list[Tensor]:
        """Tensors taken from outside, in order."""
        return [tensor for tensor, _ in self.builder.captures]

    def spec(self, value: int) -> TensorSpec:
        """The spec of a value of the body."""
        return self.builder.values[value - 1].tensor

    def graph(self, captures: Sequence[Tensor], outputs: Sequence[int]) -> Graph:
        """The body with these captures as inputs after the given ones; it need not use them all."""
        known = {id(tensor): value for tensor, value in self.builder.captures}
        with dispatch_mode.building(self.builder):
            behind = tuple(
                known.get(id(capture))
                or cast_value(self.builder.placeholder(spec_of(capture), "unused").data)
                for capture in captures
            )
        return msgspec.structs.replace(self.builder.finish(outputs), inputs=(*self.inputs, *behind))


def cast_value(data: Any) -> int:
    """The value id of an abstract array."""
    assert isinstance(data, Abstract)
    return data.value


def trace(subject: str, function: Callable[..., Any], operand_trees: Sequence[Any]) -> TracedBody:
    """Record ``function(*given)``, where the leaves of ``given`` are tensors of the enclosing
    graph.

    Raises:
        TraceError: The function calls `Tensor.backward`, or returns something that is not a tensor.
    """
    around = dispatch_mode.builder()
    builder = Builder("static", parent=around)
    with dispatch_mode.building(builder):
        trees = []
        inputs: list[int] = []
        for tree in operand_trees:
            leaves, structure = flatten(tree)
            fresh = [builder.placeholder(spec_of(tensor_of(leaf)), "argument") for leaf in leaves]
            inputs.extend(cast_value(tensor.data) for tensor in fresh)
            trees.append(unflatten(structure, fresh))
        result = function(*trees)
        leaves, structure = flatten(result)
        outputs = tuple(builder.value_of(tensor_of(leaf, subject)) for leaf in leaves)
        if builder.hosts:
            raise UsageError(
                f"{subject}: an optimizer's step inside a branch or loop body is not supported",
                source=where(),
                hint="step outside of it, with gradients that the body returns",
            )
        if builder.grads:
            raise UsageError(
                f"{subject}: backward() inside a branch or loop body writes .grad outside of it",
                source=where(),
                hint="return gradients from the body instead, as with nodescope.grad",
            )
    return TracedBody(builder, tuple(inputs), outputs, structure, builder.writes)


def graph_of(function: Callable[..., Tree], *arrays: Array) -> Graph:
    """A function of arrays as a body; it captures nothing."""
    with dispatch_mode.building(Builder("static")):
        body = trace("graph_of", function, [make(array) for array in arrays])
        return body.graph((), body.outputs)


def tensor_of(value: Any, subject: str = "") -> Tensor:
    """A leaf as a tensor; numbers become constants.

    Raises:
        TraceError: The leaf is not a number.
    """
    if value.__class__ is Tensor:
        return value
    tensor = operand(value)
    if tensor is None:
        raise TraceError(
            f"{subject}: {type(value).__name__} is not a tensor or number",
            source=where(),
            hint="pass and return trees of tensors",
        )
    if isinstance(tensor, Tensor):
        return tensor
    return make(np.asarray(tensor), kind="constant")


def check_same(subject: str, before: Sequence[Any], after: Sequence[Any], form: Structure) -> None:
    """Refuse a carry whose shapes or dtypes change.

    Raises:
        TraceError: The carry changes; the message names the leaf.
    """
    for path, first, other in zip(form.paths("carry"), before, after, strict=True):
        if first != other:
            raise TraceError(
                f"{subject}: {path} is {first} before and {other} after",
                source=where(),
                hint="return the same shape and dtype, as with .astype or np.broadcast_to",
            )


def check_form(subject: str, first: Structure, other: Structure, names: str) -> None:
    """Refuse results of different structure. Raises `TraceError`."""
    if first != other:
        raise TraceError(
            f"{subject}: {names} have different structures: {difference(first, other)}",
            source=where(),
        )


# Running bodies


def evaluate(graph: Graph, tensors: Sequence[Any]) -> list[Tensor]:
    """Run a body node by node, each operation separately."""
    return replay(graph, tensors, constants_of(graph))


# Constants. A traced body takes them from the enclosing graph; only ops' rules create them.


def finished(builder: Builder, outputs: Sequence[int]) -> Graph:
    """The graph of a builder, with the elements of its constants in their nodes' attributes."""
    graph = builder.finish(outputs)
    if not builder.arrays:
        return graph
    return msgspec.structs.replace(
        graph, nodes=tuple(_with_elements(builder, n) for n in graph.nodes)
    )


def _with_elements(builder: Builder, node: Node) -> Node:
    if node.op != "constant":
        return node
    array = builder.arrays[node.outputs[0]]
    elements = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return msgspec.structs.replace(node, attrs={"elements": elements})
