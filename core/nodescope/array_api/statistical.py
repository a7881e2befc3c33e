"""Reductions to statistics, and running sums and products.

Invariant: sums and products of small integers accumulate in the platform's integer, as in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.array_api.base import converted, tensor_of, traced
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError

Axes = int | tuple[int, ...] | None


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest elements. Raises `ShapeError` if there are none."""
    return tensor_of(x).max(axis=axis, keepdims=keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest elements. Raises `ShapeError` if there are none."""
    return tensor_of(x).min(axis=axis, keepdims=keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean."""
    return tensor_of(x).mean(axis=axis, keepdims=keepdims)


def sum(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum, accumulated in ``dtype``."""
    total = converted(tensor_of(x), dtype).sum(axis=axis, keepdims=keepdims)
    return converted(total, dtype)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product, accumulated in ``dtype``."""
    total = converted(tensor_of(x), dtype).prod(axis=axis, keepdims=keepdims)
    return converted(total, dtype)


def var(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance; ``correction`` is subtracted from the number of elements."""
    return tensor_of(x).var(axis=axis, ddof=correction, keepdims=keepdims)


def std(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation; ``correction`` is subtracted from the number of elements."""
    return tensor_of(x).std(axis=axis, ddof=correction, keepdims=keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sums; with ``include_initial`` they begin with 0."""
    return _running("cumulative_sum", np.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running products; with ``include_initial`` they begin with 1."""
    return _running("cumulative_prod", np.cumprod, 1, x, axis, dtype, include_initial)


def _running(
    name: str, run: Any, first: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    tensor = tensor_of(x)
    if axis is None:
        if tensor.ndim != 1:
            raise ShapeError(
                f"{name}: axis is required for shape {tensor.shape}",
                source=where(),
                hint="pass axis=",
            )
        axis = 0
    total: Tensor = converted(run(converted(tensor, dtype), axis=axis), dtype)
    if not include_initial:
        return total
    shape = list(total.shape)
    shape[axis] = 1
    return traced("concatenate", [np.full(shape, first, total.dtype), total], axis=axis)
