"""Array creation.

Invariant: a tensor never shares memory with anything that the user can write to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.array_api.base import (
    check_device,
    converted,
    dtype_of,
    made,
    no_copy,
    tensor_of,
    traced,
)
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError, UsageError

Shape = int | tuple[int, ...]


def asarray(
    obj: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """Convert anything array-like to a tensor; a tensor itself is copied or cast only if asked to.

    Raises:
        DtypeError: The object does not hold numbers.
        DomainError: ``copy=False`` for an object other than a tensor: without a copy, the tensor
            would change when the program writes to the object.
    """
    check_device("asarray", device)
    target = dtype_of(dtype)
    if isinstance(obj, Tensor):
        if target is not None and target != obj.dtype:
            if copy is False:
                raise no_copy("asarray", f"{obj.dtype} is converted to {target}")
            return obj.astype(target)
        return obj.copy() if copy else obj
    if copy is False and not isinstance(obj, bool | int | float | complex):
        raise no_copy("asarray", "a tensor keeps its own elements")
    if isinstance(obj, list | tuple) and _holds_tensors(obj):
        return converted(_stacked(obj), target)
    return made(np.array(obj, dtype=target))


def _holds_tensors(obj: Any) -> bool:
    if isinstance(obj, list | tuple):
        return any(map(_holds_tensors, obj))
    return isinstance(obj, Tensor)


def _stacked(obj: Any) -> Tensor:
    if not isinstance(obj, list | tuple):
        return tensor_of(obj)
    return traced("stack", [_stacked(item) for item in obj])


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor with copied elements of another library's array.

    Raises:
        DomainError: ``copy=False``: a tensor always holds its own elements.
    """
    check_device("from_dlpack", device)
    if isinstance(x, Tensor):
        return x.copy() if copy else x
    if copy is False:
        raise no_copy("from_dlpack", "a tensor keeps its own elements")
    return made(np.array(np.from_dlpack(x)))


def empty(shape: Shape, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros, since leftover memory contents would differ from run to run."""
    return zeros(shape, dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros of a shape, float64 by default."""
    check_device("zeros", device)
    return made(np.zeros(_shape("zeros", shape), dtype_of(dtype) or np.float64))


def ones(shape: Shape, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones of a shape, float64 by default."""
    check_device("ones", device)
    return made(np.ones(_shape("ones", shape), dtype_of(dtype) or np.float64))


def full(shape: Shape, fill_value: Any, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """A tensor filled with one value; gradients flow back to a scalar tensor."""
    check_device("full", device)
    sizes = _shape("full", shape)
    if isinstance(fill_value, Tensor):
        return traced("broadcast_to", converted(fill_value, dtype), sizes)
    return made(np.full(sizes, fill_value, dtype_of(dtype)))


def empty_like(x: Tensor, /, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros of the same shape, see `empty`."""
    return zeros_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros of the same shape, and dtype unless another is given."""
    check_device("zeros_like", device)
    tensor = tensor_of(x)
    return made(np.zeros(tensor.shape, dtype_of(dtype) or tensor.dtype))


def ones_like(x: Tensor, /, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones of the same shape, and dtype unless another is given."""
    check_device("ones_like", device)
    tensor = tensor_of(x)
    return made(np.ones(tensor.shape, dtype_of(dtype) or tensor.dtype))


def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """One value in the same shape, and dtype unless another is given."""
    tensor = tensor_of(x)
    return full(tensor.shape, fill_value, dtype=dtype_of(dtype) or tensor.dtype, device=device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """Numbers from ``start`` (0 if only one is given) up to, but not including, ``stop``.

    Raises:
        UsageError: ``step`` is 0.
    """
    check_device("arange", device)
    if step == 0:
        raise UsageError("arange: step must not be 0", source=where())
    if stop is None:
        start, stop = 0, start
    return made(np.arange(start, stop, step, dtype=dtype_of(dtype)))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` numbers at equal distances from ``start`` to ``stop``."""
    check_device("linspace", device)
    return made(np.linspace(start, stop, num, dtype=dtype_of(dtype), endpoint=endpoint))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """Ones on the ``k``-th diagonal, zeros elsewhere."""
    check_device("eye", device)
    return made(np.eye(n_rows, n_cols, k=k, dtype=dtype_of(dtype) or np.float64))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid, one tensor per vector.

    Args:
        arrays: Vectors or scalars.
        indexing: ``"ij"``, or ``"xy"`` with the first two dimensions swapped.

    Raises:
        ShapeError: An array has more than one dimension.
        UsageError: ``indexing`` has another value.
    """
    if indexing not in ("xy", "ij"):
        raise UsageError(
            f"meshgrid: unknown indexing {indexing!r}", source=where(), hint='"xy", "ij"'
        )
    tensors = [tensor_of(array) for array in arrays]
    for tensor in tensors:
        if tensor.ndim > 1:
            raise ShapeError(
                f"meshgrid: expected vectors, got shape {tensor.shape}", source=where()
            )
    order = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[:2] = [1, 0]
    sizes = [tensors[i].size for i in order]
    grids = []
    for i, tensor in enumerate(tensors):
        along = [1] * len(tensors)
        along[order.index(i)] = tensor.size
        grids.append(traced("broadcast_to", tensor.reshape(tuple(along)), tuple(sizes)))
    return grids


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros above the ``k``-th diagonal."""
    return _triangle("tril", x, k, lower=True)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros below the ``k``-th diagonal."""
    return _triangle("triu", x, k - 1, lower=False)


def _triangle(name: str, x: Any, k: int, *, lower: bool) -> Tensor:
    tensor = tensor_of(x)
    if tensor.ndim < 2:
        raise ShapeError(
            f"{name}: a tensor of shape {tensor.shape} is not a matrix", source=where()
        )
    rows, columns = tensor.shape[-2:]
    mask = np.tri(rows, columns, k, dtype=np.bool_)
    nothing = False if tensor.dtype.kind == "b" else 0
    return traced("where", made(mask if lower else ~mask), tensor, nothing)


def _shape(name: str, shape: Shape) -> tuple[int, ...]:
    try:
        sizes = (shape.__index__(),) if hasattr(shape, "__index__") else tuple(shape)
    except TypeError:
        raise ShapeError(f"{name}: {shape!r} is not a shape", source=where()) from None
    if any(size < 0 for size in sizes):
        raise ShapeError(f"{name}: sizes cannot be negative: {shape}", source=where())
    return sizes
