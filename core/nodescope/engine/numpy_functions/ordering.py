"""Partial sorting, largest elements, and arrays as sets.

Invariant: reordered elements keep their gradients; ties are always resolved the same way.
"""

from __future__ import annotations

from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    along,
    call,
    concrete,
    shape_error,
    tensor_of,
    unsupported,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.numpy_functions.index import flatnonzero
from nodescope.engine.numpy_functions.layout import ravel, reshape
from nodescope.engine.tensor import Tensor, alias
from nodescope.ops.shapes import axes


def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None
) -> Tensor:
    """``np.partition``."""
    x = tensor_of(a)
    if axis is None:
        x, axis = ravel(x), 0
    kth = concrete(kth, "np.partition: kth")
    order = call("argpartition", x, kth=tuple(np.atleast_1d(kth).tolist()), axis=int(axis))
    return call("take_along_axis", x, order, axis=int(axis))


def topk(x: Any, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) elements along an axis, in order, and their indices.

    Among equal elements, the first comes first; NaN counts as largest.

    Returns:
        Values and int64 indices, both with size ``k`` along ``axis``.

    Raises:
        ShapeError: There are fewer than ``k`` elements.
    """
    tensor = tensor_of(x)
    (at,) = axes("topk", (axis,), tensor.ndim)
    if not 0 <= k <= tensor.shape[at]:
        raise shape_error(
            f"topk: k = {k} is out of range for {tensor.shape[at]} elements along axis {at}"
        )
    order = call("argsort", tensor, axis=at, descending=bool(largest))
    places = along(order, at, slice(None, k))
    return call("take_along_axis", tensor, places, axis=at), places


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """``np.searchsorted``."""
    x = tensor_of(a)
    if sorter is not None:
        x = x[tensor_of(sorter)]
    if side not in ("left", "right"):
        raise unsupported(f"np.searchsorted: side={side!r}", "use 'left' or 'right'")
    return call("searchsorted", x, tensor_of(v), side=side)


def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """``np.digitize``; bins are numbers in ascending or descending order, not tensors."""
    edges = concrete(bins, "np.digitize: bins")
    side = "left" if right else "right"
    if edges.size > 1 and edges[0] > edges[-1]:
        side = "right" if right else "left"
        return len(edges) - searchsorted(edges[::-1], x, side)
    return searchsorted(edges, x, side)


def sort_complex(a: Any) -> Tensor:
    """``np.sort_complex``."""
    x = tensor_of(a)
    result = call("sort", x, axis=-1, descending=False)
    if x.dtype.kind == "c":
        return result
    small = x.dtype in (np.int8, np.int16, np.uint8, np.uint16)
    return result.astype(np.complex64 if small else np.complex128)


# Counts


def bincount(
    x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None
) -> Tensor:
    """The number of occurrences of 0, 1, 2, …, or the sums of their weights (`numpy.bincount`).

    Args:
        x: (n,), integers from 0.
        weights: (n,), or None for 1 each. Differentiable.
        minlength: The minimum number of counts.
        length: The exact number of counts, so that the shape does not depend on values.

    Raises:
        ShapeError: ``x`` contains a number that is not below ``length``.
    """
    inputs = (tensor_of(x),) if weights is None else (tensor_of(x), tensor_of(weights))
    return call("bincount", *inputs, minlength=int(minlength), length=length)


def histogram_bin_edges(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None
) -> Tensor:  # fmt: skip
    """``np.histogram_bin_edges``; edges have no gradient."""
    if not isinstance(bins, str) and np.ndim(bins):
        return tensor_of(np.histogram_bin_edges(np.zeros(1), concrete(bins, "np.histogram: bins")))
    limits = None if range is None else (float(range[0]), float(range[1]))
    bins = bins if isinstance(bins, str) else int(bins)
    return call("histogram_bin_edges", tensor_of(a), bins=bins, limits=limits)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    """``np.histogram``; counts have no gradient, but sums of weights do."""
    x = tensor_of(a)
    edges = histogram_bin_edges(x, bins, range)
    if weights is None:
        return call("histogram", x, edges, density=bool(density)), edges
    heavy = tensor_of(weights)
    if heavy.shape != x.shape:
        raise shape_error(f"np.histogram: weights of shape {heavy.shape} for {x.shape}")
    flat, size = ravel(x), edges.size - 1
    places = searchsorted(edges, flat, "right") - 1
    places = np.where(flat == edges[-1], size - 1, places)
    # Elements outside are counted in a separate bin, which is dropped.
    places = np.where(np.logical_and(places >= 0, places < size), places, size)
    counts = bincount(places, ravel(heavy), length=size + 1)[:size]
    if density:
        counts = counts / np.diff(edges) / np.sum(counts)
    elif heavy.dtype.kind not in "c" and counts.dtype != heavy.dtype:
        counts = counts.astype(heavy.dtype)
    return counts, edges


# Sets


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: int | None = None, *, equal_nan: bool = True,
    sorted: bool = True,
) -> Any:  # fmt: skip
    """``np.unique``: the shape of the result depends on values."""
    x = tensor_of(ar)
    if x.requires_grad and x.dtype.kind in "fcV" and axis is None:
        return _unique_with_gradient(
            x, (return_index, return_inverse, return_counts), bool(equal_nan)
        )
    if axis is None and not (return_index or return_inverse or return_counts):
        return call("unique", x, equal_nan=bool(equal_nan))
    results = call("unique_all", x, axis=axis, equal_nan=bool(equal_nan))
    flags = (True, return_index, return_inverse, return_counts)
    kept = tuple(result for result, want in zip(results, flags, strict=True) if want)
    return kept[0] if len(kept) == 1 else kept


def _unique_with_gradient(x: Tensor, options: tuple[bool, ...], equal_nan: bool) -> Any:
    """`unique` with values taken from their first places, so that gradients reach them."""
    results = call("unique_all", alias(x), axis=None, equal_nan=equal_nan)
    values = ravel(x)[results[1]]
    kept = tuple(result for result, want in zip(results[1:], options, strict=True) if want)
    return (values, *kept) if kept else values


def unique_values(x: Any, /) -> Tensor:
    """``np.unique_values``."""
    return unique(x, equal_nan=False)


def _named(name: str, *parts: int) -> Any:
    def function(x: Any, /) -> Any:
        results = unique(x, True, True, True, equal_nan=False)
        # NumPy's own result type, so that its fields have their names.
        return type(getattr(np, name)(np.zeros(0)))(*(results[i] for i in parts))

    return function


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: str | None = None,
) -> Tensor:  # fmt: skip
    """``np.isin``."""
    x, elements = tensor_of(element), ravel(test_elements)
    ordered = call("sort", elements, axis=-1, descending=False)
    if not elements.size:
        result: Any = np.zeros_like(x, dtype=bool)
    else:
        places = np.minimum(searchsorted(ordered, x), elements.size - 1)
        result = ordered[places] == x
    return np.logical_not(result) if invert else result


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """``np.intersect1d``: the shape of the result depends on values."""
    if return_indices:
        first_values, first = unique(ravel(ar1), return_index=True)
        second_values, second = unique(ravel(ar2), return_index=True)
        kept, others = isin(first_values, second_values), isin(second_values, first_values)
        common = first_values[kept].astype(np.result_type(first_values.dtype, second_values.dtype))
        return common, first[kept], second[others]
    first_values, second_values = unique(ravel(ar1)), ravel(ar2)
    return first_values[isin(first_values, second_values)].astype(
        np.result_type(first_values.dtype, second_values.dtype)
    )


def union1d(ar1: Any, ar2: Any) -> Tensor:
    """``np.union1d``: the shape of the result depends on values."""
    return unique(np.concatenate([ravel(ar1), ravel(ar2)]))


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    """``np.setdiff1d``: the shape of the result depends on values."""
    values = ravel(ar1) if assume_unique else unique(ravel(ar1))
    return values[isin(values, ar2, invert=True)]


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    """``np.setxor1d``: the shape of the result depends on values."""
    both = np.concatenate([unique(ravel(ar1)), unique(ravel(ar2))])
    ordered = call("sort", both, axis=-1, descending=False)
    if ordered.size < 2:
        return ordered
    new = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])
    return ordered[np.logical_and(new[1:], new[:-1])]


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    """``np.trim_zeros`` of one dimension: the shape of the result depends on values."""
    x = tensor_of(filt)
    if x.ndim != 1:
        raise shape_error(f"np.trim_zeros: expected one dimension, got shape {x.shape}")
    places = flatnonzero(x).data
    if not places.size:
        return x[:0]
    start = int(places[0]) if "f" in trim.lower() else 0
    stop = int(places[-1]) + 1 if "b" in trim.lower() else x.size
    return reshape(x[start:stop], (-1,))


NUMPY: Table = {
    np.partition: partition, np.searchsorted: searchsorted, np.digitize: digitize,
    np.sort_complex: sort_complex, np.bincount: bincount, np.histogram: histogram,
    np.histogram_bin_edges: histogram_bin_edges,
    np.unique: unique, np.unique_values: unique_values,
    np.unique_all: _named("unique_all", 0, 1, 2, 3),
    np.unique_counts: _named("unique_counts", 0, 3),
    np.unique_inverse: _named("unique_inverse", 0, 2), np.isin: isin,
    np.intersect1d: intersect1d, np.union1d: union1d, np.setdiff1d: setdiff1d,
    np.setxor1d: setxor1d, np.trim_zeros: trim_zeros,
}  # fmt: skip
