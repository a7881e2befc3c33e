"""The op ``fused``: several nodes that run as one kernel.

Its attribute ``body`` is a closed graph whose inputs and outputs correspond by position to those of
the node; its nodes keep the ids and names that they had outside. ``pattern`` names their common
structure.

Invariant: the op computes the same as its body's nodes one by one; a back end may only be faster,
within its stated bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.graph import Graph, Node, TensorSpec, Value
from nodescope.ops import register
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.op import Array, Op, Operand, Sample

Seen = Callable[[int, Array], None]


def run_body(body: Graph, arrays: tuple[Any, ...], seen: Seen | None = None) -> tuple[Array, ...]:
    """The outputs of a kernel's nodes, run one by one.

    Args:
        body: The kernel's graph.
        arrays: One for each of its inputs.
        seen: Called with value id and array of each computed value.
    """
    values: dict[int, Any] = dict(zip(body.inputs, arrays, strict=True))
    for impl, args, attrs, outputs in _steps(_Identity(body)):
        operands = [
            argument.value if isinstance(argument, Scalar) else values[argument]
            for argument in args
        ]
        data = impl(*operands, **attrs)
        results = data if data.__class__ is tuple else (data,)
        for value, result in zip(outputs, results, strict=True):
            values[value] = array = np.asarray(result)
            if seen is not None:
                seen(value, array)
    return tuple(values[value] for value in body.outputs)


class _Identity:
    """A graph as a key, by identity, because it contains dicts."""

    __slots__ = ("graph",)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __hash__(self) -> int:
        return id(self.graph)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.graph is self.graph


@lru_cache(maxsize=4096)
def _steps(body: _Identity) -> tuple[tuple[Any, tuple[int | Scalar, ...], Any, Any], ...]:
    calls = map(call_of, body.graph.nodes)
    return tuple((call.op.impl, call.args, call.attrs, call.node.outputs) for call in calls)


def _infer(specs: tuple[Operand, ...], attrs: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    body: Graph = attrs["body"]
    known = {value.id: value.tensor for value in body.values}
    for input_spec, value in zip(specs, body.inputs, strict=True):
        if input_spec != known[value]:
            raise ShapeError(
                f"fused: the kernel takes {known[value]} as %{value}, not {input_spec}"
            )
    return tuple(known[value] for value in body.outputs)


def _impl(*arrays: Any, body: Graph, pattern: str) -> tuple[Array, ...]:
    return run_body(body, arrays)


def _samples(rng: np.random.Generator) -> list[Sample]:
    """Samples with two of three values as outputs, with a Python scalar, and with broadcasting."""
    specs = [((3, 4), "x"), ((4,), "y"), ((3, 4), "add"), ((3, 4), "tanh"), ((3, 4), "multiply")]
    body = Graph(
        id=0,
        kind="static",
        inputs=(1, 2),
        outputs=(5, 4),
        nodes=(
            Node(1, "add", "add", "elementwise", (1, 2), outputs=(3,)),
            Node(2, "tanh", "tanh", "activation", (3,), outputs=(4,)),
            Node(3, "multiply", "multiply", "elementwise", (4,), outputs=(5,), attrs={"x2": 0.5}),
        ),
        values=tuple(
            Value(i + 1, TensorSpec(shape, "float64"), name)
            for i, (shape, name) in enumerate(specs)
        ),
    )
    operands = (rng.standard_normal((3, 4)), rng.standard_normal(4))
    return [Sample(operands, {"body": body, "pattern": "elementwise"})]


register(
    Op(
        name="fused",
        family="kernel",
        infer=_infer,
        impl=_impl,
        variadic=True,
        outputs=0,
        samples=_samples,
    )
)
