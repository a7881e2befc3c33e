"""The derivatives of bodies, as bodies.

Invariant: they compute what the tape would, rule by rule in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.tape import TRACED, pull_many
from nodescope.engine.building import Builder
from nodescope.engine.control.body import cast_value, evaluate, finished
from nodescope.engine.tensor import SMOOTH, Tensor, spec_of
from nodescope.ir.graph import Graph


@dataclass(frozen=True)
class Pullback:
    """The derivative of a body, split in two.

    Attributes:
        forward: The body again, with other ids.
        handed: Values of ``forward``, including inputs, that the backward part needs.
        backward: Maps those, followed by the cotangents of the smooth outputs, to the cotangents of
            the reached inputs.
        reached: Positions of the inputs that get a cotangent.
        smooth: Positions of the outputs that have one.
    """

    forward: Graph
    handed: tuple[int, ...]
    backward: Graph
    reached: tuple[int, ...]
    smooth: tuple[int, ...]


@dataclass(frozen=True)
class Cotangents:
    """A body's derivative in one graph, which maps its inputs, followed by the cotangents of its
    smooth outputs, to the cotangents of the reached inputs.
    """

    graph: Graph
    reached: tuple[int, ...]
    smooth: tuple[int, ...]


class _Recorded:
    """A body and its rules, recorded in ``builder``, which must be the thread's current one."""

    def __init__(self, builder: Builder, graph: Graph, requested: Sequence[bool]) -> None:
        specs = {value.id: value.tensor for value in graph.values}
        self.inputs = [
            builder.placeholder(specs[value], "argument", grad=want)
            for value, want in zip(graph.inputs, requested, strict=True)
        ]
        self.outputs = evaluate(graph, self.inputs)
        self.smooth = tuple(i for i, value in enumerate(self.outputs) if value.dtype.kind in SMOOTH)
        # Before the border: a value returned unchanged, such as a constant, belongs to the body.
        self.ends = [builder.value_of(value) for value in self.outputs]
        self.border = len(builder.nodes)
        roots = [self.outputs[i] for i in self.smooth]
        self.cts = [builder.placeholder(spec_of(root), "cotangent") for root in roots]
        self.gradients = pull_many(
            roots, self.cts, traced=True, create_graph=False, keep=True, conjugate=False
        )
        self.reached = tuple(
            i for i, value in enumerate(self.inputs) if id(value) in self.gradients
        )

    def cotangent(self, i: int) -> Tensor:
        """The cotangent of an input; zeros if none arrived."""
        key = id(self.inputs[i])
        if key in self.gradients:
            return self.gradients[key][1]  # type: ignore[no-any-return]
        return TRACED.zeros_like(self.inputs[i])  # type: ignore[no-any-return]


def pullback(graph: Graph, requested: Sequence[bool]) -> Pullback:
    """Differentiate a body with respect to the requested inputs.

    Body and rules are recorded in one graph, which is then split between them.
    """
    builder = Builder("static")
    with dispatch_mode.building(builder):
        both = _Recorded(builder, graph, requested)
        results = [builder.value_of(both.cotangent(i)) for i in both.reached]
    whole = finished(builder, results)
    ahead, behind = whole.nodes[: both.border], whole.nodes[both.border :]
    ours = {value for node in ahead for value in node.outputs}
    used = {value for node in behind for value in node.inputs} | set(results)
    handed = tuple(sorted(used & ours))
    forward = msgspec.structs.replace(
        whole,
        inputs=tuple(_ids(both.inputs)),
        outputs=tuple(both.ends),
        nodes=ahead,
        values=tuple(value for value in whole.values if value.id in ours),
        constants=tuple(constant for constant in whole.constants if constant in ours),
    )
    backward = msgspec.structs.replace(
        whole,
        inputs=(*handed, *_ids(both.cts)),
        nodes=behind,
        constants=tuple(constant for constant in whole.constants if constant not in ours),
    )
    return Pullback(forward, handed, backward, both.reached, both.smooth)


def cotangents(
    graph: Graph, requested: Sequence[bool], reached: tuple[int, ...] | None = None
) -> Cotangents:
    """Differentiate a body with respect to the requested inputs, recomputing it.

    Args:
        graph: The body.
        requested: For each input, whether its cotangent is requested.
        reached: Inputs whose cotangents are returned, zeros where none arrives; if None, those
            where one arrives.
    """
    builder = Builder("static")
    with dispatch_mode.building(builder):
        both = _Recorded(builder, graph, requested)
        reached = both.reached if reached is None else reached
        results = [builder.value_of(both.cotangent(i)) for i in reached]
    return Cotangents(finished(builder, results), reached, both.smooth)


def _ids(tensors: Sequence[Any]) -> list[int]:
    return [cast_value(tensor.data) for tensor in tensors]
