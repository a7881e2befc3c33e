"""Saved graphs: converts graphs built by hand to data, and back.

The file is an archive of the kind "graph", see `nodescope.engine.graphs.archive`.

Invariant: the restored graph equals the saved one; reading runs none of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from nodescope.engine.graphs import archive
from nodescope.engine.graphs.archive import Archive
from nodescope.engine.graphs.graph_builder import GraphBuilder
from nodescope.engine.graphs.names import Variable
from nodescope.engine.graphs.operation import Operation, tensor_of
from nodescope.engine.source import where
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import LEAF, SMOOTH, Tensor, make
from nodescope.errors import GraphError, NodescopeError
from nodescope.ir import graph as ir
from nodescope.ir.text import print_graph
from nodescope.ops.op import Array
from nodescope.ops.traits import traits_of

G = TypeVar("G", bound=GraphBuilder)


@dataclass
class Parts:
    """A graph taken apart: the content of a file, or of a message to another process.

    Attributes:
        graph: The nodes.
        arrays: Arrays of constants and variables by value id.
        variables: Value ids of the variables, with ``[initializer, trainable, chained]``.
        collections: By name, items as ``["operation", node id]``, ``["tensor", value id]`` or
            ``["plain", value]``.
    """

    graph: ir.Graph
    arrays: dict[int, Array]
    variables: dict[int, list[Any]] = field(default_factory=dict)
    collections: dict[str, list[Any]] = field(default_factory=dict)


def text_of(graph: GraphBuilder) -> str:
    """`Graph.to_text`."""
    return print_graph(graph.finish(()), ids=False)


# Taking apart and putting together


def taken_apart(graph: GraphBuilder, session: Any = None) -> Parts:
    """The graph as data. Raises `GraphError` for parts that cannot be saved."""
    known: Mapping[int, Array] = graph.saved
    if session is not None:
        if session.graph is not graph:
            raise GraphError("save: the session runs another graph", source=where())
        known = session.variable_values()
    if graph.hosts:
        raise GraphError(
            "save: the graph reads an optimizer's settings from this program at each run",
            source=where(), hint="save the graph without its training part",
        )  # fmt: skip
    arrays = dict(graph.arrays)
    variables = {}
    for value, variable in graph.variables.items():
        variables[value] = [variable.initializer, variable.trainable, variable.chained]
        if value in known:
            arrays[value] = known[value]
        elif variable.outside is not None:
            arrays[value] = variable.outside.data
    return Parts(
        msgspec.structs.replace(graph.finish(()), id=0), arrays, variables,
        {name: [_item(graph, name, item) for item in graph.get_collection(name)]
         for name in graph.get_all_collection_keys()},
    )  # fmt: skip


def _item(graph: GraphBuilder, name: str, item: Any) -> list[Any]:
    if isinstance(item, Operation) and item.graph is graph:
        return ["operation", item.node.id]
    if isinstance(item, Tensor):
        with contextlib.suppress(NodescopeError):
            return ["tensor", graph.value_here(item)]
    if item is None or isinstance(item, bool | int | float | str):
        return ["plain", item]
    raise GraphError(
        f"save: the collection {name!r} holds a {type(item).__name__}, which cannot be saved",
        source=where(), hint="remove it with clear_collection first",
    )  # fmt: skip


def put_together(parts: Parts, graph: G) -> G:
    """Rebuild in an empty graph the one that was taken apart. Its node ids start at 1, in order.

    Raises:
        GraphError: The parts do not fit together.
    """
    data = archive.verified(parts.graph)
    if [node.id for node in data.nodes] != list(range(1, len(data.nodes) + 1)) or [
        value.id for value in data.values
    ] != list(range(1, len(data.values) + 1)):
        raise GraphError("the ids of nodes and values must go from 1 up")
    graph.nodes.extend(data.nodes)
    graph.values.extend(data.values)
    graph.inputs.extend(data.inputs)
    for node in data.nodes:
        graph.adopt(node)
    specs = {value.id: value.spec for value in data.values}
    for value, array in parts.arrays.items():
        spec = specs.get(value)
        if spec is None or (array.shape, array.dtype.name) != (spec.shape, spec.dtype):
            raise GraphError(f"the array of %{value} is not what the graph says")
    for value in data.constants:
        if value not in parts.arrays or graph.producer(value).op != "constant":
            raise GraphError(f"the constant %{value} has no array")
        graph.arrays[value] = parts.arrays[value]
    for node in data.nodes:
        if node.op == "constant" and node.outputs[0] not in graph.arrays:
            raise GraphError(f"the constant {node.name!r} has no array")
    for value, (initializer, trainable, chained) in parts.variables.items():
        _variable(graph, value, specs, initializer, bool(trainable), bool(chained))
        if value in parts.arrays:
            graph.saved[value] = parts.arrays[value]
    _follow_states(graph)
    _fill_collections(graph, parts.collections)
    return graph


def _variable(
    graph: GraphBuilder, value: Any, specs: Mapping[int, Any], initializer: Any, trainable: bool,
    chained: bool,
) -> None:  # fmt: skip
    if value not in specs or graph.producer(value).op != "parameter":
        raise GraphError(f"the variable %{value} is unknown")
    if not isinstance(initializer, int) or not 0 <= initializer <= len(graph.nodes):
        raise GraphError(f"the initializer of %{value} is unknown")
    name = graph.producer(value).name
    graph.variables[value] = Variable(
        value, name, specs[value], trainable, initializer, chained=chained
    )
    data = Abstract(specs[value], graph, value)
    edge = LEAF if data.dtype.kind in SMOOTH else None
    graph.tensors[value] = make(data, edge, kind="parameter", name=f"{name}:0")


def _follow_states(graph: GraphBuilder) -> None:
    for node in graph.nodes:
        if traits_of(node.op).state:
            base = graph.state_of.get(node.inputs[0], node.inputs[0])
            if base not in graph.variables:
                raise GraphError(f"node {node.name}: it updates something that is not a variable")
            graph.state_of[node.outputs[0]] = base
            if graph.variables[base].chained:
                graph.follow[node.inputs[0]] = node.id


def _fill_collections(graph: GraphBuilder, collections: Mapping[str, Any]) -> None:
    for name, items in collections.items():
        for kind, item in items:
            if kind == "operation":
                graph.add_to_collection(name, graph.get_operation_by_id(item))
            elif kind == "tensor":
                if not isinstance(item, int) or not 1 <= item <= len(graph.values):
                    raise GraphError(f"the collection {name!r} holds an unknown tensor")
                graph.add_to_collection(name, tensor_of(graph, item))
            else:
                graph.add_to_collection(name, item)


# Files


class _About(msgspec.Struct, forbid_unknown_fields=True):
    """Data in a graph's archive besides nodes and arrays."""

    variables: dict[int, tuple[int, bool, bool]]
    collections: dict[
        str, list[tuple[Literal["operation", "tensor", "plain"], bool | int | float | str | None]]
    ]


def save(graph: GraphBuilder, path: Any, session: Any = None) -> None:
    """`Graph.save`."""
    parts = taken_apart(graph, session)
    about = {
        "variables": {str(value): variable for value, variable in parts.variables.items()},
        "collections": parts.collections,
    }
    archive.write(path, "graph", parts.graph, parts.arrays, about)


def load(path: Any, graph: G) -> G:
    """`Graph.load`, into an empty graph."""
    with archive.reading(path):
        return of(archive.read(path, "graph"), graph)


def of(contents: Archive, graph: G) -> G:
    """Rebuild the graph of an archive in an empty graph.

    Raises:
        GraphError: The parts do not fit together.
    """
    about = archive.converted(contents.about, _About)
    return put_together(
        Parts(
            contents.graph, contents.arrays,
            {value: list(variable) for value, variable in about.variables.items()},
            {name: list(collection) for name, collection in about.collections.items()},
        ),
        graph,
    )  # fmt: skip


__all__ = ["Parts", "load", "of", "put_together", "save", "taken_apart", "text_of"]
