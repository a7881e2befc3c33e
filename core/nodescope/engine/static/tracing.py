"""Tracing: runs a function once on unknown values, to get its graph.

Invariant: a trace leaves no visible change in the program, however it ends.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.tape import ALIAS
from nodescope.engine.building import Builder, prepared
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.static.signature import ASKS, HELD, OWN, WANTS, Form
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import LEAF, NO_ATTRS, Attrs, Tensor, make, next_seq, origin, settled
from nodescope.engine.trees import Structure, flatten, unflatten
from nodescope.errors import ShapeError, TraceError
from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Op

Binding = int | Tensor
"""A tensor that a graph reads or writes: a leaf of the arguments by position, or a tensor from
outside that stays the same from call to call.
"""


class TooLong(Exception):
    """A trace exceeds its limit of nodes."""


class Tracing(Builder):
    """The builder of a compiled function's graph.

    Args:
        limit: The limit of nodes, if there is one.

    Attributes:
        taped: By node id: whether the call was put on the tape, and which of its tensor inputs had
            a history.
        written: Outside tensors that were written to, by ``id`` of their captured state.
        originals: The tensors that constants were made from, by value id.
        arguments: The stand-ins of arguments by ``id`` of the arguments; after the trace, only
            those of ``tied``.
        tied: Arguments that the function also captures, by ``id``.
        foreign: Stand-ins of arguments computed from tensors that require a gradient, by ``id``.
    """

    def __init__(self, limit: int | None = None) -> None:
        super().__init__("static")
        self.limit = limit
        self.taped: dict[int, tuple[bool, tuple[bool, ...]]] = {}
        self.written: dict[int, Tensor] = {}
        self.originals: dict[int, Tensor] = {}
        self.arguments: dict[int, Tensor] = {}
        self.tied: dict[int, Tensor] = {}
        self.foreign: dict[int, Any] = {}
        self.resize: Callable[[int, TensorSpec], TensorSpec] | None = None

    def run(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Any:
        """See `Builder.run`."""
        inputs, attrs = prepared(op, inputs, attrs)
        histories = tuple(
            operand.edge is not None for operand in inputs if operand.__class__ is Tensor
        )
        try:
            result = super().run(op, inputs, attrs)
        except ShapeError as error:
            if "depends on" in error.message and "values" in error.message:
                raise TraceError(
                    error.message, source=error.source or where(),
                    hint=error.hint or "select with np.where, or do it outside the compiled "
                    "function",
                ) from None  # fmt: skip
            raise
        first = result[0] if result.__class__ is tuple and result else result
        recorded = first.__class__ is Tensor and first.edge is not None
        self.taped[self.nodes[-1].id] = (recorded, histories)
        if self.resize is not None:
            self._resized(result if result.__class__ is tuple else (result,))
        return result

    def _resized(self, results: tuple[Tensor, ...]) -> None:
        assert self.resize is not None
        for result in results:
            data: Any = result.data
            spec = TensorSpec(data.shape, data.dtype.name)
            data.shape = self.resize(data.value, spec).shape

    def add(self, *args: Any, **kwargs: Any) -> Any:
        """See `Builder.add`."""
        if self.limit is not None and len(self.nodes) >= self.limit:
            raise TooLong
        return super().add(*args, **kwargs)

    def value_of(self, tensor: Tensor, *, made_here: bool = False) -> int:
        """See `Builder.value_of`."""
        now = settled(tensor)
        if now is not tensor:
            self.written[id(now)] = tensor
        return super().value_of(self._tie(now), made_here=made_here)

    def _tie(self, tensor: Tensor) -> Tensor:
        """The stand-in of an outside tensor that is also an argument; else the tensor."""
        stand_in = self.arguments.get(id(tensor))
        if stand_in is None:
            return tensor
        self.tied[id(tensor)] = tensor
        return stand_in

    def read_grad(self, tensor: Tensor) -> Tensor | None:
        """See `Builder.read_grad`."""
        return super().read_grad(self._tie(tensor))

    def new_parameter(self, tensor: Tensor) -> None:
        """Refuse a parameter created in the function: each call would create another."""
        raise TraceError(
            f"a parameter ({tensor.name or 'unnamed'}) is created inside a compiled function",
            source=where(),
            hint="create it once outside, or make a tensor with nodescope.tensor",
        )

    def new_optimizer(self, optimizer: Any) -> None:
        """Refuse an optimizer created in the function: its state would start anew on each call."""
        raise TraceError(
            f"an optimizer ({type(optimizer).__name__}) is created inside a compiled function",
            source=where(),
            hint="create it once outside the function",
        )

    def start_step(self) -> None:
        """Refuse a training step that begins inside: a graph runs within one step."""
        raise TraceError(
            "a training step begins inside a compiled function",
            source=where(),
            hint="compile what one step does, and loop with nodescope.steps around it",
        )

    def device(self, op: str) -> str:
        """See `Builder.device`; a derivative runs on its forward node's device, if one is set."""
        forward = current().forward
        if forward is not None and forward <= len(self.nodes):
            device = self.nodes[forward - 1].device
            if device != "cpu":
                return device
        return super().device(op)

    def _constant(self, tensor: Tensor) -> int:
        value = super()._constant(tensor)
        self.originals[value] = tensor
        return value

    def write_grad(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """See `Builder.write_grad`."""
        if id(tensor) in self.foreign:
            raise _history(self.foreign[id(tensor)])
        super().write_grad(self._tie(tensor), gradient)

    @contextlib.contextmanager
    def backward(self) -> Iterator[Callable[[Any], None]]:
        """See `Builder.backward`.

        Raises:
            TraceError: A backward pass continues through values computed outside.
        """
        with super().backward() as differentiate:

            def checked(tensor: Any) -> None:
                data = tensor.data
                outside = (data[0] if data.__class__ is tuple else data).__class__ is not Abstract
                edge = tensor.edge
                if outside and edge is not None and edge is not LEAF:
                    raise _history(tensor)
                differentiate(tensor)

            yield checked


def _history(tensor: Any) -> TraceError:
    name = getattr(tensor, "name", "")
    return TraceError(
        f"backward inside a compiled function reaches {name or 'a tensor'}, which was computed "
        "outside it",
        source=where(),
        hint="compute it inside, call backward outside, or cut the graph with .detach()",
    )


@dataclass
class Traced:
    """The recording of one run of a function.

    Attributes:
        form: The arguments of the call, without the fed leaves.
        recording: Whether a tape was kept.
        builder: The nodes.
        fed: Value ids of the stand-ins, with the positions of the argument leaves they stand for.
        structure: The form of the result.
        results: The kind of each leaf of the result: ``("leaf", position)``, ``("outside",
            tensor)``, ``("made", tensor)``, ``("static", object)`` or ``("value", position in
            tensors)``.
        tensors: The distinct tensors that the graph returns.
        writes: Assigned tensors, with the ids of their new values.
        grads: Tensors that get another ``.grad``, with the new gradient.
        reads: Tensors whose ``.grad`` is read, with the stand-in, None if it must be None.
        inputs: Tensors that gradients may flow to, with their stand-ins.
        tied: Arguments, by position, that the function also captures.
        mark: Number of nodes of the forward graph.
    """

    form: Form
    recording: bool
    builder: Tracing
    fed: dict[int, int] = field(default_factory=dict)
    structure: Structure | None = None
    results: list[tuple[str, Any]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    writes: list[tuple[Binding, int]] = field(default_factory=list)
    grads: list[tuple[Binding, Tensor | None]] = field(default_factory=list)
    reads: list[tuple[Binding, Tensor | None]] = field(default_factory=list)
    inputs: list[tuple[Binding, Tensor]] = field(default_factory=list)
    own: dict[int, int] = field(default_factory=dict)
    tied: list[tuple[int, Tensor]] = field(default_factory=list)
    mark: int = 0

    def binding(self, tensor: Tensor) -> Binding:
        """Where a later call finds a tensor that the graph reads or writes."""
        return self.own.get(id(tensor), self.builder.written.get(id(tensor), tensor))


def trace(
    function: Callable[..., Any],
    form: Form,
    recording: bool,
    *,
    specs: dict[int, TensorSpec] | None = None,
    limit: int | None = None,
    resize: Callable[[int, TensorSpec], TensorSpec] | None = None,
) -> Traced:
    """Run ``function`` on stand-ins for the leaves of ``form``.

    Args:
        specs: Other specs for some leaves, by position.
        limit: The limit of nodes, beyond which `TooLong` is raised.
        resize: Returns another spec for a newly recorded value, see `Builder`.

    Raises:
        TraceError: The function does something that a graph cannot; its own exceptions pass.
    """
    builder = Tracing(limit)
    traced = Traced(form.forgotten(), recording, builder)
    with dispatch_mode.building(builder):
        current().recording = recording
        leaves: list[Any] = list(form.leaves)
        builder.resize = resize
        stand_ins: dict[int, Tensor] = {}  # by position of the first leaf with the same object
        for position in form.dynamic:
            value, argument = leaves[position], form.arguments[position]
            if argument.role in (OWN, HELD):
                traced.own.setdefault(id(value), position)
                continue
            known = stand_ins.get(form.same[position])
            if known is None:
                spec = (specs or {}).get(position, argument.spec)
                assert spec is not None
                known = builder.placeholder(spec, _label(argument.path))
                stand_ins[form.same[position]] = known
                traced.fed[_value(known)] = position
                if value.__class__ is Tensor:
                    builder.arguments[id(value)] = known
                if argument.role == ASKS:
                    known.edge = LEAF
                    known._grad = getattr(value, "_grad", None)
                    traced.own[id(known)] = position
                elif argument.role == WANTS and recording:
                    _with_history(known, builder, value)
                if argument.role in (ASKS, WANTS) and recording:
                    traced.inputs.append((position, known))
            leaves[position] = known
        args, kwargs = _arguments(form, leaves)
        result = function(*args, **kwargs)
        _results(
            traced,
            result,
            {id(stand_in): traced.fed[_value(stand_in)] for stand_in in stand_ins.values()},
        )
        _state(traced)
        traced.mark = len(builder.nodes)
    # Other arguments may be freed before a derivative is traced, and new tensors may reuse their
    # ids.
    builder.arguments = {key: builder.arguments[key] for key in builder.tied}
    return traced


def _with_history(stand_in: Tensor, builder: Tracing, value: Any) -> None:
    """Make a stand-in require a gradient like a computed tensor: it is not itself a leaf."""
    hidden = make(stand_in.data)
    hidden.edge = LEAF
    builder.foreign[id(hidden)] = value
    builder._kept.append(hidden)
    stand_in.edge = (next_seq(), ALIAS, (hidden,), NO_ATTRS)


def _arguments(form: Form, leaves: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    following = iter(leaves)
    values = [unflatten(structure, following) for structure in form.structures]
    count = form.positional
    return values[:count], dict(zip(form.names[count:], values[count:], strict=True))


def _unknown(tensor: Tensor) -> bool:
    data: Any = tensor.data
    return data.__class__ is Abstract


def _label(path: str) -> str:
    return re.sub(r"\W+", "_", path).strip("_") or "input"


def _value(tensor: Tensor) -> int:
    data: Any = tensor.data
    return data.value  # type: ignore[no-any-return]


def _results(traced: Traced, result: Any, stand_ins: dict[int, int]) -> None:
    leaves, traced.structure = flatten(result)
    positions: dict[int, int] = {}
    for leaf in leaves:
        leaf_ = settled(leaf)
        if leaf_.__class__ is not Tensor:
            traced.results.append(("static", leaf_))
        elif id(leaf_) in stand_ins:
            traced.results.append(("leaf", stand_ins[id(leaf_)]))
        elif id(leaf_) in traced.own:
            traced.results.append(("leaf", traced.own[id(leaf_)]))
        elif _unknown(leaf_):
            traced.builder.value_of(leaf_)  # raises for a value of another graph
            traced.results.append(("value", _position(traced, leaf_, positions)))
        else:
            made_here = id(leaf) in traced.builder.made
            traced.results.append(("made", leaf_) if made_here else ("outside", leaf))


def _position(traced: Traced, tensor: Tensor, positions: dict[int, int]) -> int:
    position = positions.get(id(tensor))
    if position is None:
        position = positions[id(tensor)] = len(traced.tensors)
        traced.tensors.append(tensor)
    return position


def _state(traced: Traced) -> None:
    builder = traced.builder
    traced.tied = [
        (traced.fed[_value(builder.arguments[key])], tensor) for key, tensor in builder.tied.items()
    ]
    tensors_made = builder.made
    traced.writes = [
        (traced.binding(tensor), value)
        for tensor, value in builder.writes
        if id(tensor) not in tensors_made
    ]
    traced.reads = [
        (traced.binding(tensor), stand_in)
        for tensor, stand_in in builder.grads_read
        if id(tensor) not in tensors_made
    ]
    positions = {id(tensor): i for i, tensor in enumerate(traced.tensors)}
    for tensor, gradient in builder.grads:
        if id(tensor) in tensors_made:
            continue
        if gradient is not None:
            if not _unknown(gradient):
                gradient = builder.current_of(gradient)
                builder._kept.append(gradient)
            _position(traced, gradient, positions)
        traced.grads.append((traced.binding(tensor), gradient))
    if traced.recording:
        for position, tensor in traced.tied:
            if tensor.edge is not None:
                traced.inputs.append((position, tensor))
        seen = {id(tensor) for _, tensor in traced.inputs}
        for tensor, _ in builder.captures:
            if tensor.edge is not None and id(tensor) not in seen:
                traced.inputs.append((traced.binding(tensor), tensor))


def history(tensor: Tensor, inputs: dict[int, Tensor]) -> str:
    """The kind of a result's history: ``"none"``, ``"freed"``, or ``"whole"`` back to
    ``inputs``.
    """
    if tensor.edge is None:
        return "none"
    todo: list[Any] = [tensor]
    seen = {id(tensor)}
    reached = False
    while todo:
        ancestor = todo.pop()
        if id(ancestor) in inputs:
            reached = True
            continue
        edge = ancestor.edge
        if edge is None or edge is LEAF:
            continue
        if edge[0] < 0:
            return "freed"
        for before in map(origin, edge[2]):
            if hasattr(before, "edge") and before.edge is not None and id(before) not in seen:
                seen.add(id(before))
                todo.append(before)
    return "whole" if reached else "none"
