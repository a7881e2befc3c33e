"""Running a single op: the path of every operation on tensors.

Invariant: unobserved, an operator between tensors tests one global (`_slow`), calls its ufunc and
creates one tuple; every failure is explained by the op's own `infer`, with the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, cast

import numpy as np

from nodescope import native, ops
from nodescope.engine import tensor
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.symbolic import Abstract, escaped
from nodescope.engine.tensor import (
    NO_ATTRS,
    SMOOTH,
    Attrs,
    Bundle,
    Tensor,
    Written,
    next_seq,
    operand,
    settled,
    spec_of,
    weak,
)
from nodescope.errors import BoundsError, NodescopeError
from nodescope.ops.lowprecision import Reduce
from nodescope.ops.op import Op

Run = Callable[[Op, tuple[Any, ...], Attrs], Tensor]

_new = Tensor.__new__
_ndarray = np.ndarray
_asarray = np.asarray

# None while nothing observes and no thread has switched the tape off; else the function that runs
# every op.
_slow: Run | None = None

# Set during an unobserved step: receives an op that raised, with its inputs, attributes and error.
_on_raise: Callable[[Op, tuple[Any, ...], Attrs, Exception], None] | None = None

NUMBERS = frozenset((int, float))
"""Types of numbers that are operands without conversion; with bfloat16 operands, see
`nodescope.engine.tensor.weak`."""

operators: dict[str, Op] = {}
"""The binary operators that are methods of `Tensor`, by method name."""


def set_slow(run: Run | None) -> None:
    """Run every op by ``run``, or directly with None. Only `engine.dispatch_mode` calls this."""
    global _slow
    _slow = run
    if _plain is not None:
        _plain.set_slow(run)


def set_on_raise(
    on_raise: Callable[[Op, tuple[Any, ...], Attrs, Exception], None] | None,
) -> None:
    """Set the function called for ops that raise, or None. Only `engine.dispatch_mode` calls
    this.
    """
    global _on_raise
    _on_raise = on_raise


def _apply(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Tensor:
    if _slow is not None:
        return _slow(op, inputs, attrs)
    return _run(op, inputs, attrs, True)


def _run(op: Op, inputs: tuple[Any, ...], attrs: Attrs, recording: bool) -> Tensor:
    tracked = False
    arrays = []
    for value in inputs:
        if value.__class__ is Tensor:
            arrays.append(value.data)
            if value.edge is not None:
                tracked = recording
        elif value.__class__ is Written:
            return _run(op, tuple(map(settled, inputs)), attrs, recording)
        else:
            arrays.append(value)
    try:
        data = op.impl(*arrays, **attrs) if attrs else op.impl(*arrays)
    except Exception as error:
        raise _raised(op, inputs, attrs, error) from cause(error)
    if data.__class__ is not _ndarray:
        if data.__class__ is tuple:
            return several(op, inputs, attrs, data, tracked)  # type: ignore[no-any-return]
        data = _asarray(data)
    result = _new(Tensor)
    result.data = data
    if tracked and op.vjp is not None and data.dtype.kind in SMOOTH:
        result.edge = (next_seq(), op, inputs, attrs)
    else:
        result.edge = None
    return result


def several(
    op: Op,
    inputs: tuple[Any, ...],
    attrs: Attrs,
    arrays: tuple[Any, ...],
    tracked: bool,
    ids: tuple[int, ...] = (),
) -> Any:
    """The results of an op with several outputs, as a tuple of tensors."""
    arrays = tuple(array if array.__class__ is _ndarray else _asarray(array) for array in arrays)
    ids = ids or (0,) * len(arrays)
    bundle = Bundle(arrays, (next_seq(), op, inputs, attrs), ids)
    results = bundle.tensors()
    if not tracked or op.vjp is None:
        for result in results:
            result.edge = None
    return results


def _raised(op: Op, inputs: tuple[Any, ...], attrs: Attrs, error: Exception) -> Exception:
    """The error to raise for a failed impl, reported to the observer of an unobserved step."""
    message = explained(op, inputs, attrs, error)
    if _on_raise is not None:
        _on_raise(op, inputs, attrs, message)
    return message


def _failed(op: Op, inputs: tuple[Any, ...], attrs: Attrs, error: Exception) -> None:
    """Raise the error for an impl that failed in the native core."""
    raise _raised(op, inputs, attrs, error) from cause(error)


def explained(op: Op, inputs: tuple[Any, ...], attrs: Attrs, error: Exception) -> Exception:
    """The error to raise for a failed impl: `infer`'s explanation, or else the error itself."""
    if isinstance(error, NodescopeError):
        error.source = error.source or where()
        return error
    if isinstance(error, TypeError | AttributeError) and current().builder is None:
        for value in inputs:
            data: Any = value.data if value.__class__ is Tensor else None
            if data.__class__ is Abstract:
                return escaped(data)
    if isinstance(error, ValueError | TypeError | IndexError):
        try:
            op.infer(tuple(spec_of(value) for value in inputs), attrs)
        except NodescopeError as explanation:
            if isinstance(error, IndexError) and not isinstance(explanation, IndexError):
                return out_of_bounds(op, error, where())  # as in NumPy, with its context
            explanation.source = explanation.source or where()
            return explanation
        except Exception:
            return error
    if type(error) is IndexError:  # an index value is wrong, which infer does not see
        return out_of_bounds(op, error, where())
    return error


