"""Operators and methods of tensors, put on the class from tables.

Invariant: each is one op; nothing is computed here.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.native_functions import INDEXED, REFLECTED, SHAPED, UNARY, special
from nodescope.engine.native_functions import method as native_method
from nodescope.engine.run import NUMBERS, apply, binary, operator_of, operators
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor, check_dtype, operand
from nodescope.errors import DtypeError, IndexTypeError, NodescopeError, UnsupportedError
from nodescope.ir.dtypes import as_dtype
from nodescope.ops.index import Port
from nodescope.ops.layout import as_shape
from nodescope.ops.op import Op

_GETITEM, _TRANSPOSE = ops.get("getitem"), ops.get("transpose")
_RESHAPE, _ASTYPE, _COPY = ops.get("reshape"), ops.get("astype"), ops.get("copy")


def _getitem(self: Tensor, index: Any) -> Tensor:
    kind = index.__class__
    if kind is int or (kind is slice and _is_plain(index)):
        return apply(_GETITEM, (self,), {"index": (index,)})
    if kind is tuple:
        for item in index:
            if item.__class__ is not int and not (item.__class__ is slice and _is_plain(item)):
                break
        else:
            return apply(_GETITEM, (self,), {"index": index})
    template, arrays = index_template(index)
    return apply(_GETITEM, (self, *arrays), {"index": template})


def index_template(index: Any) -> tuple[tuple[Any, ...], list[Tensor]]:
    """The attribute for ``x[index]``, and the index arrays that its ports refer to."""
    arrays: list[Tensor] = []
    items = index if isinstance(index, tuple) else (index,)
    return tuple(_index_item(item, arrays) for item in items), arrays


def _is_plain(index: slice) -> bool:
    """Whether the bounds of a slice are Python's ints, or None."""
    for bound in (index.start, index.stop, index.step):
        if bound is not None and bound.__class__ is not int:
            return False
    return True


def _index_item(item: Any, arrays: list[Tensor]) -> Any:
    if item is None or item is Ellipsis or item.__class__ is int:
        return item
    if item.__class__ is slice and _is_plain(item):
        return item
    if isinstance(item, int) and not isinstance(item, bool):
        return int(item)
    if isinstance(item, slice):
        return slice(*map(_bound, (item.start, item.stop, item.step)))
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, bool | list | tuple):
        item = np.asarray(item, None if np.size(item) else np.intp)
    text = isinstance(item, np.ndarray | np.generic) and item.dtype.kind not in "biufcV"
    index_tensor = None if text else operand(item)
    if index_tensor.__class__ is not Tensor:
        raise IndexTypeError(
            f"a tensor cannot be indexed by {item.dtype if text else type(item).__name__}",
            source=where(),
            hint="use ints, slices, None, ... or arrays of ints or bools",
        )
    arrays.append(index_tensor)
    return Port(len(arrays) - 1)


