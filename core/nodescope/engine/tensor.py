"""Tensor: an array that remembers the operations that produced it.

A tensor's ``edge`` is its place on the tape: None for a constant, `LEAF` for a tensor that requires
a gradient, else ``(seq, op, inputs, attrs)``. The tape consists of these links only, so tensors
that the program drops are freed at once, whether or not `backward` was called.

Invariant: ``data`` is an ndarray that is never written to (while a graph is built, an `Abstract`).
Operators and methods that are ops are added to the class by `engine.operators`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from nodescope.engine.signatures import Operators
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.symbolic import Abstract, refused
from nodescope.errors import DtypeError, ShapeError, UnsupportedError, UsageError
from nodescope.ir.graph import TensorSpec
from nodescope.ops.dtypes import name_of
from nodescope.ops.lowprecision import foreign, low
from nodescope.ops.op import Array, Op

Attrs = dict[str, Any]
Edge = tuple[int, Op | None, tuple[Any, ...], Attrs]

NO_ATTRS: Attrs = {}
LEAF: Edge = (0, None, (), NO_ATTRS)
FREED: Edge = (-1, None, (), NO_ATTRS)

next_seq = itertools.count(1).__next__
_SCALARS = (float, int, bool, complex)
_KINDS = "fiubc"
_WORDS = {"U": "text", "S": "bytes", "O": "objects"}
SMOOTH = "fcV"
"""Kinds of dtypes that have gradients; V is NumPy's kind for bfloat16."""


