"""Running sums and products with all of NumPy's arguments.

Invariant: one node, and a conversion if ``dtype`` requires one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    call,
    refuse_out,
    shape_error,
    tensor_of,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.tensor import Tensor
from nodescope.ops.shapes import axes


def _scan(op: str) -> Callable[..., Tensor]:
    def function(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tensor:
        refuse_out(f"np.{op}", out)
        x = tensor_of(a)
        if dtype is not None and np.dtype(dtype) != x.dtype:
            x = x.astype(dtype)
        result = call(op, x, axis=None if axis is None else int(axis))
        return result if dtype is None or result.dtype == dtype else result.astype(dtype)

    return function


def _accumulate(op: str) -> Callable[..., Tensor]:
    scan = _scan(op)

    def function(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Tensor:
        x = tensor_of(array)
        if not x.ndim:
            raise shape_error("accumulate: a scalar has no axis to accumulate along")
        return scan(x, axis, dtype, out)

    return function


def _cumulative(op: str, first: int) -> Callable[..., Tensor]:
    scan = _scan(op)

    def function(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, out: None = None,
        include_initial: bool = False,
    ) -> Tensor:  # fmt: skip
        tensor = tensor_of(x)
        if axis is None:
            if tensor.ndim != 1:
                raise shape_error(f"cumulative: axis is required for shape {tensor.shape}")
            axis = 0
        (at,) = axes("cumulative", (axis,), tensor.ndim)
        result = scan(tensor, at, dtype, out)
        if not include_initial:
            return result
        shape = (*tensor.shape[:at], 1, *tensor.shape[at + 1 :])
        start = np.full(shape, first, result.dtype)
        return call("concatenate", tensor_of(start), result, axis=at)

    return function


cumsum, cumprod, cummax, cummin = map(_scan, ("cumsum", "cumprod", "cummax", "cummin"))
cumsum.__doc__ = "``np.cumsum``."
cumprod.__doc__ = "``np.cumprod``."
cummax.__doc__ = "The largest so far along an axis; ``np.maximum.accumulate``."
cummin.__doc__ = "The smallest so far along an axis; ``np.minimum.accumulate``."

UFUNC_ACCUMULATE: Table = {
    np.add: _accumulate("cumsum"), np.multiply: _accumulate("cumprod"),
    np.maximum: _accumulate("cummax"), np.minimum: _accumulate("cummin"),
}  # fmt: skip
"""Implementations of ``ufunc.accumulate``."""

NUMPY: Table = {np.cumsum: cumsum, np.cumprod: cumprod}
if hasattr(np, "cumulative_sum"):
    NUMPY[np.cumulative_sum] = _cumulative("cumsum", 0)
    NUMPY[np.cumulative_prod] = _cumulative("cumprod", 1)