def _bound(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return operator.index(value)
    except TypeError:
        raise IndexTypeError(
            f"a slice bound must be an integer or None, not {type(value).__name__}",
            source=where(),
            hint="convert it with int()",
        ) from None


def _reversed(self: Tensor) -> Tensor:
    """The dimensions in reverse order."""
    return apply(_TRANSPOSE, (self,), {"axes": None})


def _reshape(self: Tensor, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1.

    Args:
        shape: Sizes, one by one or as a tuple.
        order: The order in which the elements are read and placed: "C", "F" (the first index
            fastest) or "A".
        copy: Whether the result is a copy; None for a view where NumPy would make one.
    """
    sizes = as_shape(shape[0] if len(shape) == 1 else shape)
    if order != "C" or copy is not None:
        result: Any = np.reshape(self, sizes, order=order, copy=copy)  # type: ignore[call-overload]
        return result  # type: ignore[no-any-return]
    return apply(_RESHAPE, (self,), {"shape": sizes})


def _ravel(self: Tensor, order: str = "C") -> Tensor:
    """All elements in one dimension; a view of a contiguous tensor, as in NumPy."""
    if order != "C":
        result: Any = np.ravel(self, order=order)  # type: ignore[call-overload]
        return result  # type: ignore[no-any-return]
    data = self.data
    if data.__class__ is np.ndarray and not data.flags.c_contiguous:
        self = apply(_COPY, (self,), NO_ATTRS)
    return _reshape(self, self.size)


def _flatten(self: Tensor, order: str = "C") -> Tensor:
    """All elements in one dimension, as a copy."""
    if order != "C":
        return apply(_COPY, (_ravel(self, order),), NO_ATTRS)
    return _reshape(apply(_COPY, (self,), NO_ATTRS), self.size)


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    """The dimensions in another order, reversed without arguments."""
    order_given = axes[0] if len(axes) == 1 else axes or None
    order = None if order_given is None else as_shape(order_given)
    return apply(_TRANSPOSE, (self,), {"axes": order})


def _astype(
    self: Tensor, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
    copy: bool = True,
) -> Tensor:  # fmt: skip
    """The elements converted to another dtype; without ``copy``, the tensor itself if it already
    has that dtype.

    Args:
        dtype: The other dtype.
        order: Accepted; the memory layout of the result is unspecified.
        casting: Which conversions are allowed, in NumPy's terms.
        subok: Accepted; there is only one class of tensors.
        copy: Whether the result is a copy even if nothing is converted.

    Raises:
        DtypeError: ``casting`` forbids the conversion, or the dtype is not numeric.
    """
    target = check_dtype(as_dtype(dtype))
    if casting != "unsafe" and not np.can_cast(self.dtype, target, casting):  # type: ignore[arg-type]
        raise DtypeError(
            f"astype: {self.dtype} cannot be cast to {target} by the rule {casting!r}",
            source=where(),
            hint="omit casting= to convert anyway",
        )
    if not copy and target == self.dtype:
        return self
    return apply(_ASTYPE, (self,), {"dtype": target.name})


def _copy(self: Tensor, order: str = "C") -> Tensor:
    """A copy, as a separate operation; ``order`` is accepted for compatibility and ignored."""
    return apply(_COPY, (self,), NO_ATTRS)


def _right(op: Op) -> Callable[[Tensor, Any], Tensor]:
    def operator(self: Tensor, other: Any) -> Tensor:
        if other.__class__ in NUMBERS and self.data.dtype.kind != "V":
            return apply(op, (other, self), NO_ATTRS)
        return binary(op, other, self)  # type: ignore[no-any-return]

    return special(REFLECTED, op, operator)  # type: ignore[no-any-return]


def _unary(op: Op) -> Callable[[Tensor], Tensor]:
    return special(UNARY, op, lambda self: apply(op, (self,), NO_ATTRS))  # type: ignore[no-any-return]


def _method(op: Op) -> Callable[..., Tensor]:
    """A method that is one node, or, with more arguments, NumPy's function of that name."""
    bind = op.bind
    assert bind is not None

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            inputs, attrs = bind(self, *args, **kwargs)
        except TypeError:
            return full(self, *args, **kwargs)  # type: ignore[no-any-return]
        return apply(op, inputs, attrs)

    full = function_method(op.name)
    method.__name__ = method.__qualname__ = op.name
    method.__doc__ = full.__doc__
    method.__signature__ = full.__signature__  # type: ignore[attr-defined]
    return native_method(op, method)  # type: ignore[no-any-return]


def function_method(name: str) -> Any:
    """NumPy's function ``name`` as a method, with the arguments of the function."""
    function = getattr(np, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except TypeError as error:
            if isinstance(error, NodescopeError):
                raise
            raise _wrong_argument(name, kwargs, error) from None

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`numpy.{name}` of this tensor, with the same arguments."
    _, *parameters = inspect.signature(function).parameters.values()
    place = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = inspect.Signature([place, *parameters])  # type: ignore[attr-defined]
    return method


def called(name: str, function: Any) -> Any:
    """A function under the name that Python's errors use for it."""
    function.__name__, function.__qualname__ = name.rpartition(".")[2], name
    return function


def _wrong_argument(name: str, kwargs: dict[str, Any], error: TypeError) -> UnsupportedError:
    """The message for arguments that a method does not have, with their names in other
    libraries.
    """
    torch = {"dim": "axis=", "keepdim": "keepdims="}
    text = re.sub(r"^_?\w*?(_dispatcher)?\(\)", "it", str(error))
    suggestion = ", ".join(torch[key] for key in kwargs if key in torch)
    return UnsupportedError(
        f"{name}: {text}",
        source=where(),
        hint=f"say {suggestion}"
        if suggestion
        else f"it takes NumPy's arguments: see help(np.{name})",
    )


ARITHMETIC = {
    "add": ("add", "+"), "sub": ("subtract", "-"), "mul": ("multiply", "*"),
    "truediv": ("divide", "/"), "pow": ("power", "**"), "matmul": ("matmul", "@"),
    "floordiv": ("floor_divide", "//"), "mod": ("remainder", "%"),
    "and": ("bitwise_and", "&"), "or": ("bitwise_or", "|"), "xor": ("bitwise_xor", "^"),
    "lshift": ("left_shift", "<<"), "rshift": ("right_shift", ">>"),
}  # fmt: skip
_COMPARISON = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "invert"}
_METHODS = (
    "sum", "prod", "mean", "max", "min", "any", "all", "argmax", "argmin", "var", "std",
    "squeeze", "cumsum",
)  # fmt: skip

for _python, (_name, _sign) in ARITHMETIC.items():
    operators[f"__{_python}__"] = ops.get(_name)
    setattr(Tensor, f"__r{_python}__", _right(ops.get(_name)))
for _python, _name in _COMPARISON.items():
    operators[f"__{_python}__"] = ops.get(_name)
for _python, _op in operators.items():
    setattr(Tensor, _python, operator_of(_op))
for _python, _name in _UNARY.items():
    setattr(Tensor, f"__{_python}__", _unary(ops.get(_name)))
for _name in _METHODS:
    setattr(Tensor, _name, _method(ops.get(_name)))
for _name, _function in {
    "__getitem__": _getitem, "reshape": _reshape, "ravel": _ravel, "flatten": _flatten,
    "transpose": _transpose, "astype": _astype, "copy": _copy,
}.items():  # fmt: skip
    setattr(Tensor, _name, called(f"Tensor.{_name}", _function))
for _name, _kind, _op, _detail in (
    ("__getitem__", INDEXED, _GETITEM, None), ("reshape", SHAPED, _RESHAPE, ("shape", False)),
    ("transpose", SHAPED, _TRANSPOSE, ("axes", True)),
):  # fmt: skip
    setattr(Tensor, _name, special(_kind, _op, Tensor.__dict__[_name], _detail))
Tensor.T = property(_reversed)  # type: ignore[assignment]
