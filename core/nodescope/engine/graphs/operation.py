"""Operations: handles to the nodes of a graph built by hand.

Invariant: a handle holds a graph and a node, both of which only grow; two handles of one node are
equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nodescope.engine import dispatch_mode
from nodescope.engine.source import where
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import Tensor, make
from nodescope.errors import UsageError
from nodescope.ir.graph import Node, SourceLocation

if TYPE_CHECKING:
    from nodescope.engine.building import Builder


class Operation:
    """A node of a graph.

    Attributes:
        graph: The graph.
        node: The node as data.
    """

    __slots__ = ("graph", "node")

    def __init__(self, graph: Builder, node: Node) -> None:
        self.graph = graph
        self.node = node

    @property
    def name(self) -> str:
        """Unique in the graph, scopes included: ``scope1/c``."""
        return self.node.name

    @property
    def id(self) -> int:
        """From 1, in order of creation; 0 is the graph's source and -1 its sink."""
        return self.node.id

    @property
    def type(self) -> str:
        """The op's name, such as ``matmul``."""
        return self.node.op

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it takes."""
        return tuple(tensor_of(self.graph, value) for value in self.node.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that it produces."""
        return tuple(tensor_of(self.graph, value) for value in self.node.outputs)

    @property
    def control_inputs(self) -> tuple[Operation, ...]:
        """Operations that run before it without providing a value."""
        if self.node.id == SINK:
            used = {node_id for node in self.graph.nodes for node_id in _before(self.graph, node)}
            ends = [node for node in self.graph.nodes if node.id not in used]
            return tuple(Operation(self.graph, node) for node in ends)
        waits = [Operation(self.graph, self.graph.nodes[i - 1]) for i in self.node.control_inputs]
        if self.node.id != SOURCE and not waits and not self.node.inputs:
            return (source_of(self.graph),)
        return tuple(waits)

    @property
    def control_outputs(self) -> tuple[Operation, ...]:
        """Operations that wait for it without taking a value."""
        nodes = self.graph.nodes
        if self.node.id == SOURCE:
            users = [node for node in nodes if not node.inputs and not node.control_inputs]
        else:
            users = [node for node in nodes if self.node.id in node.control_inputs]
        waiting = tuple(Operation(self.graph, node) for node in users)
        if self in sink_of(self.graph).control_inputs and self.node.id > 0:
            return (*waiting, sink_of(self.graph))
        return waiting

    @property
    def device(self) -> str:
        """The device where it runs."""
        return self.node.device

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes, including scalar operands; a copy."""
        return dict(self.node.attrs)

    @property
    def source(self) -> SourceLocation | None:
        """The line of the program that made it."""
        return self.node.source

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Operation)
            and self.graph is other.graph
            and self.node.id == other.node.id
        )

    def __hash__(self) -> int:
        return hash((id(self.graph), self.node.id))

    def __repr__(self) -> str:
        return f"<Operation {self.name!r} {self.type}>"


SOURCE, SINK = 0, -1


def source_of(graph: Builder) -> Operation:
    """The source, which everything without inputs waits for. It is not one of the graph's nodes."""
    return Operation(graph, Node(SOURCE, "_SOURCE", "no_op", "control"))


def sink_of(graph: Builder) -> Operation:
    """The sink, which waits for everything without users. It is not one of the graph's nodes."""
    return Operation(graph, Node(SINK, "_SINK", "no_op", "control"))


class Edge(NamedTuple):
    """An edge from a node's output port to a node's input port; control edges have ports -1."""

    source: str
    source_port: int
    target: str
    target_port: int


def edges_of(graph: Builder) -> list[Edge]:
    """All edges, including those from the source and to the sink."""
    place = {
        value: (node.name, port) for node in graph.nodes for port, value in enumerate(node.outputs)
    }
    edges = []
    for node in graph.nodes:
        edges += [Edge(*place[value], node.name, port) for port, value in enumerate(node.inputs)]
        edges += [Edge(graph.nodes[control - 1].name, -1, node.name, -1)
                  for control in node.control_inputs]  # fmt: skip
    edges += [
        Edge("_SOURCE", -1, control_output.name, -1)
        for control_output in source_of(graph).control_outputs
    ]
    edges += [Edge(control.name, -1, "_SINK", -1) for control in sink_of(graph).control_inputs]
    return edges


def _before(graph: Builder, node: Node) -> list[int]:
    return [*node.control_inputs, *(graph.producer(value).id for value in node.inputs)]


def tensor_of(graph: Builder, value: int) -> Tensor:
    """The tensor of a value; the one handed to the program, if there is one."""
    known: Tensor | None = getattr(graph, "tensors", {}).get(value)
    if known is not None and place_of(known)[1] == value:  # it may have been written to
        return known
    node = graph.producer(value)
    return make(
        Abstract(graph.values[value - 1].tensor, graph, value),
        name=f"{node.name}:{node.outputs.index(value)}",
    )


def place_of(tensor: Tensor) -> tuple[Builder, int]:
    """The graph of a tensor and its value's id there.

    Raises:
        UsageError: The tensor belongs to no graph.
    """
    data: Any = tensor.data
    if data.__class__ is Abstract:
        return data.graph, data.value
    builder = dispatch_mode.builder()
    if builder is not None and (value := builder.known(tensor)) is not None:
        return builder, value
    raise UsageError(
        "a tensor that was computed eagerly has no operation in a graph",
        source=where(),
        hint="make it inside `with graph.as_default():`",
    )


def operation_of(tensor: Tensor) -> Operation:
    """The operation that produces a tensor."""
    graph, value = place_of(tensor)
    return Operation(graph, graph.producer(value))


def consumers(tensor: Tensor) -> list[Operation]:
    """The operations that take a tensor, in order of creation."""
    graph, value = place_of(tensor)
    return [Operation(graph, node) for node in list(graph.nodes) if value in node.inputs]


Tensor.op = property(operation_of)
Tensor.graph = property(lambda self: place_of(self)[0])
Tensor.consumers = consumers  # type: ignore[assignment]
