"""Fetches and feeds: the inputs and outputs of a session's run.

Invariant: nothing is run here; invalid feeds and fetches are refused before anything has run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.graphs.graph import Graph
from nodescope.engine.graphs.operation import Operation
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DtypeError, ShapeError, UsageError
from nodescope.ir.graph import Node, Value
from nodescope.ops.op import Array


class Fetches:
    """A nest of tensors, operations and names, resolved.

    Attributes:
        values: Value ids wanted, each once.
        nodes: Ids of the operations that are to run.

    Raises:
        UsageError: The nest contains something else, or something of another graph.
    """

    def __init__(self, graph: Graph, fetches: Any) -> None:
        self._graph = graph
        values: dict[int, None] = {}
        nodes: dict[int, None] = {}
        self._tree = self._resolve(fetches, values, nodes)
        self.values = tuple(values)
        self.nodes = tuple(nodes)

    def _resolve(self, item: Any, values: dict[int, None], nodes: dict[int, None]) -> Any:
        if isinstance(item, str):
            graph = self._graph
            item = (
                graph.get_tensor_by_name(item) if ":" in item else graph.get_operation_by_name(item)
            )
        if isinstance(item, Tensor):
            value = self._graph.value_here(item)
            values[value] = None
            return value
        if isinstance(item, Operation):
            nodes[self._graph.operation(item).id] = None
            return None
        if isinstance(item, dict):
            return {key: self._resolve(nested, values, nodes) for key, nested in item.items()}
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*(self._resolve(nested, values, nodes) for nested in item))
        if isinstance(item, list | tuple):
            return type(item)(self._resolve(nested, values, nodes) for nested in item)
        raise UsageError(
            f"{type(item).__name__} cannot be fetched" if item is not None
            else "None cannot be fetched",
            source=where(), hint="fetch tensors, operations, their names, or nests of these",
        )  # fmt: skip

    def filled(self, arrays: dict[int, Array]) -> Any:
        """The nest with arrays for tensors and None for operations."""
        return _filled(self._tree, arrays)


def _filled(tree: Any, arrays: dict[int, Array]) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: _filled(nested, arrays) for key, nested in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_filled(nested, arrays) for nested in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(_filled(nested, arrays) for nested in tree)
    # Copies for the program: it must not change the session's variables and constants.
    return np.array(arrays[tree])


def feed_array(node: Node, value: Value, fed: Any) -> Array:
    """The array to feed for a value, in the right shape and dtype, sharing no memory.

    Raises:
        UsageError: The feed is a value of a graph.
        ShapeError, DtypeError: The feed does not match.
    """
    subject = f"feed of {node.name!r}"
    made_at = f" (made at {node.source})" if node.source else ""
    spec = value.spec
    spec_dtype = np.dtype(spec.dtype)
    data = fed.data if isinstance(fed, Tensor) else fed
    if isinstance(fed, Tensor) and not isinstance(data, np.ndarray):
        raise UsageError(f"{subject}: a value of a graph cannot be fed", source=where(),
                         hint="run it first and feed the result")  # fmt: skip
    array = np.asarray(data)
    if array.shape != spec.shape:
        raise ShapeError(
            f"{subject}{made_at}: its shape is {spec.shape}, not {array.shape}", source=where(),
            hint="feed an array of that shape, or build the graph for this shape",
        )  # fmt: skip
    plain = not isinstance(data, np.ndarray | np.generic)
    if not _fits(array, spec_dtype, plain=plain):
        raise DtypeError(
            f"{subject}{made_at}: its dtype is {spec_dtype.name}, not {array.dtype.name}",
            source=where(), hint="convert the fed array with .astype",
        )  # fmt: skip
    return np.array(array, spec_dtype)


def _fits(array: Array, target: np.dtype[Any], *, plain: bool) -> bool:
    if array.dtype == target or np.can_cast(array.dtype, target, "same_kind"):
        return True
    if target.kind == "V":  # bfloat16
        return array.dtype.kind in "fiu"
    # Python's own numbers have no width: 3 is also an unsigned 3.
    if plain and array.dtype.kind in "iu" and target.kind in "iu":
        info = np.iinfo(target)
        return not array.size or bool(array.min() >= info.min and array.max() <= info.max)
    return not array.size and plain
