"""Dynamic sizes: one trace that serves many sizes of a leading dimension.

The function is traced at several distinctive sizes; nothing is computed. If the traces differ only
in numbers that follow from the size, the graph for any other size is made by substituting them. A
program whose control flow may depend on the size is refused.

Invariant: sizes below 2 are never served, because they broadcast; a graph for a size is the one
that tracing at that size gives, as far as the tried sizes can tell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nodescope.engine.static.entry import Entry
from nodescope.engine.static.joint import Joint
from nodescope.engine.static.signature import HELD, OWN, Form, differences, static_key
from nodescope.engine.static.sizes import Fitted, Size, SizeWatch, Unfit, fit, fit_array
from nodescope.engine.static.tracing import TooLong, Traced, Tracing, trace
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import Tensor, alias
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.ops.op import Array

DynamicSetting = None | bool | tuple[str, ...]
Function = Callable[[], Callable[..., Any]]
"""Returns the user's function; may hold its instance weakly."""

TRIED = (2, 3, 251, 1021)
"""Sizes that are traced: the smallest, and primes unlikely to occur as other dimensions."""


def check_setting(dynamic: Any) -> DynamicSetting:
    """``dynamic=`` as given by the user, validated."""
    if dynamic is None or isinstance(dynamic, bool):
        return dynamic
    return (dynamic,) if isinstance(dynamic, str) else tuple(dynamic)


class Resized(Tracing):
    """A copy of a trace's builder, with the numbers of another size."""

    def __init__(
        self, other: Tracing, nodes: list[Node], values: list[Value], arrays: dict[int, Array]
    ) -> None:
        vars(self).update(vars(other))
        self.other = other
        self.nodes, self.values = nodes, values
        self.arrays = {**other.arrays, **arrays}
        self.originals = dict(other.originals)
        for value, array in arrays.items():
            stand_in = alias(self.originals[value])
            stand_in.data = array
            self.originals[value] = stand_in

    def value_of(self, tensor: Tensor, *, made_here: bool = False) -> int:
        """See `Builder.value_of`."""
        data: Any = tensor.data
        value: int = data.value if data.__class__ is Abstract else self.other.value_of(tensor)
        return value


@dataclass
class Family:
    """The graphs of one function that differ in one size.

    Attributes:
        entry: The graph that was traced with arrays.
        positions: Argument leaves with this leading dimension.
        attrs: How attributes depend on the size, by index of the node.
        shapes: How shapes depend on it, by index of the value.
        static: How numbers in the result depend on it, by index.
        arrays: How constants depend on it, by value id.
        count: Number of nodes, including those of the derivative.
    """

    function: Function
    entry: Entry
    positions: tuple[int, ...]
    attrs: dict[int, Fitted]
    shapes: dict[int, Fitted]
    static: dict[int, Fitted]
    arrays: dict[int, Fitted]
    count: int

    @property
    def names(self) -> str:
        """The arguments, as text."""
        return ", ".join(self.entry.traced.form.arguments[i].path for i in self.positions)

    def size(self, form: Form, recording: bool) -> int:
        """The size in a call with these arguments; 0 if the call does not belong to the family."""
        own = self.entry.traced
        if recording is not own.recording or not _alike(own.form, form, self.positions):
            return 0
        sizes = {_shape(form, position)[0] for position in self.positions}
        return sizes.pop() if len(sizes) == 1 and min(sizes) >= 2 else 0

    def sized(self, n: int, form: Form) -> Entry:
        """The graph for one size."""
        base = self.entry.traced
        nodes = [
            node if (attrs_of := self.attrs.get(i)) is None
            else dataclass_like(node, attrs=attrs_of(n))
            for i, node in enumerate(base.builder.nodes[: self.count])
        ]  # fmt: skip
        values = [
            value if (shape := self.shapes.get(i)) is None
            else dataclass_like(value, spec=TensorSpec(shape(n), value.spec.dtype))
            for i, value in enumerate(base.builder.values)
        ]  # fmt: skip
        arrays = {value: array(n) for value, array in self.arrays.items()}
        results = [
            (kind, self.static[i](n)) if i in self.static else (kind, result)
            for i, (kind, result) in enumerate(base.results)
        ]
        traced = dataclasses.replace(
            base, form=form.forgotten(), builder=Resized(base.builder, nodes, values, arrays),
            results=results,
        )  # fmt: skip
        own = self.entry
        joint = None
        if own.joint is not None:
            joint = own.joint.resized(traced, nodes, lambda: self._static(n))
        return Entry(traced, own.guards, own.name, own.given_away, wish=own.lowering.wish,
                     joint=joint, patience=1)  # fmt: skip

    def _static(self, n: int) -> Joint:
        """The derivative of a new trace at one size, for sets of results not covered by the
        family.
        """
        base = self.entry.traced
        specs = {position: _with(base.form, position, n) for position in self.positions}
        traced = trace(self.function(), base.form, base.recording, specs=specs)
        joint = Joint.of(traced, self.entry.name, self.entry.lowering.wish)
        assert joint is not None
        return joint


def dataclass_like(struct: Any, **changes: Any) -> Any:
    """A copy of a node or value with other fields."""
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return type(struct)(**{**fields, **changes})


