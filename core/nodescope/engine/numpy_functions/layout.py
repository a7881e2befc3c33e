"""Layout: NumPy's functions for shapes and order of elements beyond the ops of that family.

Invariant: elements are moved by ops only, so gradients flow back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    along,
    apart,
    call,
    concrete,
    shape_error,
    tensor_of,
    unsupported,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DomainError
from nodescope.ops.layout import as_shape
from nodescope.ops.shapes import axes


def reshape(
    a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None,
    newshape: Any = None,
) -> Tensor:  # fmt: skip
    """``np.reshape``, in C or Fortran order."""
    x = tensor_of(a)
    order = _read_order("np.reshape", x, order, "CFA")
    sizes = as_shape(newshape if shape is None else shape)
    if order != "F":
        result = call("reshape", x, shape=sizes)
        return apart(result, x) if copy else result
    # In Fortran order, the reversed dimensions are in C order.
    turned = call("reshape", call("transpose", x, axes=None), shape=sizes[::-1])
    result = call("transpose", turned, axes=None)
    return apart(result, x) if copy else result


def ravel(a: Any, order: str = "C") -> Tensor:
    """``np.ravel``."""
    x = tensor_of(a)
    return (x if _read_order("np.ravel", x, order, "CFAK") == "C" else x.T).ravel()


def _read_order(name: str, x: Tensor, order: Any, known: str) -> str:
    """The meaning of ``order`` for a tensor, given its memory layout: "C" or "F".

    Raises:
        DomainError: The order does not exist.
        UnsupportedError: The meaning depends on a layout that is neither, or that is known only in
            a run.
    """
    if order in ("C", "F"):
        return str(order)
    if order not in tuple(known):
        raise DomainError(
            f"{name}: unknown order {order!r}",
            source=where(),
            hint=f"one of {', '.join(known)}",
        )
    flags = getattr(x.data, "flags", None) if isinstance(x.data, np.ndarray) else None
    if x.ndim < 2 or (flags is not None and flags.c_contiguous):
        return "C"
    if flags is not None and flags.f_contiguous:
        return "F"
    if flags is not None and order == "A":
        return "C"
    raise unsupported(
        f"{name}: order={order!r} depends on the memory layout, which nodescope "
        "chooses", "use order='C' or order='F'",
    )  # fmt: skip


def _order(axes_: Sequence[int], x: Tensor) -> Tensor:
    return call("transpose", x, axes=tuple(axes_))


def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """``np.swapaxes``."""
    x = tensor_of(a)
    (first,), (second,) = axes("swapaxes", (axis1,), x.ndim), axes("swapaxes", (axis2,), x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return _order(order, x)


def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """``np.moveaxis``."""
    x = tensor_of(a)
    sources = axes("moveaxis", as_shape(source), x.ndim)
    targets = axes("moveaxis", as_shape(destination), x.ndim)
    if len(sources) != len(targets):
        raise shape_error("moveaxis: source and destination differ in length")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return _order(order, x)


def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """``np.rollaxis``."""
    x = tensor_of(a)
    (origin,) = axes("rollaxis", (axis,), x.ndim)
    target = start + x.ndim if start < 0 else start
    order = [i for i in range(x.ndim) if i != origin]
    order.insert(target - 1 if origin < target else target, origin)
    return _order(order, x)


def _at_least(ndim: int) -> Callable[..., Any]:
    def one(a: Any) -> Tensor:
        x = tensor_of(a)
        if x.ndim >= ndim:
            return x
        # np.atleast_3d puts a vector in the middle; the others add dimensions in front.
        shapes: dict[int, Any] = {0: (1,) * ndim, 1: (1, *x.shape, 1), 2: (*x.shape, 1)}
        front = (1,) * (ndim - x.ndim) + x.shape
        return reshape(x, shapes[x.ndim] if ndim == 3 else front)

    def function(*arrays: Any) -> Any:
        results = tuple(one(array) for array in arrays)
        return results[0] if len(results) == 1 else results

    return function


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """``np.broadcast_arrays``."""
    tensors = [tensor_of(argument) for argument in args]
    try:
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except ValueError:
        shapes = " and ".join(str(tensor.shape) for tensor in tensors)
        raise shape_error(f"broadcast_arrays: shapes {shapes} do not broadcast") from None
    return tuple(
        tensor if tensor.shape == shape else call("broadcast_to", tensor, shape=shape)
        for tensor in tensors
    )


# Turning


def fliplr(m: Any) -> Tensor:
    """``np.fliplr``."""
    x = tensor_of(m)
    if x.ndim < 2:
        raise shape_error(f"fliplr: needs two dimensions, not shape {x.shape}")
    return call("flip", x, axis=1)


def flipud(m: Any) -> Tensor:
    """``np.flipud``."""
    x = tensor_of(m)
    if x.ndim < 1:
        raise shape_error("flipud: needs one dimension")
    return call("flip", x, axis=0)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """``np.rot90``."""
    x = tensor_of(m)
    first, second = (axis % max(x.ndim, 1) for axis in axes)
    if first == second or x.ndim < 2:
        raise shape_error(f"rot90: axes {tuple(axes)} do not span a plane in {x.ndim} dimensions")
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return call("flip", x, axis=(first, second))
    if turns == 1:
        return swapaxes(call("flip", x, axis=second), first, second)
    return call("flip", swapaxes(x, first, second), axis=second)


# Repeating


def tile(A: Any, reps: Any) -> Tensor:
    """``np.tile``."""
    x, times = tensor_of(A), as_shape(reps)
    ndim = max(x.ndim, len(times))
    shape = (1,) * (ndim - x.ndim) + x.shape
    times = (1,) * (ndim - len(times)) + times
    spread = tuple(n for pair in zip([1] * ndim, shape, strict=True) for n in pair)
    wide = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    spread_out = call("broadcast_to", reshape(x, spread), shape=wide)
    return apart(reshape(spread_out, tuple(n * m for n, m in zip(times, shape, strict=True))), x)


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """``np.repeat``; ``repeats`` is a number or a list of numbers."""
    x = tensor_of(a)
    if axis is None:
        x, axis = ravel(x), 0
    (at,) = axes("repeat", (axis,), x.ndim)
    times = concrete(repeats, "np.repeat: repeats")
    if times.size == 1:
        n = int(times.reshape(()))
        spread = (*x.shape[: at + 1], 1, *x.shape[at + 1 :])
        wide = (*x.shape[: at + 1], n, *x.shape[at + 1 :])
        spread_out = call("broadcast_to", reshape(x, spread), shape=wide)
        return apart(reshape(spread_out, (*x.shape[:at], x.shape[at] * n, *x.shape[at + 1 :])), x)
    if times.shape != (x.shape[at],):
        raise shape_error(f"repeat: {times.size} repeats for {x.shape[at]} elements")
    return along(x, at, np.repeat(np.arange(x.shape[at]), times))


def resize(a: Any, new_shape: Any) -> Tensor:
    """``np.resize``: the elements in order, repeated as often as needed."""
    x, shape = ravel(a), as_shape(new_shape)
    size = math.prod(shape)
    if not x.size or not size:
        return tensor_of(np.zeros(shape, x.dtype))
    times = -(-size // x.size)
    return reshape(tile(x, times)[:size], shape)


def _tri_indices(name: str) -> Callable[..., Any]:
    def indices(arr: Any, k: int = 0) -> Any:
        x = tensor_of(arr)
        if x.ndim != 2:
            raise shape_error(f"{name}: needs two dimensions, not shape {x.shape}")
        arrays = getattr(np, name.removesuffix("_from"))(x.shape[0], k, x.shape[1])
        return tuple(tensor_of(array) for array in arrays)

    return indices


# Diagonals


def diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    """``np.diag_indices_from``."""
    x = tensor_of(arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise shape_error(f"diag_indices_from: needs equal dimensions, not shape {x.shape}")
    return (tensor_of(np.arange(x.shape[0])),) * x.ndim


def diag(v: Any, k: int = 0) -> Tensor:
    """``np.diag``: the diagonal of a matrix, or a matrix with this diagonal."""
    x = tensor_of(v)
    if x.ndim == 2:
        return call("diagonal", x, offset=k, axis1=0, axis2=1)
    if x.ndim != 1:
        raise shape_error(f"diag: needs one or two dimensions, not shape {x.shape}")
    size = x.shape[0] + abs(k)
    return call("on_diagonal", x, offset=k, rows=size, columns=size)


def diagflat(v: Any, k: int = 0) -> Tensor:
    """``np.diagflat``."""
    return diag(ravel(v), k)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Tensor:
    """``np.trace``: the sum along a diagonal."""
    diagonal = np.diagonal(tensor_of(a), offset, axis1, axis2)
    return np.sum(diagonal, -1, dtype, out)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """``np.meshgrid``."""
    if indexing not in ("xy", "ij"):
        raise unsupported("np.meshgrid: indexing must be 'xy' or 'ij'")
    parts = [ravel(axis) for axis in xi]
    places = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        places[:2] = 1, 0
    sizes = [1] * len(parts)
    for place, part in zip(places, parts, strict=True):
        sizes[place] = part.size
    grids = []
    for place, part in zip(places, parts, strict=True):
        thin = reshape(part, tuple(part.size if i == place else 1 for i in range(len(parts))))
        wide = thin if sparse else call("broadcast_to", thin, shape=tuple(sizes))
        grids.append(apart(wide, part) if copy else wide)
    return tuple(grids)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """``np.astype``."""
    return tensor_of(x).astype(dtype, copy=copy)


NUMPY: Table = {
    np.reshape: reshape, np.ravel: ravel, np.swapaxes: swapaxes, np.moveaxis: moveaxis,
    np.rollaxis: rollaxis, np.atleast_1d: atleast_1d,
    np.atleast_2d: atleast_2d, np.atleast_3d: atleast_3d, np.broadcast_arrays: broadcast_arrays,
    np.fliplr: fliplr, np.flipud: flipud, np.rot90: rot90, np.tile: tile, np.repeat: repeat,
    np.resize: resize, np.diag: diag, np.diagflat: diagflat, np.trace: trace,
    np.meshgrid: meshgrid, np.linalg.diagonal: lambda x, /, *, offset=0: np.diagonal(
        x, offset, -2, -1
    ),
    np.linalg.trace: lambda x, /, *, offset=0, dtype=None: np.trace(x, offset, -2, -1, dtype),
    np.diag_indices_from: diag_indices_from,
    np.triu_indices_from: _tri_indices("triu_indices_from"),
    np.tril_indices_from: _tri_indices("tril_indices_from"),
}  # fmt: skip
if hasattr(np, "astype"):
    NUMPY[np.astype] = astype
