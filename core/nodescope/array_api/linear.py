"""Products of matrices and vectors.

Invariant: `matmul` and `vecdot` batch over the other dimensions, as the standard requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodescope.array_api.base import converted, tensor_of, traced
from nodescope.array_api.dtypes import result_type
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import BoundsError, ShapeError


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The matrix product, as ``@``."""
    return tensor_of(x1) @ tensor_of(x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dimensions swapped."""
    return tensor_of(x).mT


def tensordot(
    x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The sum of products over several axes, as `numpy.tensordot`."""
    return traced("tensordot", tensor_of(x1), tensor_of(x2), axes=axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The dot product along one axis, the first operand conjugated.

    Raises:
        BoundsError: One of the operands lacks the axis.
        ShapeError: The operands differ in size along it.
    """
    left, right = tensor_of(x1), tensor_of(x2)
    for operand in (left, right):
        if not -operand.ndim <= axis < operand.ndim:
            raise BoundsError(f"vecdot: axis {axis} is out of range for {operand.shape}",
                              source=where())  # fmt: skip
    if left.shape[axis] != right.shape[axis]:
        raise ShapeError(
            f"vecdot: {left.shape} and {right.shape} differ along axis {axis}", source=where()
        )
    dtype = result_type(left, right)
    left, right = traced("moveaxis", left, axis, -1), traced("moveaxis", right, axis, -1)
    if left.dtype.kind == "c":
        left = traced("conjugate", left)
    if dtype.kind == "b":
        return (left & right).any(axis=-1)
    return converted((left * right).sum(axis=-1), dtype)