def out_of_bounds(op: Op, error: Exception, source: str) -> BoundsError:
    """The error for an index array with an out-of-range element."""
    hint = "look at the elements of the index array; np.clip keeps them inside"
    if "out of bounds" not in str(error):
        hint = "index arrays broadcast together; a mask counts as one index per True"
    return BoundsError(f"{op.name}: {error}", source=source, hint=hint)


def cause(error: Exception) -> Exception | None:
    """The cause from which the explanation of ``error`` is raised."""
    return error.__cause__ if isinstance(error, NodescopeError) else error  # type: ignore[return-value]


def binary(op: Op, left: Any, right: Any) -> Any:
    """A binary operator with any operands; NotImplemented if they are not supported."""
    left, right = operand(left), operand(right)
    if left is None or right is None:
        return NotImplemented
    if left.__class__ is float or right.__class__ is float:
        left, right = weak((left, right))
    return apply(op, (left, right), NO_ATTRS)


def operator_of(op: Op) -> Callable[[Tensor, Any], Tensor]:
    """The operator method of a binary op."""
    impl, differentiable = op.impl, op.vjp is not None

    def operator(self: Tensor, other: Any) -> Tensor:
        if other.__class__ is Tensor:
            if _slow is not None:
                return _slow(op, (self, other), NO_ATTRS)
            try:
                data = impl(self.data, other.data)
            except Exception as error:
                raise _raised(op, (self, other), NO_ATTRS, error) from cause(error)
            if data.__class__ is not _ndarray:
                data = _asarray(data)
            result = _new(Tensor)
            result.data = data
            if (self.edge is not None or other.edge is not None) and differentiable:
                result.edge = (next_seq(), op, (self, other), NO_ATTRS)
            else:
                result.edge = None
            return result
        if other.__class__ in NUMBERS and self.data.dtype.kind != "V":
            return apply(op, (self, other), NO_ATTRS)
        return binary(op, self, other)  # type: ignore[no-any-return]

    # 0 stands for a binary operator; see engine/native_functions.py.
    return operator if _plain is None else _plain.special(0, op, None, operator)


# How the native core computes an op: see core/native/plain_run.h.
_IMPL, _DIRECTLY, _REDUCE, _ITEM, _BY_METHOD, _JOINED, _PRODUCT = range(7)

_HOW: dict[str, tuple[int, Any, Any]] = {
    "getitem": (_ITEM, None, "index"),
    "reshape": (_BY_METHOD, "reshape", "shape"),
    "transpose": (_BY_METHOD, "transpose", "axes"),
    "concatenate": (_JOINED, np.concatenate, "axis"),
    "matmul": (_PRODUCT, np.matmul, None),
}
"""Ops whose impl is a Python function around one call of NumPy's: the kind of call, and its
parts."""


def _how(op: Op) -> tuple[int, Any, Any, bool]:
    """How to compute an op with arrays of NumPy's own dtypes: the kind of call, its parts, and
    whether the op is registered, so that the answer is kept.
    """
    registered = ops.is_registered(op)
    if registered and op.name in _HOW:
        return (*_HOW[op.name], registered)
    inner: Any = getattr(op.impl, "plain", None)
    if inner is None or isinstance(inner, np.ufunc):  # a ufunc takes more arguments than the impl
        return _IMPL, None, None, registered
    if isinstance(inner, Reduce):
        return _REDUCE, inner.reduce, inner.dtype, registered
    return _DIRECTLY, inner, None, registered


def _native() -> Any:
    """The native core's part; None without a core, or if it cannot read tensors and arrays."""
    if native.Plain is None:
        return None
    counter = cast("Any", next_seq).__self__
    given = (Tensor, Written, _ndarray, counter, _asarray, _run, _failed, several,
             tensor.operands, weak, _how, MethodType, NO_ATTRS)  # fmt: skip
    view = np.zeros((2, 3, 4), np.float32)[:, ::2]
    try:
        return native.Plain(given, object.__new__(Tensor), view)
    except TypeError:
        return None


_plain: Any = _native()
plain = _plain
"""The native core's part, or None."""

apply: Run = _apply if _plain is None else _plain.apply
"""Run an op on tensors and Python scalars. Raises the op's error, with the user's line."""

run: Callable[[Op, tuple[Any, ...], Attrs, bool], Tensor] = _run if _plain is None else _plain.run
"""Run an op unobserved, and put it on the tape if the last argument is true."""


def _function(op: Op, operand: Callable[[Any], Any], no_attrs: Attrs) -> Callable[..., Any]:
    def call(*inputs: Any, **attrs: Any) -> Tensor:
        for value in inputs:
            if value.__class__ is not Tensor:
                inputs = tuple(map(operand, inputs))
                break
        return _apply(op, inputs, attrs or no_attrs)

    return call


function: Callable[[Op, Callable[[Any], Any], Attrs], Callable[..., Any]] = (
    _function if _plain is None else _plain.function
)
"""A function that applies an op to its arguments, with its keywords as attributes. The second
argument converts inputs to operands; tensors and Python scalars are left alone. The third holds the
attributes of calls without keywords."""

operands: Callable[[Sequence[Any]], tuple[Any, ...] | None] = (
    tensor.operands if _plain is None else _plain.operands
)
"""See `nodescope.engine.tensor.operands`."""

weakened: Callable[[tuple[Any, ...]], tuple[Any, ...]] = weak if _plain is None else _plain.weak
"""See `nodescope.engine.tensor.weak`."""
