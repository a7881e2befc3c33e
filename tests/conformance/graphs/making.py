"""Makes a graph node by node, and runs each node at once.

A node is added only if the op's ``infer`` and ``impl`` both accept its inputs and agree. So every
graph runs, and the value of each node is known.

Invariant: the graph has the form that tracing gives: leaves for inputs and constants, nodes in
topological order, ids of nodes and of values each counted from 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from nodescope import ops
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Graph, Node, TensorSpec, Value, usual_role
from nodescope.ir.text import print_graph
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.checking import inferred
from nodescope.ops.op import port_name
from tests.conformance.graphs.arrays import LARGEST, Array
from tests.conformance.graphs.choose import Choices

# Errors that an impl raises for inputs that it refuses.
REFUSED = (NodescopeError, TypeError, ValueError, OverflowError, IndexError, np.linalg.LinAlgError,
           ZeroDivisionError)  # fmt: skip
# These reveal the sign or bits of a NaN, which are unspecified.
_OF_NAN = {"signbit", "copysign", "nextafter", "spacing", "frexp", "heaviside"}


@dataclass(frozen=True)
class Case:
    """A graph with everything needed to run it.

    Attributes:
        name: Its origin, for messages.
        graph: The traced graph.
        arrays: Constants by value id.
        feeds: One per input.
    """

    name: str
    graph: Graph
    arrays: Mapping[int, Array]
    feeds: Sequence[Any]

    def __str__(self) -> str:
        lines = [f"{self.name}:", print_graph(self.graph)]
        for value, feed in zip(self.graph.inputs, self.feeds, strict=True):
            lines.append(f"feed %{value} = {feed!r}"[:400])
            if isinstance(feed, np.ndarray):
                lines.append(f"    strides {feed.strides}, offset {feed.ctypes.data % 64}")
        lines.extend(f"constant %{value} = {array!r}"[:400] for value, array in self.arrays.items())
        return "\n".join(lines)


@dataclass
class Making:
    """A graph under construction.

    Attributes:
        choices: The source of choices.
        wild: Whether its numbers include NaN, infinities and the like.
        data: The array of each value, by id.
        pool: The values that further nodes may use.
    """

    choices: Choices
    wild: bool = False
    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    data: dict[int, Array] = field(default_factory=dict)
    arrays: dict[int, Array] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    feeds: list[Any] = field(default_factory=list)
    pool: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    phase: str = "forward"

    def input(self, array: Array, *, feed: Any = None, op: str = "placeholder") -> int:
        """Add an input, which is fed with ``feed`` or else with the array."""
        value = self._leaf(op, array)
        self.inputs.append(value)
        self.feeds.append(array if feed is None else feed)
        return value

    def constant(self, array: Array) -> int:
        value = self._leaf("constant", array)
        self.arrays[value] = array
        return value

    def _leaf(self, op: str, array: Array) -> int:
        spec = TensorSpec(array.shape, array.dtype.name)
        node = Node(0, "", op, "leaf", role=usual_role(op, "leaf"))
        return self._insert(node, (spec,), (array,))[0]

    def node(
        self,
        op: str,
        operands: Sequence[Any],
        attrs: Mapping[str, Any] | None = None,
        *,
        control: Sequence[int] = (),
        keep: bool = True,
    ) -> list[int] | None:
        """Add a node. Returns its outputs, or None if the op does not accept the operands.

        Args:
            operands: Value ids, and Python scalars as `Scalar`; None for a missing one.
            keep: Whether other nodes may use its outputs.
        """
        if any(value is None for value in operands):
            return None
        result = ops.get(op)
        scalars = {
            port_name(result, port): value.value
            for port, value in enumerate(operands)
            if isinstance(value, Scalar)
        }
        given = tuple(value for value in operands if not isinstance(value, Scalar))
        node = Node(
            0, "", op, result.family, given, tuple(control), (), {**scalars, **(attrs or {})},
            role=result.role, writes=result.writes,
        )  # fmt: skip
        tried = self._tried(node)
        if tried is None:
            return None
        outputs = self._insert(node, *tried)
        if keep:
            self.pool.extend(outputs)
        return outputs

    def one(self, op: str, operands: Sequence[Any], **attrs: Any) -> int | None:
        """As `node`, for an op with one output."""
        result = self.node(op, operands, attrs)
        return None if result is None else result[0]

    def _tried(self, node: Node) -> tuple[tuple[TensorSpec, ...], tuple[Array, ...]] | None:
        specs = tuple(self.spec(value) for value in node.inputs)
        try:
            inferred_specs = inferred(node, specs)
        except REFUSED:
            return None
        if inferred_specs is None or any(
            np.prod(array.shape) > LARGEST for array in inferred_specs
        ):
            return None
        call = call_of(node)
        operands = [a.value if isinstance(a, Scalar) else self.data[a] for a in call.args]
        if node.op in _OF_NAN and any(not _plain(item) for item in operands):
            return None
        if node.op == "astype" and not _fits(operands[0], np.dtype(node.attrs["dtype"])):
            return None
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = call.op.impl(*operands, **call.attrs)
        except REFUSED:
            return None
        results = results if isinstance(results, tuple) else (results,)
        arrays = tuple(map(np.asarray, results))
        assert inferred_specs == tuple(TensorSpec(a.shape, a.dtype.name) for a in arrays), (
            f"{node.op} {specs} {node.attrs}: inferred {inferred_specs}, got {arrays}"
        )
        return inferred_specs, arrays

    def _insert(
        self, node: Node, specs: Sequence[TensorSpec], arrays: Sequence[Array]
    ) -> list[int]:
        scope = "" if self.phase == "forward" else self.phase
        base = name = f"{scope}/{node.op}" if scope else node.op
        i = 0
        while name in self.names:
            i += 1
            name = f"{base}_{i}"
        self.names.add(name)
        outputs = []
        for port, (spec, array) in enumerate(zip(specs, arrays, strict=True)):
            value = Value(len(self.values) + 1, spec, f"{name}:{port}" if port else name)
            self.values.append(value)
            self.data[value.id] = array
            outputs.append(value.id)
        self.nodes.append(msgspec.structs.replace(
            node, id=len(self.nodes) + 1, name=name, scope=scope, phase=self.phase,
            outputs=tuple(outputs),
        ))  # fmt: skip
        return outputs

    def spec(self, value: int) -> TensorSpec:
        return self.values[value - 1].spec

    def finish(self, name: str, outputs: Sequence[int]) -> Case:
        graph = Graph(
            id=1, kind="static", inputs=tuple(self.inputs), outputs=tuple(outputs),
            nodes=tuple(self.nodes), values=tuple(self.values), constants=tuple(self.arrays),
        )  # fmt: skip
        return Case(name, graph, dict(self.arrays), tuple(self.feeds))


def _plain(x: Any) -> bool:
    return np.asarray(x).dtype.kind not in "fc" or not bool(np.isnan(x).any())


def _fits(x: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a conversion is defined; that of floats too large for an integer is not."""
    array = np.asarray(x)
    if array.dtype.kind not in "fc" or dtype.kind not in "iu" or not array.size:
        return True
    info, array = np.iinfo(dtype), array.real.astype("float64")
    with np.errstate(invalid="ignore"):
        return bool(np.all((array > max(info.min, -(2.0**53)) - 1)
                           & (array < min(info.max, 2.0**53))))  # fmt: skip
