"""The builder of graphs built by hand: variables, names, devices and control dependencies.

Invariant: nodes, ids and names only grow and never change; registering one is atomic.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nodescope import ops
from nodescope.emit.scopes import name_scope
from nodescope.engine.building import Builder
from nodescope.engine.graphs.collections import Collections
from nodescope.engine.graphs.lookup import Lookup
from nodescope.engine.graphs.names import Variable, split_name
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import LEAF, SMOOTH, Attrs, Tensor, make, spec_of
from nodescope.errors import UsageError
from nodescope.ir.graph import Node, TensorSpec
from nodescope.ir.scopes import ancestors, join
from nodescope.ops.op import Array, Op
from nodescope.ops.traits import traits_of


class _Here(threading.local):
    """The blocks of one graph that a thread is in."""

    def __init__(self) -> None:
        self.control: list[tuple[int, ...] | None] = []
        self.updates: list[list[Node]] = []
        self.reads: dict[Any, int] = {}
        self.label = ""


class GraphBuilder(Lookup, Collections, Builder):
    """The content of a `Graph`: nodes, variables, and the blocks that each thread is in.

    Attributes:
        variables: The variables, for which each session keeps values, by value id.
        tensors: The tensors handed to the program, by value id.
        state_of: Value ids that are a variable's content, mapped to the variable's own id.
        follow: For chained state: the value id of a state, mapped to the node that replaces it.
        finalized: Whether the graph is read-only; see `finalize`.
        saved: Initial arrays of variables from a loaded file, by value id.
    """

    takes_paths = True

    def __init__(self) -> None:
        Builder.__init__(self, "static")
        Collections.__init__(self)
        self.variables: dict[int, Variable] = {}
        self.tensors: dict[int, Tensor] = {}
        self.state_of: dict[int, int] = {}
        self.follow: dict[int, int] = {}
        self.saved: dict[int, Array] = {}
        self.by_name: dict[str, Node] = {}
        self._here = _Here()

    def __repr__(self) -> str:
        return f"<nodescope.Graph {self.id}: {len(self.nodes)} operations>"

    def name_scope(self, name: str) -> name_scope:
        """`nodescope.name_scope`, for use inside ``as_default``."""
        return name_scope(name)

    @property
    def version(self) -> int:
        """A number that grows with each operation."""
        return len(self.nodes)

    def finalize(self) -> None:
        """Make the graph read-only, which is recommended before several threads run it."""
        with self.lock:
            self.finalized = True

    def check_open(self) -> None:
        """See `Builder.check_open`. Raises `UsageError`."""
        if self.finalized:
            raise UsageError(
                "this graph is finalized: nothing can be added to it",
                source=where(),
                hint="build everything before finalize(), or build another Graph",
            )

    # Recording

    def run(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Any:
        """See `Builder.run`. Updates take the variable itself, even if it was read under another
        value.
        """
        if traits_of(op.name).updates:
            target = inputs[0]
            with self.control_dependencies(None, reset=False):
                start = self.value_of(target)
            variable = self.variables.get(self.state_of.get(start, start))
            if variable is None:
                raise UsageError(
                    f"{op.name}: only variables can be assigned to", source=where(),
                    hint="make it with nodescope.variable",
                )  # fmt: skip
            if not variable.chained:
                handle = make(Abstract(variable.spec, self, variable.value))
                inputs = (handle, *inputs[1:])
            else:
                handle = make(Abstract(variable.spec, self, start))
                inputs = (handle, *inputs[1:])
            result = super().run(op, inputs, attrs)
            node = self.producer(self._register(result).data.value)
            if variable.chained:
                self._now[id(target)] = node.outputs[0]
                self.follow[start] = node.id
            self.state_of[node.outputs[0]] = variable.value
            for update in self._here.updates:
                update.append(node)
            return result
        result = super().run(op, inputs, attrs)
        for tensor in result if isinstance(result, tuple) else (result,):
            self._register(tensor)
        return result

    def store(self, target: Tensor, assigned: Tensor) -> None:
        """See `Builder.store`: the target still stands for the variable."""

    def assigned(self, target: Tensor, node: Node) -> None:
        """See `Builder.assigned`: a variable's value is determined only when a session runs."""

    def _register(self, tensor: Any) -> Any:
        value = tensor.data.value
        node = self.producer(value)
        tensor._name = f"{node.name}:{node.outputs.index(value)}"
        self.tensors.setdefault(value, tensor)
        return tensor

    def add(
        self,
        op: Op,
        inputs: tuple[int, ...],
        attrs: Attrs,
        specs: tuple[TensorSpec, ...],
        state: Any,
        *,
        label: str = "",
        scope: str | None = None,
    ) -> Node:
        """See `Builder.add`."""
        with self.lock:
            label = label or self._here.label
            node = super().add(op, inputs, attrs, specs, state, label=label, scope=scope)
            self.by_name[node.name] = node
        return node

    def value_of(self, tensor: Tensor, *, made_here: bool = False) -> int:
        """See `Builder.value_of`. After control dependencies, a variable is read anew."""
        value = super().value_of(tensor, made_here=made_here)
        variable = self.variables.get(value)
        if variable is None or variable.chained or not (waits := self._waits()):
            return value
        reads, key = self._here.reads, (value, waits)
        if key not in reads:
            op = ops.get("read")
            node = self.add(op, (value,), {}, (variable.spec,), current(), label="read",
                            scope=variable.name)  # fmt: skip
            self.state_of[node.outputs[0]] = value
            reads[key] = node.outputs[0]
        return reads[key]

    def _capture(self, tensor: Tensor, kind: str) -> int:
        if kind != "parameter":
            return self._constant(tensor)  # it never changes
        scope, _, label = tensor.name.rpartition("/")
        with self.control_dependencies(None, reset=False):
            node = self.add(ops.get("parameter"), (), {}, (spec_of(tensor),), current(),
                            label=label or "parameter", scope=scope)  # fmt: skip
        value = node.outputs[0]
        self.inputs.append(value)
        self.variables[value] = Variable(
            value, node.name, spec_of(tensor), tensor.edge is LEAF, outside=tensor,
            chained=tensor.dtype.kind not in SMOOTH,
        )  # fmt: skip
        return value

    def new_state(self, tensor: Tensor) -> None:
        """See `Builder.new_state`: here it continues from run to run, shared with the program."""

    def host(
        self, reader: Callable[[], dict[str, float]], names: Iterable[str], dtype: Any, scope: str
    ) -> dict[str, Tensor]:
        """See `Builder.host`.

        Raises:
            UsageError: The numbers are for updates that no operation would run.
        """
        if not self._here.updates:
            raise UsageError(
                "step() in a graph makes no operation that a session could run", source=where(),
                hint="write train = optimizer.minimize(loss), and run train",
            )  # fmt: skip
        return super().host(reader, names, dtype, scope)

    def read_grad(self, tensor: Tensor) -> Tensor | None:
        """See `Builder.read_grad`: the result of ``backward`` in this graph."""
        known = self._grads.get(id(tensor))
        return None if known is None else known[1]

    def named_leaf(
        self, op: Op, attrs: Attrs, spec: TensorSpec, name: str, array: Array | None = None
    ) -> Tensor:
        """Add a leaf with a name given by the program."""
        label, scope = split_name(name, current().scope)
        node = self.add(op, (), attrs, (spec,), current(), label=label, scope=scope)
        value = node.outputs[0]
        edge = LEAF if Abstract(spec, self, value).dtype.kind in SMOOTH else None
        if array is not None:
            self.arrays[value] = array
        else:
            self.inputs.append(value)
        tensor = make(Abstract(spec, self, value), edge, kind=op.name)
        return self._register(tensor)  # type: ignore[no-any-return]

    def labelled(self, op: Op, inputs: tuple[Any, ...], label: str) -> Tensor:
        """`run`, with a name for the node."""
        for value in inputs:
            if isinstance(value, Tensor):
                self.value_of(value)  # inputs that are added now have names of their own
        self._here.label = label
        try:
            return self.run(op, inputs, {})  # type: ignore[no-any-return]
        finally:
            self._here.label = ""

    def adopt(self, node: Node) -> None:
        """Register a node loaded from a file, and reserve its name and those of its scopes."""
        self.by_name[node.name] = node
        self._names[node.name.lower()] = self._names.get(node.name.lower(), 0) + 1
        for ancestor in ancestors(node.scope):
            self._names.setdefault(ancestor.lower(), 1)
        for value in node.outputs:
            self._producer[value] = node

    def initial_value(self, first: Tensor, name: str) -> int:
        """The value id of a variable's initial value."""
        data: Any = first.data
        if data.__class__ is Abstract:
            return self.value_of(first)
        node = self.add(ops.get("constant"), (), {}, (spec_of(first),), current(),
                        label="initial_value", scope=name)  # fmt: skip
        self.arrays[node.outputs[0]] = data
        return node.outputs[0]

    def keep(self, node: Node, spec: TensorSpec, *, trainable: bool, initializer: Node) -> Tensor:
        """Make ``node`` a variable."""
        value = node.outputs[0]
        self.inputs.append(value)
        smooth = Abstract(spec, self, value).dtype.kind in SMOOTH
        self.variables[value] = Variable(
            value, node.name, spec, trainable and smooth, initializer.id
        )
        self.state_of[initializer.outputs[0]] = value
        tensor = make(Abstract(spec, self, value), LEAF if smooth else None, kind="parameter")
        return self._register(tensor)  # type: ignore[no-any-return]

    # Control, devices, scopes

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Any, *, reset: bool = True) -> Iterator[None]:
        """A block whose operations run after the given ones. None clears those of outer blocks.

        Args:
            control_inputs: Operations and tensors of this graph, or None.
            reset: Whether variables are read again inside the block.
        """
        context = self._here
        waits = None
        if control_inputs is not None:
            waits = tuple(self.operation(control).id for control in control_inputs)
        saved = context.reads
        if reset:
            context.reads = {}
        context.control.append(waits)
        try:
            yield
        finally:
            context.control.pop()
            context.reads = saved

    def _waits(self) -> tuple[int, ...]:
        waits: list[int] = []
        for controls in reversed(self._here.control):
            if controls is None:
                break
            waits.extend(controls)
        return tuple(sorted(set(waits)))

    def control_inputs(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """See `Builder.control_inputs`; the producer of an input runs before in any case."""
        waits = self._waits()
        if not waits:
            return ()
        makers = {self.producer(value).id for value in inputs}
        return tuple(wait for wait in waits if wait not in makers)

    def enter_scope(self, scope: str, name: str) -> tuple[str, str]:
        """See `Builder.enter_scope`; each block has its own name."""
        if not name:
            return "", ""
        if name.endswith("/"):
            return name[:-1], name
        with self.lock:
            path = self.unique_name(join(scope, name))
        return path, path + "/"

    @contextlib.contextmanager
    def updates(self) -> Iterator[list[Node]]:
        """Collect the update nodes that this thread adds inside the block."""
        updates: list[Node] = []
        self._here.updates.append(updates)
        try:
            yield updates
        finally:
            self._here.updates.remove(updates)

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        """See `Builder.updating`: these updates are not fetched, so a collection holds them."""
        with self.updates() as nodes:
            yield
        for node in nodes:
            self.add_to_collection("update_ops", self.get_operation_by_name(node.name))
