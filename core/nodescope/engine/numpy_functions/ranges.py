"""Ranges between tensors, sliding windows, and functions called slice by slice.

Invariant: numbers determine the counts; positions may be tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    along,
    call,
    shape_error,
    tensor_of,
    unsupported,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.numpy_functions.creation import full_like
from nodescope.engine.tensor import Tensor, make, operand
from nodescope.ops.layout import as_shape
from nodescope.ops.shapes import axes


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """``np.linspace`` between tensors: numbers or arrays that broadcast."""
    kind = _inexact(start, stop)
    first, last = np.broadcast_arrays(tensor_of(start), tensor_of(stop))
    first, last = first.astype(kind, copy=False), last.astype(kind, copy=False)
    count = int(num)
    parts = count - 1 if endpoint else count
    if count < 0:
        raise shape_error(f"np.linspace: the number of samples cannot be {count}", "give 0 or more")
    steps = np.arange(count).reshape(-1, *(1,) * first.ndim).astype(kind)
    delta = last - first
    step = delta / parts if parts > 0 else np.full_like(delta, np.nan)
    result = steps * step + first if parts > 0 else steps * delta + first
    if endpoint and count > 1:
        result = np.concatenate([result[:-1], last[None]])
    if axis != 0:
        result = np.moveaxis(result, 0, axis)
    if dtype is not None:
        target = np.dtype(dtype)
        result = (np.floor(result) if target.kind in "iu" else result).astype(target)
    return (result, step) if retstep else result


def _inexact(*operands: Any) -> Any:
    """The dtype of a range between these; Python numbers adapt to the dtype of the others."""
    kinds = [getattr(operand(value), "dtype", value) for value in operands]
    result_dtype = np.result_type(*kinds)
    return result_dtype if result_dtype.kind in "fcV" else np.result_type(result_dtype, 1.0)


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: Any = None, axis: int = 0,
) -> Tensor:  # fmt: skip
    """``np.logspace`` between tensors."""
    if isinstance(base, int | float):
        result = np.power(float(base), linspace(start, stop, num, endpoint, axis=axis))
    else:
        first, last, root = np.broadcast_arrays(*map(tensor_of, (start, stop, base)))
        powers = linspace(first, last, num, endpoint, axis=axis)
        result = np.power(np.expand_dims(root, axis) if root.ndim else root, powers)
    return result if dtype is None else result.astype(dtype)  # type: ignore[no-any-return]


def _window_shape(
    shape_given: Any, axis: Any, ndim: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = as_shape(shape_given)
    at = tuple(range(ndim)) if axis is None else axes("sliding_window_view", as_shape(axis), ndim)
    if len(sizes) != len(at):
        raise shape_error(
            f"sliding_window_view: {len(sizes)} sizes for {len(at)} axes",
            "give a size for each axis",
        )
    return sizes, at


def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tensor:
    """``np.lib.stride_tricks.sliding_window_view``, as a copy: all windows, in new last axes."""
    if writeable:
        raise unsupported(
            "np.sliding_window_view: writeable=True is not traced: windows are copies here",
            "omit it",
        )
    tensor = tensor_of(x)
    sizes, at = _window_shape(window_shape, axis, tensor.ndim)
    for size, axis_ in zip(sizes, at, strict=True):
        places = tensor.shape[axis_] - size + 1
        if size < 0 or places < 1:
            raise shape_error(
                f"sliding_window_view: a window of {size} in {tensor.shape[axis_]} elements of "
                f"axis {axis_}",
                "a window cannot be larger than the axis that it slides over",
            )
        index = np.arange(places)[:, None] + np.arange(size)
        tensor = np.moveaxis(along(tensor, axis_, index), axis_ + 1, -1)
    return tensor


def reduceat(
    reduce: Callable[..., Any], name: str, array: Any, indices: Any, axis: int = 0,
    dtype: Any = None, out: None = None,
) -> Any:  # fmt: skip
    """``ufunc.reduceat``: from each index up to the next; one element if the next is not higher."""
    x = tensor_of(array)
    if isinstance(indices, Tensor):
        raise unsupported(
            f"{name}.reduceat: the indices determine what is reduced, so they cannot be a tensor",
            "pass numbers, as with .numpy()",
        )
    if dtype is not None:
        x = x.astype(dtype)
    (at,) = axes("reduceat", (axis,), x.ndim)
    starts = [int(index) for index in np.ravel(indices)]
    if any(not 0 <= start < x.shape[at] for start in starts):
        raise shape_error(
            f"{name}.reduceat: an index is out of range for {x.shape[at]} elements", "count from 0"
        )
    ends = [*starts[1:], x.shape[at]]
    parts = [
        reduce(along(x, at, slice(start, end)), axis=at) if start < end else along(x, at, start)
        for start, end in zip(starts, ends, strict=True)
    ]
    if not parts:
        return along(x, at, slice(0, 0))
    kind = np.result_type(*(part.dtype for part in parts))
    return np.stack([part.astype(kind, copy=False) for part in parts], axis=at)


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """``np.apply_along_axis``: ``func1d`` is called with each line, and may return tensors."""
    x = tensor_of(arr)
    (at,) = axes("apply_along_axis", (axis,), x.ndim)
    lined = np.moveaxis(x, at, -1)
    places = list(np.ndindex(lined.shape[:-1]))
    if not places:
        raise shape_error(
            f"np.apply_along_axis: shape {x.shape} has no line along axis {at}", "see .shape"
        )
    results = [tensor_of(func1d(lined[place], *args, **kwargs)) for place in places]
    joined = np.stack(results).reshape((*lined.shape[:-1], *results[0].shape))
    new = tuple(range(lined.ndim - 1, joined.ndim))
    return np.moveaxis(joined, new, tuple(range(at, at + len(new))))  # type: ignore[no-any-return]


def apply_over_axes(func: Any, a: Any, axes: Any) -> Tensor:
    """``np.apply_over_axes``: ``func(x, axis)`` for one axis after the other."""
    x = tensor_of(a)
    for axis in as_shape(axes):
        result = func(x, axis % x.ndim)
        x = result if result.ndim == x.ndim else np.expand_dims(result, axis % x.ndim)
    return x


# Functions that make arrays, where like= is a tensor


def _made(function: Callable[..., Any]) -> Callable[..., Tensor]:
    return lambda *args, **kwargs: make(function(*args, **kwargs), kind="constant")


def _full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None
) -> Tensor:
    if isinstance(fill_value, Tensor):
        kind = fill_value.dtype if dtype is None else np.dtype(dtype)
        return full_like(np.broadcast_to(np.zeros((), kind), as_shape(shape)), fill_value)
    return make(np.full(shape, fill_value, dtype), kind="constant")


def _converted(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    tensor = tensor_of(a)
    converted = tensor if dtype is None else tensor.astype(dtype, copy=False)
    return call("copy", converted) if kwargs.get("copy") and converted is a else converted


NUMPY: Table = {
    np.linspace: linspace, np.logspace: logspace,
    np.lib.stride_tricks.sliding_window_view: sliding_window_view,
    np.apply_along_axis: apply_along_axis, np.apply_over_axes: apply_over_axes, np.full: _full,
    np.zeros: _made(np.zeros), np.ones: _made(np.ones), np.empty: _made(np.zeros),
    np.eye: _made(np.eye), np.identity: _made(np.identity), np.arange: _made(np.arange),
    np.tri: _made(np.tri), np.array: _converted, np.asarray: _converted,
    np.asanyarray: _converted, np.ascontiguousarray: _converted, np.asfortranarray: _converted,
}  # fmt: skip
