"""Plan: a graph prepared to run node after node.

Invariant: the same impls on the same arrays in the same order as eager execution, so that results
are bit-equal; an array is released after its last use.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.ir.graph import GIVEN, Graph, Node
from nodescope.ops.calls import Call, Scalar, call_of
from nodescope.ops.op import Array

_ndarray = np.ndarray
_array = np.asarray


class Plan:
    """The part of a graph that must run for some outputs, in order.

    Args:
        graph: Nodes in topological order.
        constants: Arrays of the graph's constants by value id.
        outputs: Value ids wanted; the graph's own if None. Only their dependencies are run.
        fed: Value ids to be fed, whose producers need not run; the graph's inputs if None.
        also: Ids of further nodes to run.
    """

    def __init__(
        self,
        graph: Graph,
        constants: Mapping[int, Array],
        outputs: Sequence[int] | None = None,
        fed: Sequence[int] | None = None,
        also: Sequence[int] = (),
    ) -> None:
        self.graph = graph
        self.outputs = tuple(graph.outputs if outputs is None else outputs)
        self.fed = tuple(graph.inputs if fed is None else fed)
        self.nodes = needed(graph, self.outputs, self.fed, also)
        self.constants = {
            value: constants[value]
            for node in self.nodes
            if node.op == "constant"
            for value in node.outputs
        }
        calls = [call_of(node) for node in self.nodes if node.op not in GIVEN]
        last: dict[int, int] = {}
        for index, call in enumerate(calls):
            for value in (*call.args, *call.node.outputs):
                if isinstance(value, int):
                    last[value] = index
        kept = {*self.outputs, *self.constants}
        ends: dict[int, list[int]] = {}
        for value, index in last.items():
            if value not in kept:
                ends.setdefault(index, []).append(value)
        self.calls = tuple(
            Call(call.node, call.op, call.args, call.attrs, tuple(ends.get(index, ())))
            for index, call in enumerate(calls)
        )

    @functools.cached_property
    def _steps(self) -> list[tuple[Any, ...]]:
        return [self._step(call) for call in self.calls]

    @functools.cached_property
    def by_id(self) -> dict[int, Node]:
        """The graph's nodes by id."""
        return {node.id: node for node in self.graph.nodes}

    @functools.cached_property
    def _producers(self) -> dict[int, Node]:
        return {value: node for node in self.graph.nodes for value in node.outputs}

    def producer(self, value: int) -> Node | None:
        """The node that produces a value, if any."""
        return self._producers.get(value)

    def _step(self, call: Call) -> tuple[Any, ...]:
        args = [argument if isinstance(argument, int) else None for argument in call.args]
        scalars = [
            argument.value if isinstance(argument, Scalar) else None for argument in call.args
        ]
        plain = all(argument is not None for argument in args)
        return (call.op.impl, tuple(args), None if plain else tuple(scalars), call.attrs,
                call.node.outputs, call.drop)  # fmt: skip

    def run(self, feeds: Sequence[Array]) -> list[Array]:
        """Run the plan; return the outputs.

        Args:
            feeds: An array for each of ``fed``, in order, of the right shape and dtype.
        """
        values: dict[int, Any] = dict(self.constants)
        values.update(zip(self.fed, feeds, strict=True))
        for impl, args, scalars, attrs, outputs, drop in self._steps:
            if scalars is None:
                operands = [values[argument] for argument in args]
            else:
                operands = [
                    scalar if argument is None else values[argument]
                    for argument, scalar in zip(args, scalars, strict=True)
                ]
            data = impl(*operands, **attrs) if attrs else impl(*operands)
            if data.__class__ is tuple:
                values.update(zip(outputs, map(_array, data), strict=True))
            else:
                values[outputs[0]] = data if data.__class__ is _ndarray else _array(data)
            for value in drop:
                del values[value]
        return [values[value] for value in self.outputs]


def needed(
    graph: Graph, outputs: Sequence[int], fed: Sequence[int], also: Sequence[int] = ()
) -> tuple[Node, ...]:
    """The nodes that must run for the outputs, in order, without the producers of fed values."""
    known = set(fed)
    needed = {output for output in outputs if output not in known}
    waited = set(also)
    needed_nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if node.id in waited or not needed.isdisjoint(node.outputs):
            needed_nodes.append(node)
            needed.update(value for value in node.inputs if value not in known)
            waited.update(node.control_inputs)
    return tuple(reversed(needed_nodes))