class Dynamic:
    """The families of a compiled function.

    Args:
        setting: The user's setting.
    """

    def __init__(self, setting: DynamicSetting) -> None:
        self.setting = setting
        self._families: list[Family] = []
        self._refused: dict[Any, str] = {}

    def find(
        self, form: Form, recording: bool, leaves: list[Any]
    ) -> tuple[Entry, str] | None:  # fmt: skip
        """A graph for these arguments from a family, with a message for `explain`."""
        for family in self._families:
            n = family.size(form, recording)
            if n and not family.entry.stale(leaves):
                return family.sized(n, form), f"the leading dimension of {family.names} is dynamic"
        return None

    def grow(
        self, function: Function, entries: Sequence[Entry], form: Form, recording: bool
    ) -> bool:
        """Make a family if the arguments differ from earlier ones only in one leading size."""
        if self.setting is False:
            return False
        for entry in reversed(entries):
            traced = entry.traced
            if traced.recording is not recording or isinstance(traced.builder, Resized):
                continue
            positions = _differing(traced.form, form)
            if positions and self._named(traced.form, positions):
                return self._try(function, entry, positions)
        return False

    def begin(self, function: Function, entry: Entry) -> str:
        """Make a family from a first graph, if the user asked for it; returns a message for
        `explain`.
        """
        if self.setting is None or self.setting is False:
            return ""
        form = entry.traced.form
        positions = tuple(i for i in form.dynamic if _may(form, i) and self._named(form, (i,)))
        if not positions:
            return "no dimension is dynamic: no argument has a leading dimension of 2 or more"
        n = _shape(form, positions[0])[0]
        if self.setting is True:
            positions = tuple(i for i in positions if _shape(form, i)[0] == n)
        elif any(_shape(form, i)[0] != n for i in positions):
            return "no dimension is dynamic: the named arguments have different leading dimensions"
        if self._try(function, entry, positions):
            return f"the leading dimension of {self._families[-1].names} is dynamic"
        return self._refused[positions]

    def notes(self) -> tuple[str, ...]:
        """Why dimensions are not dynamic."""
        return tuple(dict.fromkeys(self._refused.values()))

    def _named(self, form: Form, positions: tuple[int, ...]) -> bool:
        if not isinstance(self.setting, tuple):
            return True
        paths = [form.arguments[i].path for i in positions]
        return all(
            any(path == name or path.startswith((f"{name}[", f"{name}.")) for name in self.setting)
            for path in paths
        )

    def _try(self, function: Function, entry: Entry, positions: tuple[int, ...]) -> bool:
        if positions in self._refused:
            return False
        try:
            self._families.append(_family(function, entry, positions))
        except Unfit as unfit:
            form = entry.traced.form
            names = ", ".join(form.arguments[i].path for i in positions)
            self._refused[positions] = f"the leading dimension of {names} is not dynamic: {unfit}"
            return False
        return True


def _may(form: Form, position: int) -> bool:
    """Whether an argument leaf may have a dynamic leading dimension."""
    argument = form.arguments[position]
    shape = _shape(form, position)
    return argument.role not in (OWN, HELD) and bool(shape) and shape[0] >= 2


def _shape(form: Form, position: int) -> tuple[int, ...]:
    spec = form.arguments[position].spec
    assert spec is not None
    return spec.shape


def _with(form: Form, position: int, n: int) -> TensorSpec:
    spec = form.arguments[position].spec
    assert spec is not None
    return TensorSpec((n, *spec.shape[1:]), spec.dtype)


def _alike(first: Form, other: Form, positions: tuple[int, ...]) -> bool:
    """Whether two calls differ at most in the leading dimensions of some leaves."""
    if (first.names, first.structures, first.same) != (other.names, other.structures, other.same):
        return False
    for i, (a, b) in enumerate(zip(first.arguments, other.arguments, strict=True)):
        if a.role != b.role or (a.spec is None) is not (b.spec is None):
            return False
        if a.spec is None or b.spec is None:
            if static_key(a.value) != static_key(b.value):
                return False
        elif a.spec != b.spec:
            shapes = a.spec.shape, b.spec.shape
            if i not in positions or a.spec.dtype != b.spec.dtype or not all(shapes):
                return False
            if shapes[0][1:] != shapes[1][1:]:
                return False
    return True


def _differing(first: Form, other: Form) -> tuple[int, ...]:
    """The leaves in which two calls differ, if all of them differ only in the leading size, and by
    the same two sizes.
    """
    if not differences(first, other) or len(first.arguments) != len(other.arguments):
        return ()
    differing = tuple(
        i for i, (a, b) in enumerate(zip(first.arguments, other.arguments, strict=True))
        if a.spec != b.spec
    )  # fmt: skip
    if not _alike(first, other, differing) or not all(
        _may(first, i) and _may(other, i) for i in differing
    ):
        return ()
    sizes = {(_shape(first, i)[0], _shape(other, i)[0]) for i in differing}
    return differing if len(sizes) == 1 else ()


