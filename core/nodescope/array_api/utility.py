"""Tests of whole tensors, and differences.

Invariant: NaN counts as true.
"""

from __future__ import annotations

from typing import Any

from nodescope.array_api.base import tensor_of, traced
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DomainError
from nodescope.ops.shapes import axes

Axes = int | tuple[int, ...] | None


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are nonzero."""
    return tensor_of(x).all(axis=axis, keepdims=keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether any element is nonzero."""
    return tensor_of(x).any(axis=axis, keepdims=keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """The differences of neighbours along an axis, ``n`` times.

    Args:
        x: At least one dimension.
        axis: The axis of the differences.
        n: The number of repetitions; 0 returns the tensor.
        prepend: Values to prepend to ``x`` along the axis first.
        append: Values to append.

    Raises:
        DomainError: ``n`` is negative.
        BoundsError: The axis does not exist.
    """
    differences = tensor_of(x)
    (along,) = axes("diff", (axis,), differences.ndim)
    if n < 0:
        raise DomainError(f"diff: cannot take differences {n} times", source=where())
    if n == 0:  # as in NumPy, prepend and append are then ignored
        return differences
    parts = [tensor_of(part) for part in (prepend, differences, append) if part is not None]
    if len(parts) > 1:
        differences = traced("concatenate", parts, axis=along)
    lead = (slice(None),) * along
    for _ in range(n):
        upper, lower = differences[(*lead, slice(1, None))], differences[(*lead, slice(None, -1))]
        # For booleans, the difference is inequality: minus is not defined for them.
        differences = upper ^ lower if differences.dtype.kind == "b" else upper - lower
    return differences
