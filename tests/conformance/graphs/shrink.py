"""Shrinking a failing case: fewer outputs, and nodes replaced by inputs with their values.

Invariant: a smaller case fails in the same check as the one it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from nodescope.engine.crosscheck.values import every_value
from nodescope.ir.graph import Node
from nodescope.ops.plan import needed
from tests.conformance.graphs.making import Case

_replace = msgspec.structs.replace
_MOST = 400  # attempts


def fails(check: Callable[[Case], object], case: Case) -> Exception | None:
    """The failure that a check reports for a case, if any; the traced case itself must run."""
    try:
        check(case)
    except Exception as error:
        return error
    return None


def smallest(check: Callable[[Case], object], case: Case) -> tuple[Case, Exception]:
    """A small case that fails the same check, and its failure.

    Args:
        check: Raises for the case.
    """
    error = fails(check, case)
    assert error is not None
    attempts = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(case):
            attempts += 1
            if attempts > _MOST:
                return case, error
            result = fails(check, candidate)
            if result is not None:
                case, error, smaller = candidate, result, True
                break
    return case, error


def _candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, the smallest first."""
    outputs = case.graph.outputs
    if len(outputs) > 1:
        for value in outputs:
            yield _only(case, (value,))
        for i in range(len(outputs)):
            yield _only(case, outputs[:i] + outputs[i + 1 :])
    alive = {node.id for node in needed(case.graph, outputs, ())}
    if len(alive) < len(case.graph.nodes):
        yield _only(case, outputs)
        used = {value for node in case.graph.nodes for value in node.inputs} | set(outputs)
        for node in reversed(case.graph.nodes):
            if node.id not in alive and used.isdisjoint(node.outputs):
                yield _without(case, node)
    inner = [node for node in case.graph.nodes if not node.is_leaf]
    for node in reversed(inner):
        if not set(node.outputs) & set(outputs):
            yield _cut(case, node)
    for node in inner:
        for value in node.inputs:
            if value not in (*case.graph.inputs, *outputs):
                yield _only(case, (value,))


def _only(case: Case, outputs: tuple[int, ...]) -> Case:
    """The case with only the nodes that these outputs need."""
    graph = case.graph
    nodes = needed(graph, outputs, ())
    values = {value for node in nodes for value in (*node.inputs, *node.outputs)} | set(outputs)
    fed = [(v, f) for v, f in zip(graph.inputs, case.feeds, strict=True) if v in values]
    arrays = {value: array for value, array in case.arrays.items() if value in values}
    graph = _replace(
        graph,
        inputs=tuple(v for v, _ in fed),
        outputs=outputs,
        nodes=nodes,
        values=tuple(value for value in graph.values if value.id in values),
        constants=tuple(arrays),
    )
    return Case(case.name, graph, arrays, tuple(f for _, f in fed))


def _without(case: Case, removed: Node) -> Case:
    graph = case.graph
    nodes = tuple(
        _replace(n, control_inputs=tuple(c for c in n.control_inputs if c != removed.id))
        for n in graph.nodes if n.id != removed.id
    )  # fmt: skip
    fed = [
        (v, f) for v, f in zip(graph.inputs, case.feeds, strict=True) if v not in removed.outputs
    ]
    arrays = {v: array for v, array in case.arrays.items() if v not in removed.outputs}
    graph = _replace(
        graph, nodes=nodes, inputs=tuple(v for v, _ in fed), constants=tuple(arrays),
        values=tuple(value for value in graph.values if value.id not in removed.outputs),
    )  # fmt: skip
    return Case(case.name, graph, arrays, tuple(f for _, f in fed))


def _cut(case: Case, node: Node) -> Case:
    """The case with the node's outputs replaced by inputs with their values."""
    graph = case.graph
    _, values = every_value(graph, case.arrays, case.feeds)
    first = 1 + max(n.id for n in graph.nodes)
    leaves = tuple(
        Node(first + i, f"cut_{value}", "placeholder", "leaf", outputs=(value,), role="input")
        for i, value in enumerate(node.outputs)
    )
    nodes: list[Node] = []
    for item in graph.nodes:
        control = tuple(c for c in item.control_inputs if c != node.id)
        nodes.extend(leaves if item is node else (_replace(item, control_inputs=control),))
    feeds = (*case.feeds, *(np.asarray(values[value]) for value in node.outputs))
    graph = _replace(graph, nodes=tuple(nodes), inputs=(*graph.inputs, *node.outputs))
    return _only(Case(case.name, graph, case.arrays, feeds), graph.outputs)
