"""Graphs as text, one line per node, convertible back exactly.

    graph 1 static (%1) -> (%3) {
      %1: f32[32,64] = leaf.placeholder()  # x  train.py:9
      %2: f32[64,10] = leaf.parameter()  # w  train.py:10
      %3: f32[32,10] = matmul(%1, %2)  # encoder/matmul  train.py:12 forward
    }

The part after ``#`` matters: the node's name, then properties that differ from the default (scope,
phase, device, control inputs, origin, forward node, compiled graph, id) and the line of the
program. The format is described in docs/graphs.md.

Invariant: ``parse_graph(print_graph(g)) == g``; any other text is refused.
"""

from __future__ import annotations

import json
import re

from nodescope.errors import GraphError
from nodescope.ir import attrs as attributes
from nodescope.ir.attrs import IDENTIFIER, dtype_text
from nodescope.ir.graph import Graph, Node, OpaqueSpec, Spec, Value, usual_role, usual_writes
from nodescope.ir.parse import parse_graph

__all__ = ["parse_graph", "print_graph"]

_BARE = re.compile(r"[A-Za-z0-9_./<>+\-]+")
_PLACE = re.compile(r"[A-Za-z0-9_./<>+\-~@]*[A-Za-z0-9_/<>+\-~@]:[0-9]+")


def print_graph(graph: Graph, *, ids: bool = True) -> str:
    """A graph as text, ending in a newline.

    Args:
        graph: The graph to print.
        ids: Whether to print the graph's own id and those of its bodies; otherwise 0, so that equal
            graphs have equal texts.

    Raises:
        GraphError: Its values do not match its nodes, or an attribute cannot be written as text.
    """
    return "\n".join(_lines(graph, ids)) + "\n"


def _lines(graph: Graph, numbered: bool) -> list[str]:
    values = {value.id: value for value in graph.values}
    produced = {value for node in graph.nodes for value in node.outputs}
    ids = [value.id for value in graph.values]
    if ids != sorted(set(ids)):
        raise GraphError("values must be in order of id, each once")
    if missing := produced - set(ids):
        raise GraphError(f"value %{min(missing)} is made but not among the graph's values")
    ends = f"({_values(graph.inputs)}) -> ({_values(graph.outputs)})"
    lines = [f"graph {graph.id if numbered else 0} {graph.kind} {ends} {{"]
    if graph.constants:
        lines.append(f"  constants({_values(graph.constants)})")
    lines.extend(
        f"  given({_spec(value, '')} {_quoted(value.name)})"
        for value in graph.values
        if value.id not in produced
    )
    before = 0
    for node in graph.nodes:
        lines.extend("  " + line for line in _node(node, values, before, numbered).split("\n"))
        before = node.id
    return [*lines, "}"]


def _values(ids: tuple[int, ...]) -> str:
    return ", ".join(f"%{id_}" for id_ in ids)


def _spec(value: Value, usual: str) -> str:
    name = "" if value.name == usual or not usual else f" {json.dumps(value.name)}"
    storage = f" in {value.storage}" if value.storage else ""
    return f"%{value.id}{name}: {_spec_text(value.spec)}{storage}"


def _spec_text(spec: Spec) -> str:
    if isinstance(spec, OpaqueSpec):
        size = "" if spec.nbytes is None else f", {spec.nbytes}"
        return f"opaque({json.dumps(spec.type)}{size})"
    device = f" on {json.dumps(spec.device)}" if spec.device else ""
    return dtype_text(spec.dtype, spec.shape) + device


def value_name(node: str, port: int) -> str:
    """The default name of a value."""
    return f"{node}:{port}" if port else node


def _node(node: Node, values: dict[int, Value], before: int, numbered: bool) -> str:
    results = ", ".join(
        _spec(values[value], value_name(node.name, port)) for port, value in enumerate(node.outputs)
    )
    op = node.op if node.family == node.op else f"{_word(node.family)}.{_word(node.op)}"
    parts = [f"%{value}" for value in node.inputs]
    for name, value in node.attrs.items():
        word = name if IDENTIFIER.fullmatch(name) else json.dumps(name)
        parts.append(f"{word}={attributes.write(value, lambda body: _inner(body, numbered))}")
    call = f"{results or '_'} = {op if node.family != node.op else _word(op)}({', '.join(parts)})"
    return f"{call}  # {'  '.join([_quoted(node.name), *_rest(node, before)])}"


def _inner(graph: Graph, numbered: bool) -> str:
    head, *rest = _lines(graph, numbered)
    return "\n".join([head, *("  " + word for word in rest)])


def _rest(node: Node, before: int) -> list[str]:
    parts = []
    if node.id != before + 1:
        parts.append(f"id=@{node.id}")
    if node.scope != node.name.rpartition("/")[0]:
        parts.append(f"scope={_quoted(node.scope)}")
    if node.phase != "forward":
        parts.append(f"phase={node.phase}")
    if node.device != "cpu":
        parts.append(f"device={json.dumps(node.device)}")
    if node.role != usual_role(node.op, node.family):
        parts.append(f"role={node.role}")
    if node.dialect != "nodescope":
        parts.append(f"dialect={json.dumps(node.dialect)}")
    if node.native:
        parts.append(f"native={json.dumps(node.native)}")
    if node.writes != usual_writes(node.family):
        pairs = ",".join(f"{output}>{target}" for output, target in node.writes)
        parts.append(f"writes={pairs or '-'}")
    if node.control_inputs:
        parts.append(f"after={_nodes(node.control_inputs)}")
    if node.origin:
        parts.append(f"origin={_nodes(node.origin)}")
    if node.forward is not None:
        parts.append(f"of=@{node.forward}")
    if node.graph:
        parts.append(f"graph={node.graph}")
    if node.source is not None:
        where, function = str(node.source), node.source.function
        if not _PLACE.fullmatch(where):
            where = f"{json.dumps(node.source.file)}:{node.source.line}"
        parts.append(f"{where} {_quoted(function)}" if function else where)
    return parts


def _nodes(ids: tuple[int, ...]) -> str:
    return ",".join(f"@{id_}" for id_ in ids)


def _quoted(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _word(name: str) -> str:
    return name if IDENTIFIER.fullmatch(name) else json.dumps(name)