class Tensor(Operators):
    """An n-dimensional array of numbers that is traced and differentiated.

    Created by `nodescope.tensor`, `nodescope.parameter` and every operation on tensors; NumPy's
    functions accept it. ``x += y``, ``x[i] = y`` and ``out=x`` write to this tensor, and to every
    view of it, as for NumPy arrays; see `engine.writing.inplace`.

    Attributes:
        data: The underlying array. Do not write to it; `numpy` returns a read-only view of it.
    """

    __slots__ = (
        "__weakref__", "_grad", "_history", "_hooks", "_kind", "_name", "_vid", "data", "edge",
    )  # fmt: skip

    data: Array
    edge: Edge | None
    _grad: Tensor | None
    _history: Any
    _hooks: Any
    _kind: str
    _name: str
    _vid: int

    # Properties

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self.data.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """NumPy dtype of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.data.size

    @property
    def name(self) -> str:
        """The tensor's name, with its scope, or ``""``."""
        return getattr(self, "_name", "")

    @property
    def requires_grad(self) -> bool:
        """Whether the tensor requires a gradient, or was computed from one that does."""
        return self.edge is not None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` has accumulated for this leaf, or None."""
        builder = current().builder
        if builder is not None and not self._within():
            return builder.read_grad(self)  # type: ignore[no-any-return]
        return getattr(self, "_grad", None)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise UsageError(
                f"grad: expected a tensor or None, not {type(value).__name__}",
                source=where(),
                hint="wrap arrays in nodescope.tensor",
            )
        if value is not None and (value.shape, value.dtype) != (self.shape, self.dtype):
            wrong = ShapeError if value.shape != self.shape else DtypeError
            raise wrong(
                f"grad: {spec_of(value)} is not a gradient of a tensor of {spec_of(self)}",
                source=where(),
                hint="a gradient has the shape and dtype of its tensor",
            )
        builder = current().builder
        if builder is not None and not self._within():
            builder.write_grad(self, value)
        else:
            self._grad = value

    def _within(self) -> bool:
        """Whether this is a value computed in a graph being built, which is invisible outside
        it.
        """
        data: Any = self.data
        return data.__class__ is Abstract and self.edge is not LEAF

    def numpy(self) -> Array:
        """The elements as a read-only view; copy it to write."""
        check_known(self, "numpy")
        view = self.data.view()
        view.flags.writeable = False
        return view

    def item(self) -> Any:
        """The only element as a Python number; `engine.methods` adds the forms with an index.

        Raises:
            ShapeError: The tensor does not have exactly one element.
        """
        check_known(self, "item")
        if self.data.size != 1:
            raise ShapeError(
                f"item: a tensor of shape {self.shape} has {self.size} elements, not one",
                source=where(),
                hint="index or reduce it first",
            )
        return self.data.item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        check_known(self, "tolist")
        return self.data.tolist()

    def detach(self) -> Tensor:
        """The same value without its history: no gradient flows through it."""
        return _alias(self) if _detached is None else _detached(self)

    def backward(
        self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Add the gradient of this tensor to ``.grad`` of every leaf that it was computed from.

        Args:
            gradient: The gradient to start with; 1 for a scalar.
            retain_graph: Whether to keep the tape, so that it can be used again.
            create_graph: Whether the gradients can themselves be differentiated.

        Raises:
            GradientError: The tensor has no history, its tape was already used, or it is not a
                scalar and ``gradient`` is missing.
        """
        global _backward
        if _backward is None:  # imported late, because that module imports this one
            from nodescope.engine.autodiff.backward import backward as _backward
        _backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph)

    def register_hook(self, function: Callable[[Tensor], Any]) -> Any:
        """Call ``function`` with the gradient of this tensor in each backward pass.

        If it returns a gradient instead of None, that replaces the gradient, for this tensor and
        for everything it was computed from. Hooks run in order of registration. As in PyTorch.

        Returns:
            A handle with `remove`.

        Raises:
            GradientError: No gradient flows to this tensor.
        """
        from nodescope.engine.autodiff.hooks import register_hook

        return register_hook(self, function)

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in ``.grad``, as leaves always do.

        Raises:
            GradientError: No gradient flows to this tensor.
        """
        from nodescope.engine.autodiff.hooks import retain_grad

        retain_grad(self)

    # Python protocols

    def __len__(self) -> int:
        if not self.data.ndim:
            raise ShapeError(
                "len: a scalar tensor has no length", source=where(), hint="see .shape and .size"
            )
        return len(self.data)

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[i] for i in range(len(self))])

    def __bool__(self) -> bool:
        return bool(self._one("bool"))

    def __float__(self) -> float:
        return float(self._one("float"))

    def __int__(self) -> int:
        return int(self._one("int"))

    def __index__(self) -> int:
        check_known(self, "index")
        if self.data.ndim or self.data.dtype.kind not in "iu":
            raise DtypeError(
                f"index: only an integer scalar can be an index, not {spec_of(self)}",
                source=where(),
            )
        return int(self.data)

    def __format__(self, spec: str) -> str:
        return format(self._one("format"), spec) if spec else str(self)

    def _one(self, method: str) -> Any:
        check_known(self, method)
        if self.data.size != 1:
            raise ShapeError(
                f"{method}: the value of a tensor with {self.size} elements is ambiguous",
                source=where(),
                hint="reduce it first, as with .any(), .all() or .sum()",
            )
        return self.data.item()

    __hash__ = object.__hash__  # by identity: == compares elementwise

    def __repr__(self) -> str:
        data: Any = self.data
        if data.__class__ is Abstract:
            return f"tensor({self.data!r}{f', name={self._name!r}' if self.name else ''})"
        data = self.data.astype(np.float32) if low(self.data.dtype) else self.data
        body = np.array2string(data, separator=", ", prefix="tensor(", threshold=200)
        name = f", name={self._name!r}" if self.name else ""
        wants = ", requires_grad=True" if self.edge is LEAF else ""
        return f"tensor({body}, dtype={self.data.dtype}{name}{wants})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise UnsupportedError(
            "a tensor is not converted to an array implicitly: it would leave the graph",
            source=where(),
            hint="use x.numpy() to leave the graph, gradients included; np.stack, np.concatenate "
            "and np.column_stack join tensors, np.broadcast_to repeats one, and "
            "nodescope.tensor(array)[x] indexes by one",
        )


class Written(Tensor):
    """A tensor that was written to; `engine.writing.inplace` turns a `Tensor` into this class.

    ``_history`` holds two tensors that are never written to: its state before the first write, to
    which the tape refers, and its current state, which every operation reads.
    """

    __slots__ = ()

    @property
    def data(self) -> Array:  # type: ignore[override]
        """The current array."""
        return self._history[1].data  # type: ignore[no-any-return]

    @property
    def edge(self) -> Edge | None:
        """The edge of the current elements."""
        return self._history[1].edge  # type: ignore[no-any-return]

    @edge.setter
    def edge(self, value: Edge | None) -> None:
        self._history[1].edge = value

    @property
    def _vid(self) -> int:  # type: ignore[override]
        raise AttributeError("_vid")  # callers need the id of the current state


written_at = [0]
"""When a tensor was last written to, as a `next_seq` number."""


def settled(value: Any) -> Any:
    """The current state of a tensor that was written to; any other value unchanged."""
    while value.__class__ is Written:
        value = value._history[1]
    return value


def origin(value: Any) -> Any:
    """For a tensor that was written to, the state to which the tape refers; any other value
    unchanged.
    """
    return value._history[0] if value.__class__ is Written else value


def changed(tensor: Tensor) -> None:
    """Note that a leaf has a new array, so that older operations on it are not differentiated."""
    written_at[0] = tensor._history = next_seq()


class Bundle:
    """The outputs of one call of an op with several outputs. The edge of each output picks one.

    Attributes:
        data: The arrays, by port.
        edge: The op's own place on the tape.
        ids: Value ids of the outputs while a run is observed, else 0.
    """

    __slots__ = ("data", "edge", "ids")

    def __init__(self, data: tuple[Any, ...], edge: Edge, ids: tuple[int, ...]) -> None:
        self.data = data
        self.edge: Edge | None = edge
        self.ids = ids

    def tensors(self) -> tuple[Tensor, ...]:
        """The outputs, as tensors whose edges lead here."""
        results = []
        for port, (data, vid) in enumerate(zip(self.data, self.ids, strict=True)):
            result = _new(Tensor)
            result.data = data
            result._vid = vid
            smooth = data.dtype.kind in SMOOTH
            result.edge = (next_seq(), PICK, (self,), {"port": port}) if smooth else None
            results.append(result)
        return tuple(results)


PICK = Op(
    name="pick",
    family="layout",
    infer=lambda specs, attrs: specs[attrs["port"]],  # type: ignore[arg-type, return-value]
    impl=lambda *arrays, port: arrays[port],
)
"""One output of a `Bundle`. Not a node."""

_new = Tensor.__new__
_backward: Any = None
_ndarray = np.ndarray
_asarray = np.asarray


def make(data: Any, edge: Edge | None = None, kind: str = "tensor", name: str = "") -> Tensor:
    """A tensor that takes over an array."""
    check_dtype(data.dtype)
    result = _new(Tensor)
    if data.__class__ is not _ndarray and data.__class__ is not Abstract:
        data = _asarray(data)
    result.data = data
    result.edge = edge
    result._kind = kind
    if name:
        result._name = name
    return result


def check_known(tensor: Tensor, method: str) -> None:
    """Refuse to read elements that the graph being built cannot know.

    Raises:
        TraceError: The elements are computed in the graph, or may differ when the graph runs.
    """
    data: Any = tensor.data
    if data.__class__ is Abstract:
        raise refused(data, method)
    builder = current().builder
    if builder is not None and getattr(tensor, "_kind", "tensor") != "constant":
        raise refused(Abstract(spec_of(tensor), builder, 0), method)


def _alias(tensor: Tensor, edge: Edge | None = None) -> Tensor:
    """The same value and node, with another history."""
    result = _new(Tensor)
    result.data = tensor.data
    result.edge = edge
    builder = current().builder
    if builder is not None and not isinstance(cast(Any, result.data), Abstract):
        # In a graph, the alias is the tensor's current value, on each call.
        result.data = builder.current_of(tensor).data
    for slot in ("_vid", "_kind", "_name"):
        if hasattr(tensor, slot):
            setattr(result, slot, getattr(tensor, slot))
    return result


alias = _alias

# Detaches a tensor with a node, while a run is observed or a graph is built; else None.
_detached: Callable[[Tensor], Tensor] | None = None


def set_detached(detached: Callable[[Tensor], Tensor] | None) -> None:
    """Detach tensors by ``detached``, or without a node with None. Only `engine.dispatch_mode`
    calls this.
    """
    global _detached
    _detached = detached


def check_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Refuse non-numeric dtypes. Raises `DtypeError`."""
    if (dtype.kind not in _KINDS or foreign(dtype)) and not low(dtype):
        other = "encode text and objects as numbers first, such as class indices"
        raise DtypeError(
            f"a tensor holds numbers or booleans, not {_WORDS.get(dtype.kind, dtype.name)}",
            source=where(),
            hint="convert to float16, bfloat16 or wider" if foreign(dtype) else other,
        )
    return dtype


def spec_of(value: Any) -> Any:
    """The spec of a tensor; a Python scalar is returned unchanged."""
    if value.__class__ is Tensor or value.__class__ is Written:
        return TensorSpec(value.data.shape, name_of(value.data.dtype))
    return value


def operand(value: Any) -> Any:
    """The operand for ``value``: a tensor or a Python scalar; None if it is neither."""
    kind = value.__class__
    if kind is Tensor or kind in _SCALARS:
        return value
    if isinstance(value, np.ndarray):
        # Copy an array that may be overwritten: the tape and graphs need its current elements.
        return make(np.array(value) if value.flags.writeable else value, kind="constant")
    if isinstance(value, np.generic):
        return make(np.asarray(value), kind="constant")
    if isinstance(value, list | tuple):
        return make(listed(value), kind="constant")
    if kind is Written:
        return settled(value)
    # A subclass of a number, such as an IntEnum, is treated as the number.
    bases: tuple[Any, ...] = (int, float, complex)
    return next((base(value) for base in bases if isinstance(value, base)), None)


def listed(data: Any, dtype: Any = None) -> Array:
    """The user's data as a new array. Raises `ShapeError` for ragged lists."""
    try:
        return np.array(data, dtype)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ShapeError(
            "nested lists of different lengths cannot form a tensor",
            source=where(),
            hint="pad them to one length, or make one tensor of each",
        ) from None


def operands(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """The operands for values of any kind, see `operand` and `weak`; None if one is unsupported."""
    given = []
    for value in inputs:
        if value.__class__ is not Tensor:
            value = operand(value)
            if value is None:
                return None
        given.append(value)
    return weak(tuple(given))


def weak(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands in which Python floats become bfloat16 constants if another operand is bfloat16;
    NumPy would make both float32.

    Ops called by the user pass through here; gradient rules do not, and so keep precision.
    """
    for value in inputs:
        if value.__class__ is float:
            break
    else:
        return inputs
    dtype = None
    for value in inputs:
        if value.__class__ is Tensor and value.data.dtype.kind == "V":
            dtype = value.data.dtype
    if dtype is None:
        return inputs
    return tuple(
        make(np.asarray(value, dtype), kind="constant") if value.__class__ is float else value
        for value in inputs
    )
