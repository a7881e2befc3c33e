"""Reading and writing at places in a tensor, always giving a new tensor.

Invariant: nothing is written in place; indices are interpreted as in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nodescope import ops
from nodescope.engine.numpy_functions.base import (
    Table,
    along,
    call,
    concrete,
    refuse_out,
    shape_error,
    tensor_of,
    unsupported,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.numpy_functions.layout import ravel, reshape
from nodescope.engine.operators import index_template
from nodescope.engine.run import apply, operands
from nodescope.engine.tensor import NO_ATTRS, Tensor, operand
from nodescope.ops.shapes import axes

_WHERE: Final = ops.get("where")


def index_update(x: Any, index: Any, value: Any) -> Tensor:
    """A copy of ``x`` after ``copy[index] = value``.

    Args:
        x: Any tensor; the result has its shape and dtype.
        index: Anything that ``x[index]`` accepts: ints, slices, None, ``...``, arrays of ints or
            bools.
        value: Broadcasts to the shape that the index selects, and is converted to the dtype of
            ``x``. If an element is selected more than once, the last value counts.

    Raises:
        ShapeError: ``value`` does not fit.
        BoundsError: The index is out of range.
        DtypeError: ``value`` is complex and ``x`` is not.
    """
    template, arrays = index_template(index)
    operand_value = operand(value)
    new_value = tensor_of(value) if operand_value is None else operand_value
    return call("index_set", tensor_of(x), new_value, *arrays, index=template)


def index_add(x: Any, index: Any, value: Any) -> Tensor:
    """``x`` with ``value`` added at an index, once per occurrence of an element (`numpy.add.at`).

    Args:
        x: Any tensor; the result has the dtype of ``x + value``.
        index: Anything that ``x[index]`` accepts.
        value: Broadcasts to the shape that the index selects.
    """
    tensor = tensor_of(x)
    template, arrays = index_template(index)
    selected = tensor[index]
    addend = call("broadcast_to", tensor_of(value), shape=selected.shape)
    return tensor + call("index_add", addend, *arrays, index=template, shape=tensor.shape)


def gather(x: Any, indices: Any, axis: int = -1) -> Tensor:
    """The elements at ``indices`` along one axis; `numpy.take_along_axis`.

    The other dimensions of both must agree or be 1.
    """
    return call("take_along_axis", tensor_of(x), tensor_of(indices), axis=int(axis))


def scatter_add(x: Any, indices: Any, values: Any, axis: int = -1) -> Tensor:
    """``x`` with ``values`` added where `gather` would read, including repeated places."""
    tensor, places = tensor_of(x), tensor_of(indices)
    addend = call("broadcast_to", tensor_of(values), shape=places.shape)
    return tensor + call("add_along_axis", addend, places, axis=int(axis), shape=tensor.shape)


def put_along_axis(x: Any, indices: Any, values: Any, axis: int = -1) -> Tensor:
    """A copy of ``x`` with ``values`` where `gather` would read."""
    tensor, places = tensor_of(x), tensor_of(indices)
    (at,) = axes("put_along_axis", (axis,), tensor.ndim)
    if places.ndim != tensor.ndim:
        raise shape_error(f"put_along_axis: indices {places.shape} for shape {tensor.shape}")
    grid: list[Any] = [
        np.arange(n).reshape([-1 if i == j else 1 for j in range(tensor.ndim)])
        for i, n in enumerate(tensor.shape)
    ]
    grid[at] = places
    return index_update(tensor, tuple(grid), values)


def one_hot(indices: Any, depth: int, dtype: Any = np.float64) -> Tensor:
    """1 where the position along a new last dimension of size ``depth`` is the index, else 0.

    An index outside [0, depth) gives zeros.
    """
    return (reshape_last(tensor_of(indices)) == np.arange(depth)).astype(dtype)


def reshape_last(x: Tensor) -> Tensor:
    """``x[..., None]``."""
    return reshape(x, (*x.shape, 1))


# NumPy's own


def take(
    a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise"
) -> Tensor:
    """``np.take``."""
    refuse_out("np.take", out)
    x, places = tensor_of(a), tensor_of(indices)
    if axis is None:
        x, axis = ravel(x), 0
    (at,) = axes("take", (axis,), x.ndim)
    size = x.shape[at]
    if not places.size and places.dtype.kind == "f":
        places = places.astype(np.intp)  # an empty list
    if mode == "wrap":
        places = places % size
    elif mode == "clip":
        places = np.clip(places, 0, size - 1)
    elif mode != "raise":
        raise unsupported(f"np.take: mode={mode!r}", "use 'raise', 'wrap' or 'clip'")
    return along(x, at, places)


def compress(condition: Any, a: Any, axis: int | None = None, out: None = None) -> Tensor:
    """``np.compress``: the shape of the result depends on the condition's values."""
    refuse_out("np.compress", out)
    x = tensor_of(a)
    if axis is None:
        x, axis = ravel(x), 0
    (at,) = axes("compress", (axis,), x.ndim)
    mask = tensor_of(condition)
    if mask.ndim == 1 and not isinstance(condition, Tensor):
        return along(x, at, np.flatnonzero(np.asarray(condition)))
    if mask.ndim != 1:
        raise shape_error(
            f"np.compress: the condition must have one dimension, not shape {mask.shape}"
        )
    mask = mask if mask.dtype == bool else mask != 0
    if mask.shape[0] < x.shape[at]:
        mask = call("pad", mask, widths=((0, x.shape[at] - mask.shape[0]),), value=0)
    return along(x, at, mask)


