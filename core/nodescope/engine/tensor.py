"""Tensor: an array that remembers how it was made.

A tensor's ``edge`` is its place on the tape: None for a constant, `LEAF` for a tensor that wants a
gradient, else ``(seq, op, inputs, attrs)``. The tape is nothing but these links, so what the program
drops is freed at once, whether or not `backward` was called.

Invariant: ``data`` is always an ndarray and nobody writes to it. On the unobserved path an operator
tests one global (`_slow`), calls its ufunc and makes one tuple.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nodescope import ops
from nodescope.engine.source import where
from nodescope.errors import DtypeError, NodescopeError, ShapeError, UnsupportedError, UsageError
from nodescope.ir.graph import TensorSpec
from nodescope.ops.index import Port
from nodescope.ops.layout import as_shape
from nodescope.ops.op import Array, Op

Attrs = dict[str, Any]
Edge = tuple[int, Op | None, tuple[Any, ...], Attrs]

NO_ATTRS: Attrs = {}
LEAF: Edge = (0, None, (), NO_ATTRS)
FREED: Edge = (-1, None, (), NO_ATTRS)

next_seq = itertools.count(1).__next__
_SCALARS = (float, int, bool, complex)
_KINDS = "fiubc"

# None while nobody observes and no thread has the tape switched off; else what runs every op.
_slow: Callable[[Op, tuple[Any, ...], Attrs], Tensor] | None = None


def set_slow(run: Callable[[Op, tuple[Any, ...], Attrs], Tensor] | None) -> None:
    """Send every op through ``run``, or none with None. Only `engine.modes` calls this."""
    global _slow
    _slow = run


class Tensor:
    """An n-dimensional array of numbers that is traced and differentiated.

    Made by `nodescope.tensor`, `nodescope.parameter` and by every operation on tensors; NumPy's
    functions take it. A tensor never changes: operations give new ones.

    Attributes:
        data: The array. Do not write to it; `numpy` gives a read-only view.
    """

    __slots__ = ("_grad", "_kind", "_name", "_vid", "data", "edge")

    data: Array
    edge: Edge | None
    _grad: Tensor | None
    _kind: str
    _name: str
    _vid: int

    if TYPE_CHECKING:  # made from a table below

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __array_ufunc__(
            self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
        ) -> Any: ...
        def __array_function__(
            self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any: ...

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
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
        """The name it was given, with its scope, or ``""``."""
        return getattr(self, "_name", "")

    @property
    def requires_grad(self) -> bool:
        """Whether it is, or was made from, a tensor that wants a gradient."""
        return self.edge is not None

    @property
    def grad(self) -> Tensor | None:
        """What `backward` has added up for this leaf so far, or None."""
        return getattr(self, "_grad", None)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and value.__class__ is not Tensor:
            raise UsageError(
                f"grad: expected a tensor or None, not {type(value).__name__}",
                source=where(),
                hint="wrap arrays in nodescope.tensor",
            )
        self._grad = value

    def numpy(self) -> Array:
        """The elements as a read-only view; copy it to write."""
        view = self.data.view()
        view.flags.writeable = False
        return view

    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            ShapeError: There is not exactly one.
        """
        if self.data.size != 1:
            raise ShapeError(
                f"item: a tensor of shape {self.shape} has {self.size} elements, not one",
                source=where(),
                hint="index or reduce it first",
            )
        return self.data.item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.data.tolist()

    def detach(self) -> Tensor:
        """The same value without its history: no gradient flows through."""
        return _alias(self)

    def backward(
        self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Add the gradient of this tensor to ``.grad`` of every leaf that it was made from.

        Args:
            gradient: What to start from; 1 for a scalar.
            retain_graph: Keep the tape, so that it can be run again.
            create_graph: Make gradients that can themselves be differentiated.

        Raises:
            GradientError: It has no history, its tape was already used, or it is not a scalar and
                ``gradient`` is missing.
        """
        from nodescope.engine.tape import backward

        backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph)

    # Python protocols

    def __len__(self) -> int:
        if not self.data.ndim:
            raise ShapeError("len: a scalar tensor has no length", source=where())
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
        if self.data.ndim or self.data.dtype.kind not in "iu":
            raise DtypeError(
                f"index: only an integer scalar can be an index, not {spec_of(self)}",
                source=where(),
            )
        return int(self.data)

    def _one(self, wanted: str) -> Any:
        if self.data.size != 1:
            raise ShapeError(
                f"{wanted}: the value of a tensor with {self.size} elements is ambiguous",
                source=where(),
                hint="reduce it first, as with .any(), .all() or .sum()",
            )
        return self.data.item()

    __hash__ = object.__hash__  # by identity: == compares element by element

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return binary(_EQUAL, self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return binary(_NOT_EQUAL, self, other)

    def __repr__(self) -> str:
        body = np.array2string(self.data, separator=", ", prefix="tensor(", threshold=200)
        name = f", name={self._name!r}" if self.name else ""
        wants = ", requires_grad=True" if self.edge is LEAF else ""
        return f"tensor({body}, dtype={self.data.dtype}{name}{wants})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise UnsupportedError(
            "a tensor does not turn into an array by itself: it would drop out of the graph",
            source=where(),
            hint="say so with .numpy()",
        )

    def __getitem__(self, index: Any) -> Tensor:
        arrays: list[Tensor] = []
        items = index if isinstance(index, tuple) else (index,)
        template = tuple(_index_item(each, arrays) for each in items)
        return apply(_GETITEM, (self, *arrays), {"index": template})

    def __setitem__(self, index: Any, value: Any) -> None:
        raise UnsupportedError(
            "a tensor cannot be written to", source=where(), hint="select with np.where"
        )

    # Methods of ndarray

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order."""
        return apply(_TRANSPOSE, (self,), {"axes": None})

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one size may be -1."""
        wanted = as_shape(shape[0] if len(shape) == 1 else shape)
        return apply(_RESHAPE, (self,), {"shape": wanted})

    def ravel(self) -> Tensor:
        """All elements in one dimension."""
        return self.reshape(-1) if self.size else self.reshape(0)

    def transpose(self, *axes: Any) -> Tensor:
        """The dimensions in another order, reversed without arguments."""
        given = axes[0] if len(axes) == 1 else axes or None
        order = None if given is None else as_shape(given)
        return apply(_TRANSPOSE, (self,), {"axes": order})

    def astype(self, dtype: Any) -> Tensor:
        """The elements converted to another dtype."""
        return apply(_ASTYPE, (self,), {"dtype": check_dtype(np.dtype(dtype)).name})

    def copy(self) -> Tensor:
        """A copy, as an operation of its own."""
        return apply(_COPY, (self,), NO_ATTRS)

    if TYPE_CHECKING:

        def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor: ...
        def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor: ...
        def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor: ...
        def max(self, axis: Any = None, keepdims: bool = False) -> Tensor: ...
        def min(self, axis: Any = None, keepdims: bool = False) -> Tensor: ...
        def any(self, axis: Any = None, keepdims: bool = False) -> Tensor: ...
        def all(self, axis: Any = None, keepdims: bool = False) -> Tensor: ...
        def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor: ...
        def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor: ...
        def var(self, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Tensor: ...
        def std(self, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Tensor: ...
        def squeeze(self, axis: Any = None) -> Tensor: ...
        def cumsum(self, axis: int | None = None) -> Tensor: ...


_new = Tensor.__new__
_ndarray = np.ndarray
_asarray = np.asarray


def make(data: Array, edge: Edge | None = None, kind: str = "tensor", name: str = "") -> Tensor:
    """A tensor around an array, which it takes over."""
    check_dtype(data.dtype)
    result = _new(Tensor)
    result.data = data if data.__class__ is _ndarray else _asarray(data)
    result.edge = edge
    result._kind = kind
    if name:
        result._name = name
    return result


def _alias(tensor: Tensor, edge: Edge | None = None) -> Tensor:
    """The same value, and the same node, with another history."""
    result = _new(Tensor)
    result.data = tensor.data
    result.edge = edge
    for slot in ("_vid", "_kind", "_name"):
        if hasattr(tensor, slot):
            setattr(result, slot, getattr(tensor, slot))
    return result


alias = _alias


def check_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Refuse what is not numbers. Raises `DtypeError`."""
    if dtype.kind not in _KINDS:
        raise DtypeError(
            f"a tensor holds numbers or booleans, not {dtype.name}",
            source=where(),
            hint="convert first; ragged lists become dtype object",
        )
    return dtype


def spec_of(value: Any) -> Any:
    """The spec of a tensor; a Python scalar stays what it is."""
    if value.__class__ is Tensor:
        return TensorSpec(value.data.shape, value.data.dtype.name)
    return value


def operand(value: Any) -> Any:
    """What an op takes for ``value``: a tensor or a Python scalar; None if it is neither."""
    kind = value.__class__
    if kind is Tensor or kind in _SCALARS:
        return value
    if isinstance(value, np.ndarray | np.generic):
        return make(np.asarray(value), kind="constant")
    if isinstance(value, list | tuple):
        return make(np.asarray(value), kind="constant")
    return None


def apply(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Tensor:
    """Run an op on tensors and Python scalars. Raises what its impl raises, with the user's line."""
    if _slow is not None:
        return _slow(op, inputs, attrs)
    return run(op, inputs, attrs, True)


def run(op: Op, inputs: tuple[Any, ...], attrs: Attrs, recording: bool) -> Tensor:
    """Run an op unobserved, and put it on the tape if ``recording``."""
    tracked = False
    arrays = []
    for each in inputs:
        if each.__class__ is Tensor:
            arrays.append(each.data)
            if each.edge is not None:
                tracked = recording
        else:
            arrays.append(each)
    try:
        data = op.impl(*arrays, **attrs)
    except Exception as error:
        raise explained(op, inputs, attrs, error) from _cause(error)
    if data.__class__ is not _ndarray:
        data = _asarray(data)
    result = _new(Tensor)
    result.data = data
    if tracked and op.vjp is not None and data.dtype.kind == "f":
        result.edge = (next_seq(), op, inputs, attrs)
    else:
        result.edge = None
    return result


def explained(op: Op, inputs: tuple[Any, ...], attrs: Attrs, error: Exception) -> Exception:
    """The error to raise for a failed impl: what `infer` says is wrong, else the error itself."""
    if isinstance(error, NodescopeError):
        error.source = error.source or where()
        return error
    if isinstance(error, ValueError | TypeError | IndexError):
        try:
            op.infer(tuple(spec_of(each) for each in inputs), attrs)
        except NodescopeError as said:
            said.source = said.source or where()
            return said
        except Exception:
            return error
    return error


def _cause(error: Exception) -> Exception | None:
    return error.__cause__ if isinstance(error, NodescopeError) else error  # type: ignore[return-value]


def binary(op: Op, left: Any, right: Any) -> Tensor:
    """An operator whose operands may be anything; NotImplemented if it is not for us."""
    left, right = operand(left), operand(right)
    if left is None or right is None:
        return NotImplemented
    return apply(op, (left, right), NO_ATTRS)


def _index_item(item: Any, arrays: list[Tensor]) -> Any:
    if item is None or item is Ellipsis or item.__class__ is int:
        return item
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return slice(*(None if each is None else each.__index__() for each in bounds))
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, bool | list | tuple):
        item = np.asarray(item, None if np.size(item) else np.intp)
    found = operand(item)
    if found.__class__ is not Tensor:
        raise UnsupportedError(
            f"a tensor cannot be indexed by {type(item).__name__}",
            source=where(),
            hint="use ints, slices, None, ... or arrays of ints or bools",
        )
    arrays.append(found)
    return Port(len(arrays) - 1)


_EQUAL, _NOT_EQUAL = ops.get("equal"), ops.get("not_equal")
_GETITEM, _TRANSPOSE = ops.get("getitem"), ops.get("transpose")
_RESHAPE, _ASTYPE, _COPY = ops.get("reshape"), ops.get("astype"), ops.get("copy")


def _left(op: Op) -> Callable[[Tensor, Any], Tensor]:
    impl, differentiable = op.impl, op.vjp is not None

    def operator(self: Tensor, other: Any) -> Tensor:
        if _slow is None and other.__class__ is Tensor:
            try:
                data = impl(self.data, other.data)
            except Exception as error:
                raise explained(op, (self, other), NO_ATTRS, error) from _cause(error)
            if data.__class__ is not _ndarray:
                data = _asarray(data)
            result = _new(Tensor)
            result.data = data
            if (self.edge is not None or other.edge is not None) and differentiable:
                result.edge = (next_seq(), op, (self, other), NO_ATTRS)
            else:
                result.edge = None
            return result
        return binary(op, self, other)

    return operator


def _right(op: Op) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: binary(op, other, self)


def _unary(op: Op) -> Callable[[Tensor], Tensor]:
    return lambda self: apply(op, (self,), NO_ATTRS)


def _refused(sign: str) -> Callable[[Tensor, Any], Tensor]:
    def operator(self: Tensor, other: Any) -> Tensor:
        raise UnsupportedError(
            f"{sign} would write to a tensor",
            source=where(),
            hint=f"write x = x {sign[:-1]} y, which makes a new one",
        )

    return operator


def _method(op: Op) -> Callable[..., Tensor]:
    bind = op.bind
    assert bind is not None

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            inputs, attrs = bind(self, *args, **kwargs)
        except TypeError as error:
            raise UnsupportedError(f"{op.name}: {error}", source=where()) from None
        return apply(op, inputs, attrs)

    method.__name__ = op.name
    return method


_ARITHMETIC = {
    "add": ("add", "+"), "sub": ("subtract", "-"), "mul": ("multiply", "*"),
    "truediv": ("divide", "/"), "pow": ("power", "**"), "matmul": ("matmul", "@"),
    "floordiv": ("floor_divide", "//"), "mod": ("remainder", "%"),
    "and": ("bitwise_and", "&"), "or": ("bitwise_or", "|"), "xor": ("bitwise_xor", "^"),
}  # fmt: skip
_COMPARISON = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "invert"}
_METHODS = (
    "sum", "prod", "mean", "max", "min", "any", "all", "argmax", "argmin", "var", "std",
    "squeeze", "cumsum",
)  # fmt: skip

for _python, (_name, _sign) in _ARITHMETIC.items():
    setattr(Tensor, f"__{_python}__", _left(ops.get(_name)))
    setattr(Tensor, f"__r{_python}__", _right(ops.get(_name)))
    setattr(Tensor, f"__i{_python}__", _refused(f"{_sign}="))
for _python, _name in _COMPARISON.items():
    setattr(Tensor, f"__{_python}__", _left(ops.get(_name)))
for _python, _name in _UNARY.items():
    setattr(Tensor, f"__{_python}__", _unary(ops.get(_name)))
for _name in _METHODS:
    setattr(Tensor, _name, _method(ops.get(_name)))
