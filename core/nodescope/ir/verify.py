"""Verify: checks that a graph is well-formed.

Invariant: pure; raises for the first fault in the order of the nodes, and names the node.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NoReturn

from nodescope.errors import GraphError, NodescopeError
from nodescope.ir.graph import Graph, Node, Spec, TensorSpec

Infer = Callable[[Node, tuple[TensorSpec, ...]], tuple[TensorSpec, ...] | None]
"""Returns the specs of a node's outputs from those of its inputs; None if they depend on values.

Raises a `NodescopeError` for specs that the op refuses, KeyError for an attribute it misses.
"""


def verify(graph: Graph, infer: Infer | None = None, known: Container[int] = frozenset()) -> None:
    """Check a graph.

    Args:
        graph: The graph to check.
        infer: The inference of ops, to check specs and attributes as well; see
            `nodescope.ops.checking`.
        known: Nodes, by ``id()`` of the object, for which that has already been checked.

    Raises:
        GraphError: A value is unknown, used before it is produced, or produced twice; ids or names
            are duplicated; a control edge leads to an unknown node or closes a cycle; specs do not
            match the op; an attribute is missing.
    """
    specs = {value.id: value.spec for value in graph.values}
    if len(specs) < len(graph.values):
        seen: set[int] = set()
        for listed in graph.values:
            if listed.id in seen:
                raise GraphError(f"value %{listed.id} is listed twice")
            seen.add(listed.id)
    makers = {value: node for node in graph.nodes for value in node.outputs}
    ids = {node.id for node in graph.nodes}
    done: set[int] = set()
    names: dict[str, int] = {}
    ready = specs.keys() - makers.keys()
    for node in graph.nodes:
        if node.id in done:
            _fault(node, f"the id @{node.id} is already used by another node")
        if node.name in names:
            _fault(node, f"the name is already used by node @{names[node.name]}")
        names[node.name] = node.id
        if not ready.issuperset(node.inputs):
            for value in node.inputs:
                if value not in specs:
                    _fault(node, f"its input %{value} is unknown")
                if value not in ready:
                    _fault(node, f"its input %{value} is made only later, by {makers[value].name}")
        for control in node.control_inputs:
            if control not in ids:
                _fault(node, f"it waits for node @{control}, which is unknown")
            if control not in done:
                _fault(node, f"it waits for node @{control}, which comes later: a cycle")
        for value in node.outputs:  # this runs for every node after every pass
            if value in specs and value not in ready:
                ready.add(value)
                continue
            if value not in specs:
                _fault(node, f"its output %{value} is not among the graph's values")
            _fault(node, f"its output %{value} is also made by another node")
        done.add(node.id)
        if infer is not None and id(node) not in known:
            _check_specs(node, specs, infer)
    for role, values in (
        ("input", graph.inputs),
        ("output", graph.outputs),
        ("constant", graph.constants),
    ):
        for value in values:
            if value not in specs:
                raise GraphError(f"the graph's {role} %{value} is unknown")


def _check_specs(node: Node, specs: dict[int, Spec], infer: Infer) -> None:
    operand_specs = [specs[value] for value in node.inputs]
    inputs = tuple(spec for spec in operand_specs if isinstance(spec, TensorSpec))
    if len(inputs) < len(operand_specs):
        _fault(node, f"{node.op} takes tensors, but one of its inputs is not a tensor")
    try:
        inferred = infer(node, inputs)
    except KeyError as error:
        _fault(node, f"the attribute {error} is missing")
    except NodescopeError as error:
        _fault(node, f"{node.op} does not take its inputs: {error.message}")
    if inferred is None:
        return
    if len(inferred) != len(node.outputs):
        _fault(node, f"{node.op} gives {len(inferred)} values, it has {len(node.outputs)} outputs")
    for value, spec in zip(node.outputs, inferred, strict=True):
        if specs[value] != spec:
            _fault(node, f"%{value} is declared as {specs[value]}, but {node.op} returns {spec}")


def _fault(node: Node, problem: str) -> NoReturn:
    raise GraphError(f"node {node.name}: {problem}", source=str(node.source or ""))