def extract(condition: Any, arr: Any) -> Tensor:
    """``np.extract``: the shape of the result depends on the condition's values."""
    if not isinstance(condition, Tensor):
        return compress(np.ravel(condition), ravel(arr))
    mask = ravel(condition)
    return compress(mask if mask.dtype == bool else mask != 0, ravel(arr))


def flatnonzero(a: Any) -> Tensor:
    """``np.flatnonzero``."""
    return call("nonzero", ravel(a))[0]


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """``np.where``: selection with three arguments, `numpy.nonzero` with one."""
    if x is None and y is None:
        return call("nonzero", tensor_of(condition))
    if x is None or y is None:
        raise shape_error("np.where: takes one argument or three")
    parts = operands((condition, x, y))
    if parts is None:
        parts = tuple(tensor_of(part) for part in (condition, x, y))
    return apply(_WHERE, parts, NO_ATTRS)


def choose(a: Any, choices: Sequence[Any], out: None = None, mode: str = "raise") -> Tensor:
    """``np.choose``: each element from the array that the integer at its place selects."""
    refuse_out("np.choose", out)
    index = tensor_of(a)
    parts = [tensor_of(choice) for choice in choices]
    if mode == "wrap":
        index = index % len(parts)
    elif mode == "clip":
        index = np.clip(index, 0, len(parts) - 1)
    elif mode != "raise":
        raise unsupported(f"np.choose: mode={mode!r}", "use 'raise', 'wrap' or 'clip'")
    return call("choose", index, *parts)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """``np.select``: the first choice whose condition holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise shape_error("np.select: needs as many conditions as choices, and at least one")
    choices = [operand(choice) for choice in choicelist]
    rest = operand(default)
    dtype = np.result_type(*(choice.dtype if isinstance(choice, Tensor) else choice
                             for choice in (*choices, rest)))  # fmt: skip
    result: Any = rest
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result if result.dtype == dtype else result.astype(dtype)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """``np.piecewise``: each function sees only the elements whose condition holds."""
    data = tensor_of(x)
    if isinstance(condlist, np.ndarray | Tensor) or not isinstance(
        condlist[0], list | np.ndarray | Tensor
    ):
        condlist = [condlist] if np.ndim(condlist) == data.ndim else list(condlist)
    conditions = [tensor_of(condition) for condition in condlist]
    if len(funclist) == len(conditions) + 1:
        otherwise = ~conditions[0]
        for condition in conditions[1:]:
            otherwise = np.logical_and(otherwise, ~condition)
        conditions.append(otherwise)
    if len(funclist) != len(conditions):
        raise shape_error("np.piecewise: needs one function per condition, or one more")
    result: Any = np.zeros_like(data)
    for condition, function in zip(conditions, funclist, strict=True):
        value = function(data[condition], *args, **kw) if callable(function) else function
        result = index_update(result, condition, value)
    return result


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """``np.ix_`` of integers."""
    grids = []
    for i, argument in enumerate(args):
        x = tensor_of(argument)
        if x.ndim != 1:
            raise shape_error(f"np.ix_: arguments must have one dimension, not shape {x.shape}")
        x = flatnonzero(x) if x.dtype == bool else x if x.size else x.astype(np.intp)
        grids.append(reshape(x, tuple(x.size if i == j else 1 for j in range(len(args)))))
    return tuple(grids)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    """``np.unravel_index``; an index out of range is not detected."""
    rest = tensor_of(indices)
    coordinates: list[Any] = []
    sizes = concrete(shape, "np.unravel_index: shape").reshape(-1).tolist()
    for size in sizes if order == "F" else reversed(sizes):
        coordinates.append(rest % size)
        rest = rest // size
    return tuple(coordinates if order == "F" else reversed(coordinates))


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tensor:
    """``np.ravel_multi_index``; with ``mode="raise"`` an index out of range is not detected."""
    sizes = concrete(dims, "np.ravel_multi_index: dims").reshape(-1).tolist()
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    parts = []
    for indices, size, how in zip(multi_index, sizes, modes, strict=True):
        part: Any = tensor_of(indices)
        if how == "wrap":
            part = part % size
        elif how == "clip":
            part = np.clip(part, 0, size - 1)
        parts.append((part, size))
    flat_index: Any = 0
    for part, size in reversed(parts) if order == "F" else parts:
        flat_index = flat_index * size + part
    return flat_index


NUMPY: Table = {
    np.take: take, np.compress: compress, np.extract: extract, np.flatnonzero: flatnonzero,
    np.where: where, np.choose: choose, np.select: select, np.piecewise: piecewise, np.ix_: ix_,
    np.unravel_index: unravel_index, np.ravel_multi_index: ravel_multi_index,
}  # fmt: skip
