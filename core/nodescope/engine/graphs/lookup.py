"""Lookup: finding operations and tensors in a graph that is built by hand.

Invariant: finding adds nothing to the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodescope.engine.graphs.operation import (
    Edge,
    Operation,
    edges_of,
    sink_of,
    source_of,
    tensor_of,
)
from nodescope.engine.source import where
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import Tensor
from nodescope.errors import RegistryError, UsageError
from nodescope.ir.graph import Node
from nodescope.registry import did_you_mean

if TYPE_CHECKING:
    from nodescope.engine.building import Builder

    Base = Builder
else:
    Base = object


class Lookup(Base):
    """The part of `Graph` that looks things up."""

    by_name: dict[str, Node]

    def get_operations(self) -> list[Operation]:
        """All operations, in order of creation."""
        return [Operation(self, node) for node in list(self.nodes)]

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation with a name. Raises `RegistryError` with similar names."""
        node = self.by_name.get(name)
        if node is None:
            hint = did_you_mean(name, list(self.by_name)) or "see graph.get_operations()"
            if ":" in name:
                hint = "a tensor is found with get_tensor_by_name"
            raise RegistryError(f"no operation named {name!r} in this graph", source=where(),
                                hint=hint)  # fmt: skip
        return Operation(self, node)

    def get_operation_by_id(self, id: int) -> Operation:
        """The operation with an id. Raises `RegistryError`."""
        if not isinstance(id, int) or not 1 <= id <= len(self.nodes):
            raise RegistryError(
                f"no operation with id {id!r}; ids go from 1 to {len(self.nodes)}",
                source=where(),
            )
        return Operation(self, self.nodes[id - 1])

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor ``"<operation>:<port>"``. Raises `RegistryError`."""
        operation, colon, port = name.rpartition(":")
        if not colon or not port.isdecimal():
            raise RegistryError(f"{name!r} does not name a tensor", source=where(),
                                hint=f"a tensor's name has a port: {name + ':0'!r}")  # fmt: skip
        node = self.get_operation_by_name(operation).node
        if int(port) >= len(node.outputs):
            raise RegistryError(
                f"{operation!r} has {len(node.outputs)} outputs, so there is no {name!r}",
                source=where(),
            )
        return tensor_of(self, node.outputs[int(port)])

    def operation(self, item: Any) -> Operation:
        """The operation that ``item`` is, names or is produced by.

        Raises:
            UsageError: ``item`` belongs to another graph, or to none.
        """
        if isinstance(item, str):
            name, colon, _ = item.rpartition(":")
            return self.get_operation_by_name(name if colon else item)
        if isinstance(item, Operation):
            if item.graph is not self:
                raise foreign(f"the operation {item.name!r}")
            return item
        if isinstance(item, Tensor):
            return Operation(self, self.producer(self.value_here(item)))
        raise UsageError(f"{type(item).__name__} is not an operation or tensor", source=where())

    def value_here(self, tensor: Tensor) -> int:
        """The value id of a tensor of this graph, without adding anything.

        Raises:
            UsageError: The tensor belongs to another graph, or has not been used in any.
        """
        data: Any = tensor.data
        if data.__class__ is Abstract:
            if data.graph is self:
                return data.value
            raise foreign(f"the tensor {tensor.name!r}")
        value = self.known(tensor)
        if value is None:
            raise UsageError(
                "a tensor that was computed eagerly is not part of this graph", source=where(),
                hint="make it inside `with graph.as_default():`",
            )  # fmt: skip
        return value

    @property
    def source(self) -> Operation:
        """The source, which everything without inputs waits for."""
        return source_of(self)

    @property
    def sink(self) -> Operation:
        """The sink, which waits for everything without users."""
        return sink_of(self)

    @property
    def edges(self) -> list[Edge]:
        """All edges: data and control edges, and those from the source and to the sink."""
        return edges_of(self)


def foreign(subject: str) -> UsageError:
    """The error for an object of another graph."""
    return UsageError(
        f"{subject} belongs to another graph", source=where(),
        hint="use it inside `with its_graph.as_default():` and in that graph's Session",
    )  # fmt: skip
