"""Medians and quantiles: sorting, and reading at positions determined by shapes alone.

Invariant: the position and the interpolation are NumPy's for every method; NaN gives NaN.
"""

from __future__ import annotations

from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    call,
    concrete,
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
from nodescope.ops.shapes import axes, count


def _lined(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """The sorted elements with the reduced axes merged into a last one; and the result's shape
    without and with the reduced axes.
    """
    reduced_axes = axes("quantile", as_axis(axis), x.ndim)
    rest = tuple(i for i in range(x.ndim) if i not in reduced_axes)
    kept = tuple(x.shape[i] for i in rest)
    wide = tuple(1 if i in reduced_axes else n for i, n in enumerate(x.shape))
    size = count(x.shape, as_axis(axis))
    lined = np.transpose(x, (*rest, *reduced_axes)).reshape((*kept, size))
    return call("sort", lined, axis=-1, descending=False), kept, wide


def _or_nan(result: Any, is_nan: Any) -> Any:
    return np.where(is_nan, np.asarray(np.nan, result.dtype), result)


def median(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """``np.median``."""
    refuse_out("np.median", out)
    x = tensor_of(a)
    ordered, _, wide = _lined(x, axis)
    size = ordered.shape[-1]
    if not size:
        raise shape_error(f"np.median: nothing to reduce over in shape {x.shape}")
    result = np.mean(ordered[..., (size - 1) // 2 : size // 2 + 1], axis=-1)
    if x.dtype.kind in "fc":
        result = _or_nan(result, np.isnan(ordered[..., -1]))
    return result.reshape(wide) if keepdims else result


def quantile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: None = None,
) -> Tensor:  # fmt: skip
    """``np.quantile``; ``q`` holds numbers, not tensors.

    Raises:
        ShapeError: No elements to reduce over.
        ValueError: ``q`` leaves [0, 1], or the method does not exist.
    """
    refuse_out("np.quantile", out)
    if weights is not None:
        raise unsupported(
            "np.quantile and np.percentile: weights= is not traced", "use .numpy() first"
        )
    x, levels = tensor_of(a), concrete(q, "np.quantile: q")
    if x.dtype.kind not in "fiu":
        raise dtype_error(f"np.quantile: not defined for {x.dtype}", "convert with .astype")
    ordered, kept, wide = _lined(x, axis)
    size = ordered.shape[-1]
    if not size:
        raise shape_error(f"np.quantile: nothing to reduce over in shape {x.shape}")
    dtype = np.asarray(np.quantile(np.zeros(2, x.dtype), q, method=method)).dtype
    # The quantile of 0, 1, 2, … is the position itself, including its fraction.
    position = np.asarray(np.quantile(np.arange(float(size)), levels, method=method))
    low = np.floor(position).astype(np.intp)
    high = np.minimum(low + 1, size - 1)
    share = np.asarray(position - low, dtype if dtype.kind == "f" else np.float64)
    lower = ordered[..., low]
    if share.any():
        upper = ordered[..., high]
        step = upper - lower
        # From the nearer end, as in NumPy, so that the ends are exact.
        result: Any = np.where(share < 0.5, lower + step * share, upper - step * (1 - share))
    else:
        result = lower
    if result.dtype != dtype:
        result = result.astype(dtype)
    if x.dtype.kind == "f":
        bad = np.isnan(ordered[..., -1])
        result = _or_nan(result, bad.reshape(kept + (1,) * levels.ndim))
    if levels.ndim:
        # The levels come first.
        lead = tuple(range(len(kept), len(kept) + levels.ndim))
        result = np.transpose(result, (*lead, *range(len(kept))))
    return result.reshape((*levels.shape, *wide)) if keepdims else result


def percentile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: None = None,
) -> Tensor:  # fmt: skip
    """``np.percentile``: `quantile` with ``q`` in percent."""
    x = tensor_of(a)
    levels = concrete(q, "np.percentile: q")
    exact = x.dtype.type(100) if x.dtype.kind == "f" and levels.ndim == 0 else 100
    return quantile(
        x, np.true_divide(levels, exact) if levels.ndim else (levels / exact).item(),
        axis, out, overwrite_input, method, keepdims, weights=weights,
    )  # fmt: skip


def nanmedian(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """``np.nanmedian``."""
    x = tensor_of(a)
    if x.dtype.kind not in "fc":
        return median(x, axis, out, overwrite_input, keepdims)
    refuse_out("np.nanmedian", out)
    ordered, _, wide = _lined(x, axis)
    places = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    ends = [np.maximum((places - 1) // 2, 0), np.minimum(places // 2, ordered.shape[-1] - 1)]
    ends[1] = np.where(places > 0, ends[1], 0)
    both = np.concatenate([np.take_along_axis(ordered, end, -1) for end in ends], axis=-1)
    result = np.mean(both, axis=-1)
    return result.reshape(wide) if keepdims else result


def nanquantile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: None = None,
) -> Tensor:  # fmt: skip
    """``np.nanquantile``; ``q`` holds numbers, not tensors."""
    x = tensor_of(a)
    if x.dtype.kind != "f":
        return quantile(x, q, axis, out, overwrite_input, method, keepdims, weights=weights)
    refuse_out("np.nanquantile", out)
    if weights is not None:
        raise unsupported(
            "np.nanquantile and np.nanpercentile: weights= is not traced", "use .numpy() first"
        )
    levels = concrete(q, "np.nanquantile: q")
    if ((levels < 0) | (levels > 1)).any():
        raise ValueError("Quantiles must be in the range [0, 1]")
    dtype = np.asarray(np.quantile(np.zeros(2, x.dtype), q, method=method)).dtype
    ordered, kept, wide = _lined(x, axis)
    places = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    if method == "linear":
        position = np.maximum(places - 1, 0) * levels.ravel()
    else:  # the position for 1, 2, 3 … valid elements
        counts = range(1, ordered.shape[-1] + 1)
        among = [np.quantile(np.arange(float(n)), levels.ravel(), method=method) for n in counts]
        position = tensor_of(np.array([among[0], *among]))[places[..., 0]]
    low = np.floor(position)
    share = (position - low).astype(dtype)
    low = low.astype(np.intp)
    high = np.maximum(np.minimum(low + 1, places - 1), 0)
    lower, upper = (np.take_along_axis(ordered, bound, -1) for bound in (low, high))
    step = upper - lower
    result = np.where(share < 0.5, lower + step * share, upper - step * (1 - share)).astype(dtype)
    result = np.moveaxis(result, -1, 0).reshape((*levels.shape, *(wide if keepdims else kept)))
    return result


def nanpercentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Tensor:
    """``np.nanpercentile``: `nanquantile` with ``q`` in percent."""
    x, levels = tensor_of(a), concrete(q, "np.nanpercentile: q")
    exact = x.dtype.type(100) if x.dtype.kind == "f" and levels.ndim == 0 else 100
    share = np.true_divide(levels, exact) if levels.ndim else (levels / exact).item()
    return nanquantile(x, share, *args, **kwargs)


NUMPY: Table = {
    np.median: median, np.quantile: quantile, np.percentile: percentile,
    np.nanmedian: nanmedian, np.nanquantile: nanquantile, np.nanpercentile: nanpercentile,
}  # fmt: skip
