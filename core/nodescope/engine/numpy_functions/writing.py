"""NumPy's functions that write to their first argument, and what ``out=`` and ``ufunc.at`` do.

Invariant: each is one write of `engine.writing.inplace`, differentiated as such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.autodiff.tape import ALIAS
from nodescope.engine.numpy_functions.base import Table, call, tensor_of
from nodescope.engine.operators import index_template
from nodescope.engine.run import apply
from nodescope.engine.source import where as here
from nodescope.engine.tensor import NO_ATTRS, Tensor, alias, next_seq, operand, settled
from nodescope.engine.writing.inplace import updated, write
from nodescope.engine.writing.writable import check_writable, fitted
from nodescope.errors import BoundsError, DtypeError, UnsupportedError
from nodescope.ops.op import Array


def into(
    what: str, target: Any, compute: Callable[[], Any], where: Any = True, *, wider: bool = True
) -> Tensor:
    """Write what ``compute`` returns to ``target``, and return that.

    Args:
        what: The function, for messages.
        target: What ``out=`` was given.
        compute: The function without ``out=``.
        where: Elements that are written; the others stay.
        wider: The target may be larger: the result broadcasts.

    Raises:
        UnsupportedError: ``target`` is no tensor.
    """
    if not isinstance(target, Tensor):
        raise UnsupportedError(
            f"{what} with out= would take the result out of the graph",
            source=here(),
            hint="use the function's result, or let out= be a tensor",
        )
    what = f"{what} with out="
    check_writable(target, what)
    found = compute()
    if isinstance(found, list | tuple):
        raise UnsupportedError(f"{what}: it has several results", source=here())
    found = tensor_of(found)
    found = fitted(target, found, what, wider=wider)
    if where is not True:
        found = call("where", tensor_of(where), found, settled(target))
    write(target, _own(settled(found)))
    return target


def _own(found: Tensor) -> Tensor:
    """The same value, in a tensor and an array that nobody else has."""
    edge = None if found.edge is None else (next_seq(), ALIAS, (found,), NO_ATTRS)
    result = alias(found, edge)
    if isinstance(found.data, np.ndarray):
        result.data = found.data.copy(order="K")
    return result


def at(name: str, target: Any, index: Any, value: Any) -> None:
    """``np.add.at`` and ``np.subtract.at``: every place is counted as often as it is named."""
    target = _written(f"np.{name}.at", target)
    write(target, _added(name, settled(target), index, value))


def _added(name: str, now: Tensor, index: Any, value: Any) -> Any:
    template, arrays = index_template(index)
    chosen = apply(ops.get("getitem"), (now, *arrays), {"index": template})
    given = fitted(chosen, _typed(value, now), f"np.{name}.at", wider=True)
    return call(name, now, call("index_add", given, *arrays, index=template, shape=now.shape))


def _written(what: str, target: Any) -> Tensor:
    if not isinstance(target, Tensor):
        raise UnsupportedError(
            f"{what} would write a tensor's elements to an array, out of the graph",
            source=here(),
            hint="make the first argument a tensor, or a new one: np.full_like, np.broadcast_to",
        )
    check_writable(target, what)
    return target


def _typed(value: Any, like: Tensor) -> Tensor:
    """``value`` as a tensor; Python numbers in the dtype that NumPy would compute in."""
    found = operand(value)
    if found is not None and found.__class__ is not Tensor:
        return tensor_of(np.asarray(found, np.result_type(found, like.dtype)))
    return tensor_of(value)


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """``np.copyto``: ``src`` broadcasts to ``dst``."""
    target = _written("np.copyto", dst)
    given = _typed(src, target)
    if not np.can_cast(given.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise DtypeError(
            f"np.copyto: {given.dtype} cannot be cast to {target.dtype} by the rule {casting!r}",
            source=here(),
            hint="give casting='unsafe', or convert with .astype",
        )
    if casting == "unsafe" and given.dtype != target.dtype:
        given = given.astype(target.dtype)
    given = fitted(target, given, "np.copyto", wider=True)
    if where is True:
        write(target, updated(target, ..., given))
    else:
        write(target, call("where", tensor_of(where), given, settled(target)))


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """``np.put_along_axis``."""
    target = _written("np.put_along_axis", arr)
    given = tensor_of(indices)
    if axis is None:
        _flat(target, np.asarray(given.numpy()).ravel(), values)
        return
    if given.ndim != target.ndim or not -target.ndim <= axis < target.ndim:
        raise BoundsError(
            f"np.put_along_axis: indices of shape {given.shape} and axis {axis} do not fit "
            f"{target.shape}",
            source=here(),
            hint="indices have as many dimensions as the tensor",
        )
    axis %= target.ndim
    index: list[Any] = []
    for each, size in enumerate(target.shape):
        if each == axis:
            index.append(given)
        else:
            shape = [1] * target.ndim
            shape[each] = size
            index.append(np.arange(size).reshape(shape))
    write(target, updated(target, tuple(index), values))


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """``np.fill_diagonal``: ``val`` is repeated if it is too short."""
    target = _written("np.fill_diagonal", a)
    shape = target.shape
    if target.ndim < 2 or (target.ndim > 2 and len(set(shape)) != 1):
        raise UnsupportedError(
            f"np.fill_diagonal: a tensor of shape {shape} has no diagonal",
            source=here(),
            hint="it needs two dimensions, or more of equal sizes",
        )
    if target.ndim == 2:
        step, end = shape[1] + 1, target.size if wrap else shape[1] * shape[1]
    else:
        step, end = 1 + int(np.cumprod(shape[:-1]).sum()), target.size
    _flat(target, np.arange(0, min(end, target.size), step), val)


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """``np.put``: ``v`` is repeated if it is too short."""
    target = _written("np.put", a)
    places = np.asarray(tensor_of(ind).numpy()).ravel()
    if mode == "clip":
        places = np.clip(places, 0, target.size - 1)
    elif mode == "wrap":
        places = places % target.size
    _flat(target, places, v)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """``np.place``: the first of ``vals``, repeated if too few, where ``mask`` holds."""
    target = _written("np.place", arr)
    _flat(target, np.flatnonzero(tensor_of(mask).numpy()), vals)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """``np.putmask``: where ``mask`` holds, the element of ``values`` at the same place."""
    target = _written("np.putmask", a)
    places = np.flatnonzero(tensor_of(mask).numpy())
    _flat(target, places, values, places)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Tensor:
    """``np.nan_to_num``, which writes unless ``copy``."""
    how = {"nan": nan, "posinf": posinf, "neginf": neginf}
    if copy or not isinstance(x, Tensor):
        return call("nan_to_num", tensor_of(x), **how)  # type: ignore[no-any-return]
    check_writable(x, "np.nan_to_num")
    write(x, call("nan_to_num", settled(x), **how))
    return x


def _flat(target: Tensor, places: Array, values: Any, chosen: Array | None = None) -> None:
    """``target.flat[places] = values``, repeated as needed; ``chosen``: which of the values."""
    given = tensor_of(values)
    if given.ndim:
        which = np.arange(len(places)) if chosen is None else chosen
        given = given.ravel()[which % max(given.size, 1)]
    if len(places) and not -target.size <= places.min() <= places.max() < target.size:
        raise BoundsError(
            f"an index is out of range for a tensor of {target.size} elements", source=here()
        )
    index = np.unravel_index(places % max(target.size, 1), target.shape)
    write(target, updated(target, tuple(np.asarray(each) for each in index), given))


NUMPY: Table = {
    np.copyto: copyto, np.put_along_axis: put_along_axis, np.fill_diagonal: fill_diagonal,
    np.nan_to_num: nan_to_num, np.put: put, np.place: place, np.putmask: putmask,
}  # fmt: skip
