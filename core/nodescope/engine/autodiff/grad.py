"""Making tensors, and derivatives of functions.

Invariant: gradients can be differentiated again if they depend on a tensor that requires a
gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.transforms import Argnums, DifferentiatedCall, numbers_of
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.tensor import (
    LEAF,
    NO_ATTRS,
    SMOOTH,
    Tensor,
    alias,
    changed,
    listed,
    make,
    settled,
    spec_of,
)
from nodescope.errors import DtypeError, GradientError, ShapeError, UsageError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.scopes import join


def _array(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    if isinstance(data, Tensor):
        data = data.data
    return listed(data, None if dtype is None else as_dtype(dtype))


def _name(name: str | None) -> str:
    if name is None:
        return ""
    if not isinstance(name, str) or not name.strip("/ "):
        raise UsageError(f"{name!r} is not a name", source=where(), hint="use a word such as 'w'")
    return join(current().scope, name.strip("/"))


def tensor(
    data: Any, dtype: Any = None, *, name: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor from data; a copy, so later writes to ``data`` do not change it.

    Args:
        data: An array, a number, or nested lists of numbers.
        dtype: NumPy dtype; the one that NumPy would choose if None.
        name: Its name in the graph, within the current scope.
        requires_grad: Whether `Tensor.backward` fills its ``.grad``.

    Raises:
        DtypeError: The data are not numbers, or require a gradient without being floating point.
    """
    if isinstance(data, Tensor) and not isinstance(data.data, np.ndarray):
        new_tensor = _copied(data, dtype)  # a value of a graph
    else:
        new_tensor = make(_array(data, dtype), name=_name(name))
    if requires_grad:
        new_tensor.edge = _leaf(new_tensor)
    tracer = dispatch_mode.observer()
    if tracer is not None:
        tracer.leaf(new_tensor)
    return new_tensor


def _copied(value: Tensor, dtype: Any) -> Tensor:
    """A copy that is a node of the graph, and through which no gradient flows back."""
    with dispatch_mode.recording(False):
        detached: Any = alias(value)
        if dtype is not None and as_dtype(dtype) != value.dtype:
            detached = apply(ops.get("astype"), (detached,), {"dtype": as_dtype(dtype).name})
        return apply(ops.get("copy"), (detached,), NO_ATTRS)


def parameter(data: Any, dtype: Any = None, *, name: str) -> Tensor:
    """A tensor that training changes. It requires a gradient; optimizers replace its array.

    Raises:
        DtypeError: The data are not floating point.
    """
    new_tensor = make(_array(data, dtype), kind="parameter", name=_name(name))
    new_tensor.edge = _leaf(new_tensor)
    builder = dispatch_mode.builder()
    if builder is not None:
        builder.new_parameter(new_tensor)
    return new_tensor


def constant(data: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """A tensor from data, into which no gradient flows."""
    new_tensor = make(_array(data, dtype), kind="constant", name=_name(name))
    tracer = dispatch_mode.observer()
    if tracer is not None:
        tracer.leaf(new_tensor)
    return new_tensor


def _leaf(tensor: Tensor) -> Any:
    if tensor.data.dtype.kind not in SMOOTH:
        raise DtypeError(
            f"a tensor of {tensor.dtype} cannot require a gradient",
            source=where(),
            hint="convert it to a floating-point dtype",
        )
    return LEAF


def stop_gradient(x: Any) -> Any:
    """The same value, which passes no gradient on."""
    return x.detach() if isinstance(x, Tensor) else x


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns ``(f(...), gradients)``.

    The gradient of a real result with respect to a complex argument is the direction of steepest
    ascent, ``df/dx + i df/dy``, as in PyTorch and `Tensor.backward`; JAX returns its conjugate.

    Args:
        f: Returns a scalar, or with ``has_aux`` a pair of a scalar and anything else.
        argnums: Positional arguments to differentiate with respect to. Each may be a tree of lists,
            tuples and dicts; its gradient has the same structure.
        has_aux: ``f`` also returns auxiliary data.
        holomorphic: ``f`` returns a complex number and is complex differentiable; returns its
            complex derivative.

    Raises:
        GradientError: ``f`` does not return a scalar, or an argument is not floating point.
    """
    numbers = numbers_of(argnums)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        call = DifferentiatedCall(f, args, kwargs, numbers, name="grad")
        value = call.result[0] if has_aux else call.result
        _check_scalar(value, has_aux, holomorphic)
        cotangent = np.ones((), value.dtype) if holomorphic else None
        gradients = call.pull(
            [value], [cotangent], name="grad", conjugate=not holomorphic, keep=False
        )
        trees = tuple(call.like_arguments(gradients))
        return call.result, trees if isinstance(argnums, tuple) else trees[0]

    return differentiated


def grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of ``f``; see `value_and_grad`.

    With ``has_aux`` it returns ``(gradient, aux)``.
    """
    both = value_and_grad(f, argnums, has_aux=has_aux, holomorphic=holomorphic)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        result, grads = both(*args, **kwargs)
        return (grads, result[1]) if has_aux else grads

    return differentiated


def _check_scalar(value: Any, has_aux: bool, holomorphic: bool) -> None:
    if not isinstance(value, Tensor) or value.ndim:
        actual = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise GradientError(
            f"grad: the function must return a scalar tensor, not {actual}",
            source=where(),
            hint="reduce it, as with .sum()" if not has_aux else "return (scalar, aux)",
        )
    if holomorphic and value.dtype.kind != "c":
        raise GradientError(
            f"grad: holomorphic=True requires complex results, not {value.dtype}", source=where()
        )


def note(target: Tensor) -> None:
    """Notify observers, if any, that a tensor is about to be assigned or written to."""
    noted = current().noted
    if noted is not None:
        noted(target)


def store(target: Tensor, assigned: Tensor) -> None:
    """Give ``target`` the array of an ``assign`` node, or have the graph being built record it."""
    builder = dispatch_mode.builder()
    if builder is None:
        note(target)
        target.data = assigned.data
        changed(target)
        target._vid = getattr(assigned, "_vid", 0)
    else:
        builder.store(target, assigned)


def assign(target: Tensor, value: Any) -> None:
    """Give a parameter a new array. Tensors computed from the old one keep their values.

    Raises:
        ShapeError: The shapes differ.
        UsageError: ``target`` was computed, so it cannot be given a value.
    """
    if target.edge is not LEAF and getattr(target, "_kind", "") != "parameter":
        raise UsageError(
            "assign: only parameters can be assigned to", source=where(), hint="make a new tensor"
        )
    # A copy, so that later writes to the user's array change nothing.
    if isinstance(value, Tensor):
        new = alias(settled(value))
    else:
        new = make(np.array(value), kind="constant")
    if isinstance(new.data, np.ndarray) and new.dtype == target.dtype:
        dispatch_mode.move(new, new.data.copy(order="K"))
    op = ops.get("assign")
    try:
        op.infer((spec_of(target), spec_of(new)), NO_ATTRS)
    except ShapeError as error:
        raise ShapeError(error.message, source=where(), hint=error.hint) from None
    note(target)
    with dispatch_mode.recording(False):
        store(target, apply(op, (target, new), NO_ATTRS))