def _family(function: Function, entry: Entry, positions: tuple[int, ...]) -> Family:
    """Trace at several sizes and derive the dependence on the size. Raises `Unfit`."""
    base = entry.traced
    shapes = [v.spec.shape for v in base.builder.values]
    own = _shape(base.form, positions[0])[0]
    count = base.mark
    if entry.joint is not None:
        if entry.joint.full is None:
            raise Unfit("the function has no derivative as a graph")
        count += len(entry.joint.full.nodes)
    traces: list[Traced] = []
    for n in TRIED:
        watch = SizeWatch()
        traces.append(_tried(function, entry, positions, n, watch, shapes, count))
        if watch.noticed:
            raise Unfit(watch.noticed)
    all_traces = [base, *traces]
    sizes = [own, *TRIED]
    if own in TRIED:
        all_traces, sizes = all_traces[1:], sizes[1:]
    for other in traces:
        _check_alike(base, other, count)
    nodes = [trace_.builder.nodes[:count] for trace_ in all_traces]
    attrs = {}
    for i, row in enumerate(zip(*nodes, strict=True)):
        fitted = fit([node.attrs for node in row], sizes, _called(row[0], "a number"))
        if fitted is not None:
            attrs[i] = fitted
    moved = {}
    last = max((max(node.outputs, default=0) for node in nodes[0]), default=0)
    for i in range(last):
        fitted = fit(
            [trace_.builder.values[i].spec.shape for trace_ in all_traces], sizes, "a shape"
        )
        if fitted is not None:
            moved[i] = fitted
    arrays = {}
    for node in nodes[0]:
        if node.op == "constant":
            value = node.outputs[0]
            array_values = [trace_.builder.arrays[value] for trace_ in all_traces]
            fitted = fit_array(array_values, sizes, _called(node, "an array made"))
            if fitted is not None:
                arrays[value] = fitted
    static = {}
    for i, (kind, _) in enumerate(base.results):
        if kind == "static":
            fitted = fit(
                [trace_.results[i][1] for trace_ in all_traces], sizes, "a number that it returns"
            )
            if fitted is not None:
                static[i] = fitted
    return Family(function, entry, positions, attrs, moved, static, arrays, count)


def _tried(
    function: Function, entry: Entry, positions: tuple[int, ...], n: int, watch: SizeWatch,
    shapes: list[tuple[int, ...]], count: int,
) -> Traced:  # fmt: skip
    base = entry.traced
    specs = {position: _with(base.form, position, Size(n, watch)) for position in positions}

    def resize(value: int, spec: TensorSpec) -> TensorSpec:
        if value > len(shapes) or len(shapes[value - 1]) != len(spec.shape):
            return spec
        return TensorSpec(
            tuple(
                Size(new, watch) if new != old and new.__class__ is int else new
                for old, new in zip(shapes[value - 1], spec.shape, strict=True)
            ),
            spec.dtype,
        )

    try:
        traced = trace(
            function(), base.form, base.recording, specs=specs, limit=2 * count + 16, resize=resize
        )
        traced.builder.resize, traced.builder.limit = None, None
        if (Joint.of(traced, entry.name, entry.lowering.wish) is None) is not (entry.joint is None):
            raise Unfit("what has a gradient depends on it")
    except TooLong:
        raise Unfit("the number of operations depends on it, as in a loop over it") from None
    except Unfit:
        raise
    except Exception as error:
        problem = error.message if isinstance(error, NodescopeError) else str(error)
        raise Unfit(
            watch.noticed or f"with size {n} it fails: {problem} ({getattr(error, 'source', '')})"
        ) from None
    return traced


def _check_alike(base: Traced, other: Traced, count: int) -> None:
    """Check that two traces are equal except for numbers. Raises `Unfit`."""
    nodes, other_nodes = base.builder.nodes[:count], other.builder.nodes
    for a, b in zip(nodes, other_nodes, strict=False):
        if (a.op, a.inputs, a.outputs, a.phase, a.scope, a.forward) != (
            b.op, b.inputs, b.outputs, b.phase, b.scope, b.forward,
        ):  # fmt: skip
            raise Unfit(_called(a, "the operation") + " depends on it")
    if len(nodes) != len(other_nodes) or base.mark != other.mark:
        raise Unfit("the number of operations depends on it")
    if _state(base) != _state(other):
        raise Unfit("what it returns or changes depends on it")


def _state(traced: Traced) -> Any:
    def place(binding: Any) -> Any:
        return binding if isinstance(binding, int) else id(binding)

    value = traced.builder.value_of
    return (
        traced.structure,
        [(kind, result if kind in ("leaf", "value") else kind) for kind, result in traced.results],
        [(value(tensor), tensor.edge is None) for tensor in traced.tensors],
        [(place(binding), tensor) for binding, tensor in traced.writes],
        [(place(binding), tensor is None or value(tensor)) for binding, tensor in traced.grads],
        [(place(binding), tensor is None or value(tensor)) for binding, tensor in traced.reads],
        [place(binding) for binding, _ in traced.inputs],
    )


def _called(node: Node, subject: str) -> str:
    return (
        f"{subject} of {node.name} ({node.source})" if node.source else f"{subject} of {node.name}"
    )
