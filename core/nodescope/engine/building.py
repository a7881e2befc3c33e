"""Builder: records operations as the nodes of a graph, and runs nothing.

While a thread builds (`dispatch_mode.building`), every op arrives here instead of at `run`, with
the thread's scope, phase and source line. Tensors from outside become inputs (`captures`), arrays
introduced while building become constants; assignments to outside tensors become state that the
graph reads and writes (`writes`, `grads`).

Invariant: building changes no tensor outside; node and value ids only grow, and a value's producer
comes before its users.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np

from nodescope import ops
from nodescope.emit.frames import user_source
from nodescope.emit.losses import Instruction
from nodescope.emit.phases import backward_phase, optimizer_phase
from nodescope.engine.devices import DeviceBlocks
from nodescope.engine.run import explained
from nodescope.engine.state import State, current
from nodescope.engine.symbolic import Abstract, escaped
from nodescope.engine.tensor import (
    LEAF,
    SMOOTH,
    Attrs,
    Bundle,
    Edge,
    Tensor,
    Written,
    make,
    next_seq,
    settled,
    spec_of,
)
from nodescope.ir.graph import Graph, GraphKind, Node, TensorSpec, Value
from nodescope.ir.scopes import join
from nodescope.ops.index import Port, check_masks
from nodescope.ops.op import Array, Op, port_name
from nodescope.ops.traits import traits_of

_graph_ids = itertools.count(1)


class Builder:
    """A graph under construction.

    Args:
        kind: The kind of the finished graph.
        parent: For the body of a branch or loop: the builder of the graph around it, whose values
            may be used inside and are captured.

    Attributes:
        nodes: By node id, from 1.
        values: By value id, from 1.
        inputs: Value ids fed on each call, including captures, in order of creation.
        captures: Tensors from outside with the value ids through which they come in.
        hosts: Numbers that the program computes before each call (such as a learning rate): the
            function that returns them by name, and their value ids by name.
        arrays: The constants' arrays by value id.
        gradients: Value id of a tensor to value id of its gradient.
        losses: Value ids of the numbers from which backward passes began, with the place.
        devices: The blocks `nodescope.device` that each thread is in.
        made: Identities of the tensors with known elements that the program made here.
        shown: For values made by writing to shared memory: the value whose memory they share, and
            the selection of its elements (`nodescope.engine.writing.traced`).
    """

    takes_paths = False
    """Whether scopes can also be entered by their path, as in graphs built by hand."""

    def __init__(self, kind: GraphKind = "static", *, parent: Builder | None = None) -> None:
        self.id = next(_graph_ids)
        self.kind: GraphKind = kind
        self.parent = parent
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        self.inputs: list[int] = []
        self.captures: list[tuple[Tensor, int]] = []
        self.hosts: list[tuple[Callable[[], dict[str, float]], dict[str, int]]] = []
        self.arrays: dict[int, Array] = {}
        self.gradients: dict[int, int] = {}
        self.losses: dict[int, Instruction] = {}
        self.made: set[int] = set()
        self.shown: dict[int, tuple[int, Array]] = {}
        self.lock = threading.RLock()
        self.devices = DeviceBlocks()
        self._names: dict[str, int] = {}
        self._producer: dict[int, Node] = {}
        # Outside tensors in their current state, by identity; `_kept` keeps the identities alive.
        self._now: dict[int, int] = {}
        self._kept: list[Tensor] = []
        self._written: dict[int, Tensor] = {}
        self._grads: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._grads_read: dict[int, tuple[Tensor, Tensor | None]] = {}

    # the interface shared with a tracer

    def run(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Any:
        """Record a call; return the tensor, or tuple of tensors, that stands for its result.

        Raises what `Op.infer` raises, with the user's line, and `TraceError` for values of another
        graph.
        """
        inputs, attrs = prepared(op, inputs, attrs)
        state = current()
        ids: list[int] = []
        scalars: dict[str, Any] = {}
        tracked = False
        for port, value in enumerate(inputs):
            if value.__class__ is Tensor:
                ids.append(self.value_of(value))
                tracked = tracked or value.edge is not None
            else:
                scalars[port_name(op, port)] = value
        try:
            inferred = op.infer(tuple(map(spec_of, inputs)), attrs)
        except Exception as error:
            raise explained(op, inputs, attrs, error) from None
        specs = inferred if isinstance(inferred, tuple) else (inferred,)
        node = self.add(op, tuple(ids), {**scalars, **attrs}, specs, state)
        if traits_of(op.name).state == "replaces":
            self.assigned(inputs[0], node)
        tracked = tracked and state.recording and op.vjp is not None
        datas = tuple(
            Abstract(spec, self, value) for spec, value in zip(specs, node.outputs, strict=True)
        )
        edge: Edge = (next_seq(), op, inputs, attrs)
        if isinstance(inferred, tuple):
            bundle = Bundle(datas, edge, node.outputs)
            results = bundle.tensors()
            if not tracked:
                for output in results:
                    output.edge = None
            return results
        result = make(datas[0])
        if tracked and datas[0].dtype.kind in SMOOTH:
            result.edge = edge
        return result

    def assigned(self, target: Tensor, node: Node) -> None:
        """Note that ``target`` has the value of ``node`` from here on."""
        self._now[id(target)] = node.outputs[0]
        self._written[id(target)] = target

    def store(self, target: Tensor, assigned: Tensor) -> None:
        """Let ``target``, if it is a value of the graph, refer to its new value."""
        if isinstance(target.data, Abstract):
            target.data = assigned.data

    def leaf(self, tensor: Tensor) -> int:
        """Take in a newly created tensor: its array becomes part of the graph."""
        self.made.add(id(tensor))
        return self.value_of(tensor, made_here=True)

    def new_state(self, tensor: Tensor) -> None:
        """Take in a generator's key created by the program: each call begins with this one."""
        self.leaf(tensor)

    def updating(self) -> contextlib.AbstractContextManager[None]:
        """Mark assignments inside the block as side updates, such as running statistics."""
        return contextlib.nullcontext()

    def new_parameter(self, tensor: Tensor) -> None:
        """Note a parameter created while building."""

    def new_optimizer(self, optimizer: Any) -> None:
        """Note an optimizer created while building."""

    def same(self, other: Tensor, tensor: Tensor) -> None:
        """Note that ``other`` is ``tensor`` before it was written to."""
        value = self._now.pop(id(tensor), None)
        if value is not None:
            self._now[id(other)] = value
            self._kept.append(other)

    def pair(self, value: Tensor, gradient: Tensor) -> None:
        """Note that ``gradient`` is the gradient of ``value``."""
        self.gradients[self.value_of(value)] = self.value_of(gradient)

    def began(self, root: Tensor, site: Instruction) -> None:
        """Note that a backward pass begins at a number."""
        self.losses[self.value_of(root)] = site

    def began_at(self, value: int) -> Instruction | None:
        """Where a backward pass began at a value, or at the value that it was detached from; None
        if none did.
        """
        while value not in self.losses and (node := self._producer.get(value)) is not None:
            if node.op != "detach":
                break
            value = node.inputs[0]
        return self.losses.get(value)

    @contextlib.contextmanager
    def backward(self) -> Iterator[Callable[[Any], None]]:
        """Make operations recorded inside backward nodes; see `Tracer.backward`."""

        def place(tensor: Tensor | Bundle) -> tuple[str, int] | None:
            if isinstance(tensor, Bundle):
                value = tensor.ids[0]
            elif isinstance(data := cast(Any, tensor.data), Abstract):
                value = data.value
            else:
                value = self._now.get(id(tensor), 0)
            node = self._producer.get(value)
            return None if node is None else (node.scope, node.id)

        with backward_phase(current(), place) as differentiate:
            yield differentiate

    def optimizer(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Make operations recorded inside optimizer nodes under ``optimizer/<path>``."""
        return optimizer_phase(current(), path)

    # Values

    def value_of(self, tensor: Tensor, *, made_here: bool = False) -> int:
        """The value id of a tensor in this graph; a tensor from outside is taken in.

        Raises:
            TraceError: The tensor belongs to another graph.
        """
        tensor = settled(tensor)
        data: Any = tensor.data
        if data.__class__ is Abstract:
            if data.graph is self:
                return data.value
            if not self._inside(data.graph):
                raise escaped(data)
        known = self._now.get(id(tensor))
        if known is not None:
            return known
        kind = getattr(tensor, "_kind", "tensor")
        with self.lock:
            baked = data.__class__ is not Abstract and (made_here or kind == "constant")
            if baked and self.parent is not None:
                self.parent.value_of(tensor, made_here=True)  # bodies hold no arrays
            if baked and self.parent is None:
                value = self._constant(tensor)
            else:
                value = self._capture(tensor, kind)
            self._now[id(tensor)] = value
            self._kept.append(tensor)
        return value

    def current_of(self, tensor: Tensor) -> Tensor:
        """The value of an outside tensor at this point of the graph."""
        spec = spec_of(tensor)
        return make(Abstract(spec, self, self.value_of(tensor)))

    def _inside(self, other: Any) -> bool:
        around = self.parent
        while around is not None:
            if around is other:
                return True
            around = around.parent
        return False

    def _constant(self, tensor: Tensor) -> int:
        scope, _, label = tensor.name.rpartition("/")
        node = self.add(
            ops.get("constant"), (), {}, (spec_of(tensor),), current(), label=label or "constant",
            scope=scope if label else None,
        )  # fmt: skip
        self.arrays[node.outputs[0]] = tensor.data
        return node.outputs[0]

    def _capture(self, tensor: Tensor, kind: str) -> int:
        scope, _, label = tensor.name.partition(":")[0].rpartition("/")
        node = self.add(
            ops.get("parameter" if kind == "parameter" else "placeholder"), (), {},
            (spec_of(tensor),), current(), label=label or "captured", scope=scope,
        )  # fmt: skip
        self.inputs.append(node.outputs[0])
        self.captures.append((tensor, node.outputs[0]))
        return node.outputs[0]

    def placeholder(self, spec: TensorSpec, name: str = "input", *, grad: bool = False) -> Tensor:
        """A tensor that stands for an argument; with ``grad``, it requires a gradient."""
        node = self.add(ops.get("placeholder"), (), {}, (spec,), current(), label=name)
        value = node.outputs[0]
        self.inputs.append(value)
        result = make(Abstract(spec, self, value), name=node.name)
        if grad and result.dtype.kind in SMOOTH:
            result.edge = LEAF
        return result

    def host(
        self, reader: Callable[[], dict[str, float]], names: Iterable[str], dtype: Any, scope: str
    ) -> dict[str, Tensor]:
        """Scalars that ``reader`` returns before each call of the graph, as tensors by name.

        A reader is called once per call, however many dtypes its numbers are needed in.
        """
        tensors = {}
        with self.lock, optimizer_phase(current(), ""):
            for name in names:
                key = f"{name}:{dtype}"
                ids = next((ids for known, ids in self.hosts if known == reader), None)
                if ids is None:
                    ids = {}
                    self.hosts.append((reader, ids))
                spec = TensorSpec((), str(dtype))
                if key not in ids:
                    node = self.add(
                        ops.get("placeholder"), (), {}, (spec,), current(), label=name, scope=scope
                    )
                    ids[key] = node.outputs[0]
                    self.inputs.append(ids[key])
                tensors[name] = make(Abstract(spec, self, ids[key]))
        return tensors

    # State

    def read_grad(self, tensor: Tensor) -> Tensor | None:
        """The future ``tensor.grad``: as set here, or as before the call."""
        known = self._grads.get(id(tensor))
        if known is not None:
            return known[1]
        before: Tensor | None = getattr(tensor, "_grad", None)
        gradient: Tensor | None = None
        if before is not None:
            gradient = self.placeholder(spec_of(before), "gradient")
        self._grads_read[id(tensor)] = (tensor, gradient)
        self._grads[id(tensor)] = (tensor, gradient)
        return gradient

    def write_grad(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """Set ``tensor.grad`` for the following operations, and after each call."""
        self._grads[id(tensor)] = (tensor, gradient)
        self._kept.append(tensor)

    @property
    def writes(self) -> list[tuple[Tensor, int]]:
        """Outside tensors that are assigned to, with the ids of their new values."""
        return [(tensor, self._now[key]) for key, tensor in self._written.items()]

    @property
    def grads(self) -> list[tuple[Tensor, Tensor | None]]:
        """Outside tensors whose ``.grad`` changes, with the new gradient."""
        read = {key: gradient for key, (_, gradient) in self._grads_read.items()}
        return [
            (tensor, after)
            for key, (tensor, after) in self._grads.items()
            if key not in read or read[key] is not after
        ]

    @property
    def grads_read(self) -> list[tuple[Tensor, Tensor | None]]:
        """Outside tensors whose ``.grad`` is read, with its input; None if it must be None before a
        call.
        """
        return list(self._grads_read.values())

    # Nodes

    def add(
        self,
        op: Op,
        inputs: tuple[int, ...],
        attrs: Attrs,
        specs: tuple[TensorSpec, ...],
        state: State,
        *,
        label: str = "",
        scope: str | None = None,
    ) -> Node:
        """Append a node and its values."""
        place = state.scope if scope is None else scope
        with self.lock:
            self.check_open()
            name = self.unique_name(join(place, label or op.name))
            first = len(self.values) + 1
            values = tuple(
                Value(first + port, spec, f"{name}:{port}" if port else name)
                for port, spec in enumerate(specs)
            )
            node = Node(
                id=len(self.nodes) + 1,
                name=name,
                op=op.name,
                family=op.family,
                inputs=inputs,
                control_inputs=self.control_inputs(inputs),
                outputs=tuple(value.id for value in values),
                attrs=attrs,
                scope=place,
                phase=state.phase,
                device=self.device(op.name),
                source=user_source(),
                forward=state.forward,
                role=op.role,
                writes=op.writes,
            )
            self.nodes.append(node)
            self.values.extend(values)
            for value in values:
                self._producer[value.id] = node
        return node

    def unique_name(self, base: str) -> str:
        """``base``, or ``base_1`` and so on if it is taken. Names differ in more than case."""
        key = base.lower()
        count = self._names.get(key, 0)
        self._names[key] = count + 1
        if not count:
            return base
        name = f"{base}_{count}"
        while name.lower() in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names[key] = count + 1
        self._names[name.lower()] = 1
        return name

    def enter_scope(self, scope: str, name: str) -> tuple[str, str]:
        """The scope path inside of ``name_scope(name)``, and the name that its user receives."""
        path = join(scope, name)
        return path, path

    def producer(self, value: int) -> Node:
        """The node that produces a value."""
        return self._producer[value]

    def node_id(self, tensor: Tensor) -> int | None:
        """The id of the node that produced a tensor, if it belongs to this graph."""
        data: Any = tensor.data
        value = data.value if data.__class__ is Abstract else self._now.get(id(tensor), 0)
        node = self._producer.get(value)
        return None if node is None else node.id

    def known(self, tensor: Tensor) -> int | None:
        """The value id of an outside tensor that has been taken in."""
        return self._now.get(id(tensor))

    def put_back(self, tensor: Tensor, value: int | None) -> None:
        """Restore an outside tensor to the value that `known` returned."""
        if value is None:
            self._now.pop(id(tensor), None)
        else:
            self._now[id(tensor)] = value

    def check_open(self) -> None:
        """Raise if nothing may be added any more; graphs built by hand can be finalized."""

    def control_inputs(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """Ids of nodes that a new node has to wait for."""
        return ()

    def device(self, op: str) -> str:
        """The device of a new node."""
        return self.devices.here(op) or "cpu"

    def finish(self, outputs: Iterable[int]) -> Graph:
        """The graph so far, as data."""
        with self.lock:
            return Graph(
                id=self.id,
                kind=self.kind,
                inputs=tuple(self.inputs),
                outputs=tuple(outputs),
                nodes=tuple(self.nodes),
                values=tuple(self.values),
                constants=tuple(self.arrays),
            )


def prepared(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> tuple[tuple[Any, ...], Attrs]:
    """A call in recorded form: with the current values of written tensors, without known masks."""
    if Written in map(type, inputs):
        inputs = tuple(map(settled, inputs))
    return _selected(op, inputs, attrs) if op.name in _SELECTING else (inputs, attrs)


_SELECTING = {"getitem": 1, "index_set": 2, "index_add": 1}
"""Ops that take indices, and the number of inputs before the index arrays."""


def _selected(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> tuple[tuple[Any, ...], Attrs]:
    """The call with known masks replaced by the indices where they are True, so that the result's
    shape is known.
    """
    first = _SELECTING[op.name]
    arrays = inputs[first:]
    masks = [
        array.data
        if array.__class__ is Tensor and array.data.__class__ is np.ndarray and array.data.ndim
        and array.data.dtype == bool and getattr(array, "_kind", "") == "constant"
        else None
        for array in arrays
    ]  # fmt: skip
    if all(m is None for m in masks):
        return inputs, attrs
    shape = attrs["shape"] if op.name == "index_add" else settled(inputs[0]).shape
    check_masks(op.name, shape, attrs["index"], tuple(map(spec_of, arrays)))
    index: list[Any] = []
    index_tensors: list[Tensor] = []
    for item in attrs["index"]:
        if not isinstance(item, Port):
            index.append(item)
            continue
        mask = masks[item.port]
        places = [arrays[item.port]] if mask is None else [
            make(positions, kind="constant") for positions in np.nonzero(mask)
        ]  # fmt: skip
        index.extend(Port(len(index_tensors) + i) for i in range(len(places)))
        index_tensors.extend(places)
    return (*inputs[:first], *index_tensors), {**attrs, "index": tuple(index)}
