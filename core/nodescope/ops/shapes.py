"""Shape and dtype rules shared by several families.

Invariant: pure functions of specs; they agree exactly with NumPy, including size 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.errors import BoundsError, DtypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops.dtypes import name_of
from nodescope.ops.op import Infer, Operand

Axis = int | tuple[int, ...] | None


def shape_of(operand: Operand) -> tuple[int, ...]:
    """The shape of an operand; that of a Python scalar is empty."""
    return operand.shape if isinstance(operand, TensorSpec) else ()


def dtype_of(operand: Operand) -> Any:
    """The dtype of a tensor, or the type of a Python scalar, as `ufunc.resolve_dtypes` expects
    it.
    """
    if isinstance(operand, TensorSpec):
        return np.dtype(operand.dtype)
    return np.dtype(bool) if isinstance(operand, bool) else type(operand)


def broadcast(name: str, operands: Sequence[Operand]) -> tuple[int, ...]:
    """The common shape.

    Raises:
        ShapeError: The shapes do not broadcast.
    """
    shapes = [shape_of(operand) for operand in operands]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise ShapeError(
            f"{name}: shapes {listed} do not broadcast",
            hint="align them from the right: each pair of sizes must be equal or contain a 1",
        ) from None


def resolve(name: str, ufunc: np.ufunc, operands: Sequence[Operand]) -> np.dtype[Any]:
    """The output dtype of a ufunc.

    Raises:
        DtypeError: The ufunc has no loop for these.
    """
    dtypes = tuple(dtype_of(operand) for operand in operands)
    try:
        return ufunc.resolve_dtypes((*dtypes, None))[-1]
    except TypeError:
        raise named(name, dtypes) from None


def named(name: str, dtypes: Sequence[Any]) -> DtypeError:
    """The error for dtypes (or types of Python scalars) that an op is not defined for."""
    listed = ", ".join(
        dtype.name if isinstance(dtype, np.dtype) else dtype.__name__ for dtype in dtypes
    )
    return DtypeError(f"{name}: not defined for {listed}", hint="convert with .astype")


def tensor_spec(operand: Operand) -> TensorSpec:
    """The spec of an operand that must not be a bare number; a number counts as NumPy's scalar."""
    if isinstance(operand, TensorSpec):
        return operand
    return TensorSpec((), name_of(np.result_type(operand)))


def promoted(operands: Sequence[Operand]) -> np.dtype[Any]:
    """The dtype that NumPy promotes operands to; Python scalars are weak."""
    # np.result_type takes an example of a weak scalar, not its type.
    kinds = [dtype_of(operand) for operand in operands]
    return np.result_type(*(k if isinstance(k, np.dtype) else k(0) for k in kinds))


def like_ufunc(name: str, ufunc: np.ufunc) -> Infer:
    """The `infer` of an op that broadcasts and promotes like a ufunc."""

    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        shape = broadcast(name, specs)
        return TensorSpec(shape, name_of(resolve(name, ufunc, specs)))

    return infer


def axes(name: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes meant by ``axis``, non-negative and unique.

    Raises:
        BoundsError: An axis is out of range.
        ShapeError: An axis is given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    if axis.__class__ is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    axes_given = axis if isinstance(axis, tuple) else (axis,)
    normalised = []
    for number in axes_given:
        if not -ndim <= number < ndim:
            raise BoundsError(
                f"{name}: axis {number} is out of range for {ndim} dimensions",
                hint=f"axes go from {-ndim} to {ndim - 1}" if ndim else "a scalar has no axes",
            )
        normalised.append(number % ndim)
    if len(set(normalised)) != len(normalised):
        raise ShapeError(f"{name}: axis {axis} names a dimension twice")
    return tuple(normalised)


def reduced(
    name: str, shape: tuple[int, ...], axis: Axis, keepdims: bool, *, nonempty: bool = False
) -> tuple[int, ...]:
    """The shape after reducing.

    Raises:
        ShapeError: The axis does not exist, or ``nonempty`` and there are no elements to reduce
            over.
    """
    reduced_axes = axes(name, axis, len(shape))
    if nonempty and any(shape[i] == 0 for i in reduced_axes):
        raise ShapeError(f"{name}: nothing to reduce over in shape {shape}, axis {axis}")
    if keepdims:
        return tuple(1 if i in reduced_axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in reduced_axes)


def count(shape: tuple[int, ...], axis: Axis) -> int:
    """The number of elements that one output element of a reduction depends on."""
    if axis is None:
        return math.prod(shape)
    if axis.__class__ is int:
        return shape[axes("reduction", axis, len(shape))[0]]
    return math.prod([shape[i] for i in axes("reduction", axis, len(shape))])
