"""Reductions that ignore NaN.

Invariant: where only NaN is reduced over, the result is NaN for means and extremes, and the neutral
element for sums and products, as in NumPy; only NumPy's warning is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions import reduce
from nodescope.engine.numpy_functions.base import Table, refuse_out, tensor_of, unsupported
from nodescope.engine.numpy_functions.base import xp as np
from nodescope.engine.tensor import Tensor


def _filled(x: Tensor, fill: float) -> Tensor:
    if x.dtype.kind not in "fc":
        return x
    return np.where(np.isnan(x), np.asarray(fill, x.dtype), x)


def _total(function: Callable[..., Tensor], fill: float) -> Callable[..., Tensor]:
    def total(a: Any, *args: Any, **kwargs: Any) -> Tensor:
        return function(_filled(tensor_of(a), fill), *args, **kwargs)

    return total


def _average(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def average(a: Any, *args: Any, where: Any = True, **kwargs: Any) -> Tensor:
        x = tensor_of(a)
        if x.dtype.kind in "fc":
            valid = ~np.isnan(x)
            where = valid if where is True else np.logical_and(valid, where)
        return function(x, *args, where=where, **kwargs)

    return average


def _extreme(function: Callable[..., Tensor], fill: float) -> Callable[..., Tensor]:
    def extreme(
        a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = True,
    ) -> Tensor:  # fmt: skip
        refuse_out("np.nanmax and np.nanmin", out)
        x = tensor_of(a)
        extremes = function(_filled(x, fill), axis, None, keepdims, initial, where)
        if x.dtype.kind not in "fc" or initial is not None:
            return extremes
        if where is not True:
            raise unsupported("np.nanmax and np.nanmin: where= needs initial=")
        empty = np.all(np.isnan(x), axis=axis, keepdims=keepdims)
        return np.where(empty, np.asarray(np.nan, x.dtype), extremes)

    return extreme


NUMPY: Table = {
    np.nansum: _total(reduce.sum, 0), np.nanprod: _total(reduce.prod, 1),
    np.nancumsum: _total(lambda x, *args, **kwargs: np.cumsum(x, *args, **kwargs), 0),
    np.nancumprod: _total(lambda x, *args, **kwargs: np.cumprod(x, *args, **kwargs), 1),
    np.nanmean: _average(reduce.mean), np.nanvar: _average(reduce.var),
    np.nanstd: _average(reduce.std), np.nanmax: _extreme(reduce.max, -np.inf),
    np.nanmin: _extreme(reduce.min, np.inf),
}  # fmt: skip
