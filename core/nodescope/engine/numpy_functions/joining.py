"""Joining and splitting.

Invariant: parts are concatenated or cut by ops; a tensor never determines where to cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nodescope import ops
from nodescope.engine.numpy_functions.base import (
    Table,
    along,
    call,
    concrete,
    dtype_error,
    refuse_out,
    shape_error,
    tensor_of,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.numpy_functions.layout import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    ravel,
    reshape,
)
from nodescope.engine.run import apply, operands
from nodescope.engine.tensor import Tensor
from nodescope.ops.shapes import axes

_CONCATENATE: Final = ops.get("concatenate")


def _parts(
    arrays: Any, dtype: Any, out: Any, name: str, casting: Any = "same_kind"
) -> list[Tensor]:
    refuse_out(f"np.{name}", out)
    tensors = [array if array.__class__ is Tensor else tensor_of(array) for array in arrays]
    if not tensors:
        raise shape_error(f"np.{name}: needs at least one array")
    if dtype is None:
        return tensors
    for tensor in tensors:
        if not np.can_cast(tensor.dtype, dtype, casting):
            raise dtype_error(
                f"np.{name}: {tensor.dtype} cannot be cast to {np.dtype(dtype)} by the rule "
                f"{casting!r}",
                "give casting='unsafe', or convert with .astype",
            )
    return [tensor.astype(dtype) for tensor in tensors]


def concatenate(
    arrays: Any,
    axis: int | None = 0,
    out: None = None,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
) -> Tensor:
    """``np.concatenate``."""
    if axis.__class__ is int and dtype is None and out is None:
        given: tuple[Any, ...] = tuple(arrays)
        arrays = given
        if given and operands(given) is given:
            return apply(_CONCATENATE, given, {"axis": axis})
    parts = _parts(arrays, dtype, out, "concatenate", casting)
    if axis is None:
        parts, axis = [ravel(part) for part in parts], 0
    return call("concatenate", *parts, axis=int(axis))


def stack(
    arrays: Any, axis: int = 0, out: None = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Tensor:
    """``np.stack``."""
    return call("stack", *_parts(arrays, dtype, out, "stack", casting), axis=int(axis))


def vstack(tup: Sequence[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """``np.vstack``."""
    parts = [atleast_2d(part) for part in _parts(tup, dtype, None, "vstack", casting)]
    return call("concatenate", *parts, axis=0)


def hstack(tup: Sequence[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    """``np.hstack``."""
    parts = [atleast_1d(part) for part in _parts(tup, dtype, None, "hstack", casting)]
    return call("concatenate", *parts, axis=0 if parts[0].ndim == 1 else 1)


def dstack(tup: Sequence[Any]) -> Tensor:
    """``np.dstack``."""
    parts = [atleast_3d(part) for part in _parts(tup, None, None, "dstack")]
    return call("concatenate", *parts, axis=2)


def column_stack(tup: Sequence[Any]) -> Tensor:
    """``np.column_stack``."""
    parts = [
        part if part.ndim > 1 else reshape(part, (-1 if part.size else 0, 1))
        for part in _parts(tup, None, None, "column_stack")
    ]
    return call("concatenate", *parts, axis=1)


def block(arrays: Any) -> Tensor:
    """``np.block``: joins nested lists, the innermost along the last axis."""

    def depth(nested: Any) -> int:
        return 1 + max(map(depth, nested), default=0) if isinstance(nested, list) else 0

    def rank(nested: Any) -> int:
        return (
            max(map(rank, nested), default=0)
            if isinstance(nested, list)
            else tensor_of(nested).ndim
        )

    levels = depth(arrays)
    ndim = max(levels, rank(arrays))

    def join(nested: Any, level: int) -> Tensor:
        if not isinstance(nested, list):
            x = tensor_of(nested)
            return reshape(x, (1,) * (ndim - x.ndim) + x.shape)
        return concatenate([join(part, level + 1) for part in nested], axis=ndim - levels + level)

    return join(arrays, 0)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """``np.append``."""
    return concatenate([arr, values], axis)


# Splitting


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """``np.array_split``: parts as equal as possible, or cut at the given positions."""
    x = tensor_of(ary)
    (at,) = axes("split", (axis,), x.ndim)
    cuts = concrete(indices_or_sections, "np.split: where to split")
    if not cuts.ndim:
        parts, size = int(cuts), x.shape[at]
        if parts < 1:
            raise shape_error(f"split: cannot split into {parts} parts")
        more = size % parts
        cuts = np.cumsum([size // parts + (i < more) for i in range(parts - 1)], dtype=np.intp)
    ends = [None, *cuts.tolist()], [*cuts.tolist(), None]
    return [along(x, at, slice(start, stop)) for start, stop in zip(*ends, strict=True)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """``np.split``: equal parts, or cut at the given positions."""
    x = tensor_of(ary)
    (at,) = axes("split", (axis,), x.ndim)
    if not np.ndim(indices_or_sections):
        parts, size = int(indices_or_sections), x.shape[at]
        if parts < 1 or size % parts:
            raise shape_error(
                f"split: {size} elements cannot be split into {parts} equal parts",
                "use np.array_split",
            )
    return array_split(x, indices_or_sections, at)


def _split_along(name: str, axis: int, ndim: int) -> Callable[..., list[Tensor]]:
    def function(ary: Any, indices_or_sections: Any) -> list[Tensor]:
        x = tensor_of(ary)
        if x.ndim < ndim:
            raise shape_error(f"{name}: needs {ndim} dimensions, not shape {x.shape}")
        # np.hsplit cuts a vector along its only axis.
        return split(x, indices_or_sections, min(axis, x.ndim - 1))

    return function


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """``np.unstack``: the parts along an axis, without it."""
    tensor = tensor_of(x)
    if not tensor.ndim:
        raise shape_error("unstack: needs at least one dimension")
    (at,) = axes("unstack", (axis,), tensor.ndim)
    return tuple(along(tensor, at, i) for i in range(tensor.shape[at]))


# Inserting and deleting


def _kept(obj: Any, size: int) -> Any:
    """The positions that remain when ``obj`` is deleted."""
    if not isinstance(obj, slice):
        obj = concrete(obj, "np.delete: obj")
    return np.delete(np.arange(size), obj)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """``np.delete``; ``obj`` is a number, numbers, a slice or a mask, not a tensor."""
    x = tensor_of(arr)
    if axis is None:
        x, axis = ravel(x), 0
    (at,) = axes("delete", (axis,), x.ndim)
    return along(x, at, _kept(obj, x.shape[at]))


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """``np.insert``; ``obj`` is a number, numbers, a slice or a mask; only values may be
    tensors.
    """
    x = tensor_of(arr)
    if axis is None:
        x, axis = ravel(x), 0
    (at,) = axes("insert", (axis,), x.ndim)
    size = x.shape[at]
    where = obj if isinstance(obj, slice) else concrete(obj, "np.insert: obj")
    if not isinstance(where, slice) and where.dtype == bool:
        where = np.flatnonzero(where)
    new = tensor_of(values).astype(x.dtype)
    full = reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
    if isinstance(where, slice):
        count = len(np.arange(size)[where])
    elif where.ndim:
        count = where.size
    else:  # all values go to one position, their first dimension along the axis
        full = np.moveaxis(full, 0, at)
        count = full.shape[at]
    # NumPy itself determines where old (0, 1, …) and new (-1, -2, …) elements are placed.
    marks = np.insert(np.arange(size), where, -1 - np.arange(count))
    shape = (*x.shape[:at], count, *x.shape[at + 1 :])
    joined = concatenate([x, call("broadcast_to", full, shape=shape)], at)
    return along(joined, at, np.where(marks < 0, size - 1 - marks, marks))


NUMPY: Table = {
    np.concatenate: concatenate, np.stack: stack, np.vstack: vstack, np.hstack: hstack,
    np.dstack: dstack, np.column_stack: column_stack, np.block: block, np.append: append,
    np.array_split: array_split, np.split: split, np.hsplit: _split_along("hsplit", 1, 1),
    np.vsplit: _split_along("vsplit", 0, 2), np.dsplit: _split_along("dsplit", 2, 3),
    np.delete: delete, np.insert: insert,
}  # fmt: skip
if hasattr(np, "unstack"):
    NUMPY[np.unstack] = unstack
