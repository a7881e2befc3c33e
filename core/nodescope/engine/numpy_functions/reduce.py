"""Reductions with all of NumPy's arguments, and those that are made of several ops.

Invariant: without ``dtype``, ``initial`` and ``where`` a reduction is one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    call,
    dtype_error,
    refuse_out,
    shape_error,
    tensor_of,
    unsupported,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.tensor import Tensor
from nodescope.ops.reduction import as_axis
from nodescope.ops.shapes import Axis, count


def masked(a: Tensor, where: Any, fill: Any) -> Tensor:
    """``a`` where ``where`` holds, else ``fill``, in the dtype of ``a``."""
    return np.where(where, a, np.asarray(fill, a.dtype))


def _started(result: Tensor, initial: Any, ufunc: np.ufunc) -> Tensor:
    if initial is None:
        return result
    if isinstance(initial, Tensor):
        return ufunc(result, initial)
    return ufunc(result, np.asarray(initial, result.dtype))


def _total(name: str, neutral: int, ufunc: np.ufunc) -> Callable[..., Tensor]:
    def function(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Tensor:  # fmt: skip
        refuse_out(f"np.{name}", out)
        x = tensor_of(a)
        target = None if dtype is None else np.dtype(dtype)
        if target is not None and target != x.dtype:
            x = x.astype(target)
        if where is not True:
            x = masked(x, where, neutral)
        result = call(name, x, axis=as_axis(axis), keepdims=bool(keepdims))
        # Small integers are summed in the platform's integer; wrapping the sum gives the same
        # result as wrapping on the way.
        if target is not None and result.dtype != target:
            result = result.astype(target)
        return _started(result, initial, ufunc)

    return function


def _extreme(name: str, ufunc: np.ufunc) -> Callable[..., Tensor]:
    def function(
        a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = True,
    ) -> Tensor:  # fmt: skip
        refuse_out(f"np.{name}", out)
        x, along = tensor_of(a), as_axis(axis)
        if where is not True:
            if initial is None:
                raise unsupported(
                    f"np.{name}: where= needs initial=, the result where nothing is selected"
                )
            x = masked(x, where, initial)
        if initial is not None and not count(x.shape, along):
            # No elements: a sum has the right shape, and is 0.
            return np.zeros_like(np.sum(x, axis=along, keepdims=keepdims), dtype=x.dtype) + (
                np.asarray(initial, x.dtype)
            )
        result = call(name, x, axis=along, keepdims=bool(keepdims))
        return _started(result, initial, ufunc)

    return function


def _logical(name: str, fill: bool) -> Callable[..., Tensor]:
    def function(
        a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Tensor:
        refuse_out(f"np.{name}", out)
        x = tensor_of(a)
        if where is not True:
            x = masked(x if x.dtype == bool else x != 0, where, fill)
        return call(name, x, axis=as_axis(axis), keepdims=bool(keepdims))

    return function


sum = _total("sum", 0, np.add)
prod = _total("prod", 1, np.multiply)
max = _extreme("max", np.maximum)
min = _extreme("min", np.minimum)
any = _logical("any", False)
all = _logical("all", True)


def _floats(x: Tensor, dtype: Any, name: str) -> Tensor:
    if dtype is None:
        return x
    if np.dtype(dtype).kind not in "fc":
        raise dtype_error(
            f"np.{name}: dtype={np.dtype(dtype)} would truncate the mean",
            "convert the result with .astype",
        )
    return x.astype(dtype)


def _counted(x: Tensor, where: Any, axis: Axis, keepdims: bool) -> Any:
    selected = np.broadcast_to(where, x.shape)
    return np.sum(selected, axis=axis, keepdims=keepdims)


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *,
    where: Any = True,
) -> Tensor:  # fmt: skip
    """``np.mean``."""
    refuse_out("np.mean", out)
    x, along = _floats(tensor_of(a), dtype, "mean"), as_axis(axis)
    if where is True:
        return call("mean", x, axis=along, keepdims=bool(keepdims))
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)
    total = np.sum(masked(x, where, 0), axis=along, keepdims=keepdims)
    return total / _counted(x, where, along, keepdims).astype(x.dtype)


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Any = None, correction: Any = None,
) -> Tensor:  # fmt: skip
    """``np.var``."""
    refuse_out("np.var", out)
    if correction is not None:
        ddof = correction
    x, along = _floats(tensor_of(a), dtype, "var"), as_axis(axis)
    if where is True and mean is None:
        return call("var", x, axis=along, keepdims=bool(keepdims), ddof=ddof)
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)
    centred = x - (_mean(x, along, keepdims=True, where=where) if mean is None else mean)
    if where is not True:
        centred = masked(centred, where, 0)
    squares = np.square(np.abs(centred)) if x.dtype.kind == "c" else np.square(centred)
    n = _counted(x, where, along, keepdims).astype(squares.dtype) - ddof
    return np.sum(squares, axis=along, keepdims=keepdims) / np.maximum(n, 0)


_mean = mean


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Any = None, correction: Any = None,
) -> Tensor:  # fmt: skip
    """``np.std``."""
    refuse_out("np.std", out)
    if where is not True or mean is not None:
        spread = var(
            a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
        )
        # Where the spread is 0 there is no gradient; 0 is the mean of the one-sided slopes.
        none = spread == 0
        root = np.sqrt(np.where(none, np.asarray(1, spread.dtype), spread))
        return np.where(none, np.asarray(0, spread.dtype), root)
    x = _floats(tensor_of(a), dtype, "std")
    ddof = ddof if correction is None else correction
    return call("std", x, axis=as_axis(axis), keepdims=bool(keepdims), ddof=ddof)


def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Tensor:
    """``np.ptp``: the largest minus the smallest element."""
    refuse_out("np.ptp", out)
    x = tensor_of(a)
    return max(x, axis, keepdims=keepdims) - min(x, axis, keepdims=keepdims)


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """``np.average``. Weights that sum to 0 give NaN or infinity."""
    x, along = tensor_of(a), as_axis(axis)
    if weights is None:
        result = mean(x, along, keepdims=keepdims)
        number = np.asarray(count(x.shape, along), result.dtype)
        return (result, np.broadcast_to(tensor_of(number), result.shape)) if returned else result
    w = tensor_of(weights)
    dtype = np.result_type(x.dtype, w.dtype, *([np.float64] if x.dtype.kind in "biu" else []))
    if w.shape != x.shape:
        if not isinstance(along, int):
            raise shape_error(
                f"np.average: weights {w.shape} and {x.shape} differ",
                "give the axis that they apply to",
            )
        if w.shape != (x.shape[along],):
            raise shape_error(f"np.average: weights {w.shape} do not fit axis {along} of {x.shape}")
        w = w.reshape([-1 if i == along % x.ndim else 1 for i in range(x.ndim)])
        w = np.broadcast_to(w, x.shape)
    scale = np.sum(w.astype(dtype), axis=along, keepdims=keepdims)
    product = x.astype(dtype) * w.astype(dtype)
    result = np.sum(product, axis=along, keepdims=keepdims) / scale
    return (result, scale) if returned else result


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """``np.count_nonzero``, always as a tensor."""
    x = tensor_of(a)
    return sum(x if x.dtype == bool else x != 0, axis, keepdims=keepdims)


def _logaddexp_reduce(
    a: Any, axis: Any = 0, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    x = tensor_of(a)
    if x.dtype.kind in "biu":
        x = x.astype(np.logaddexp.resolve_dtypes((x.dtype, x.dtype, None))[2])
    if where is not True:
        x = masked(x, where, -np.inf)
    result = call("logsumexp", x, axis=as_axis(axis), keepdims=bool(keepdims))
    return _started(result, initial, np.logaddexp)


def _logical_reduce(function: Callable[..., Tensor], ufunc: np.ufunc) -> Callable[..., Tensor]:
    def reduce(a: Any, *, initial: Any = None, **rest: Any) -> Tensor:
        result = function(a, **rest)
        return result if initial is None else ufunc(result, initial)

    return reduce


UFUNC_REDUCE: Table = {
    np.add: sum, np.multiply: prod, np.maximum: max, np.minimum: min,
    np.logical_and: _logical_reduce(all, np.logical_and),
    np.logical_or: _logical_reduce(any, np.logical_or), np.logaddexp: _logaddexp_reduce,
}  # fmt: skip
"""Implementations of ``ufunc.reduce``."""

NUMPY: Table = {
    np.sum: sum, np.prod: prod, np.max: max, np.amax: max, np.min: min, np.amin: min,
    np.any: any, np.all: all, np.mean: mean, np.var: var, np.std: std, np.ptp: ptp,
    np.average: average, np.count_nonzero: count_nonzero,
}  # fmt: skip
