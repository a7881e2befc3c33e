"""Bodies: the functions of branches and loops, as graphs.

A body is closed: what its function takes from around it (parameters, constants, values of the graph
around) is captured and becomes inputs behind the given ones, so that the node can hand it in.

Invariant: building a body changes nothing around it.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from nodescope.engine import modes
from nodescope.engine.abstract import Abstract
from nodescope.engine.building import Builder
from nodescope.engine.execution.plan import Plan
from nodescope.engine.execution.replay import replay
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, make, operand, spec_of
from nodescope.engine.trees import Structure, Tree, difference, flatten, unflatten
from nodescope.errors import TraceError, UsageError
from nodescope.ir.graph import Graph, Node, TensorSpec
from nodescope.ops import register
from nodescope.ops.lowprecision import as_dtype
from nodescope.ops.op import Array, Op


@dataclass
class Body:
    """A traced function.

    Attributes:
        builder: What recorded it.
        inputs: Value ids of the given inputs.
        outputs: Value ids of the results.
        structure: The form of what the function returned.
        captures: Tensors taken from around, in the order of the inputs behind the given ones.
        writes: Captured tensors that were assigned to, with their new values' ids.
    """

    builder: Builder
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    structure: Structure
    writes: list[tuple[Tensor, int]] = field(default_factory=list)

    @property
    def captures(self) -> list[Tensor]:
        """Tensors taken from around, in order."""
        return [tensor for tensor, _ in self.builder.captures]

    def spec(self, value: int) -> TensorSpec:
        """The spec of a value of the body."""
        return self.builder.values[value - 1].spec

    def graph(self, captures: Sequence[Tensor], outputs: Sequence[int]) -> Graph:
        """The body with these captures as inputs behind the given ones; it may not use them all."""
        known = {id(tensor): value for tensor, value in self.builder.captures}
        with modes.building(self.builder):
            behind = tuple(
                known.get(id(each))
                or cast_value(self.builder.placeholder(spec_of(each), "unused").data)
                for each in captures
            )
        return msgspec.structs.replace(self.builder.finish(outputs), inputs=(*self.inputs, *behind))


def cast_value(data: Any) -> int:
    """The value id of an abstract array."""
    assert isinstance(data, Abstract)
    return data.value


def trace(what: str, function: Callable[..., Any], given: Sequence[Any]) -> Body:
    """Record ``function(*given)``, where the leaves of ``given`` are tensors of the graph around.

    Raises:
        TraceError: It calls `Tensor.backward`, or returns what is no tensor.
    """
    around = modes.builder()
    builder = Builder("static", parent=around)
    with modes.building(builder):
        trees = []
        inputs: list[int] = []
        for tree in given:
            leaves, structure = flatten(tree)
            fresh = [builder.placeholder(spec_of(tensor_of(each)), "argument") for each in leaves]
            inputs.extend(cast_value(each.data) for each in fresh)
            trees.append(unflatten(structure, fresh))
        result = function(*trees)
        leaves, structure = flatten(result)
        outputs = tuple(builder.value_of(tensor_of(each, what)) for each in leaves)
        if builder.hosts:
            raise UsageError(
                f"{what}: an optimizer's step inside a branch or loop body is not supported",
                source=where(),
                hint="step outside of it, with gradients that the body returns",
            )
        if builder.grads:
            raise UsageError(
                f"{what}: backward() inside a branch or loop body writes .grad outside of it",
                source=where(),
                hint="return gradients from the body instead, as with nodescope.grad",
            )
    return Body(builder, tuple(inputs), outputs, structure, builder.writes)


def graph_of(function: Callable[..., Tree], *arrays: Array) -> Graph:
    """A function of arrays as a body; it takes nothing from around."""
    with modes.building(Builder("static")):
        body = trace("graph_of", function, [make(each) for each in arrays])
        return body.graph((), body.outputs)


def tensor_of(value: Any, what: str = "") -> Tensor:
    """A leaf as a tensor; numbers become constants.

    Raises:
        TraceError: It is no number.
    """
    if value.__class__ is Tensor:
        return value
    found = operand(value)
    if found is None:
        raise TraceError(
            f"{what}: {type(value).__name__} is not a tensor or number",
            source=where(),
            hint="pass and return trees of tensors",
        )
    if isinstance(found, Tensor):
        return found
    return make(np.asarray(found), kind="constant")


def check_same(what: str, before: Sequence[Any], after: Sequence[Any], form: Structure) -> None:
    """Refuse a carry whose shapes or dtypes change.

    Raises:
        TraceError: They do; the message names the leaf.
    """
    for path, one, other in zip(form.paths("carry"), before, after, strict=True):
        if one != other:
            raise TraceError(
                f"{what}: {path} is {one} before and {other} after",
                source=where(),
                hint="make the body return what it was given, as with .astype or np.broadcast_to",
            )


def check_form(what: str, one: Structure, other: Structure, names: str) -> None:
    """Refuse results of different form. Raises `TraceError`."""
    if one != other:
        raise TraceError(
            f"{what}: {names} have different forms: {difference(one, other)}", source=where()
        )


# Running bodies

_plans: OrderedDict[int, tuple[Graph, Plan]] = OrderedDict()
_MOST = 256


def plan_of(graph: Graph) -> Plan:
    """The graph's plan, made once."""
    found = _plans.get(id(graph))
    if found is None:
        found = _plans[id(graph)] = (graph, Plan(graph, constants_of(graph)))
        while len(_plans) > _MOST:
            _plans.popitem(last=False)
    return found[1]


def run_body(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """A body's outputs."""
    return plan_of(graph).run(arrays)


def evaluate(graph: Graph, tensors: Sequence[Any]) -> list[Tensor]:
    """A body run node by node, each operation on its own."""
    return replay(graph, tensors, constants_of(graph))


# Constants. A body that is traced takes them from the graph around; only rules of ops make some.


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


def constants_of(graph: Graph) -> dict[int, Array]:
    """Arrays of a body's constants by value id."""
    if not graph.constants:
        return {}
    specs = {each.id: each.spec for each in graph.values}
    found = {}
    for node in graph.nodes:
        if node.op == "constant":
            spec = specs[node.outputs[0]]
            elements = base64.b64decode(node.attrs["elements"])
            flat = np.frombuffer(elements, as_dtype(spec.dtype))
            found[node.outputs[0]] = flat.reshape(spec.shape)
    return found


def control_op(name: str, **fields: Any) -> Op:
    """Register an op that holds bodies: any number of inputs and outputs, one rule for all."""
    made = Op(name=name, family="control", variadic=True, joint=True, outputs=0, **fields)
    return register(made)
