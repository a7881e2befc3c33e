"""NumPy's functions that write to their first argument, and the effects of ``out=`` and
``ufunc.at``.

Invariant: each call is one write of `engine.writing.inplace`, differentiated as such.
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
    operation: str,
    target: Any,
    compute: Callable[[], Any],
    where: Any = True,
    *,
    wider: bool = True,
) -> Tensor:
    """Write the result of ``compute`` to ``target``, and return ``target``.

    Args:
        operation: The function, for messages.
        target: The argument of ``out=``.
        compute: The function without ``out=``.
        where: Mask of the elements to write; the others stay.
        wider: Whether the result may broadcast to a larger target.

    Raises:
        UnsupportedError: ``target`` is not a tensor.
    """
    if not isinstance(target, Tensor):
        raise UnsupportedError(
            f"{operation} with out= would take the result out of the graph",
            source=here(),
            hint="use the function's result, or let out= be a tensor",
        )
    operation = f"{operation} with out="
    check_writable(target, operation)
    result = compute()
    if isinstance(result, list | tuple):
        raise UnsupportedError(f"{operation}: it has several results", source=here())
    result = tensor_of(result)
    result = fitted(target, result, operation, wider=wider)
    if where is not True:
        result = call("where", tensor_of(where), result, settled(target))
    write(target, _own(settled(result)))
    return target


def _own(computed: Tensor) -> Tensor:
    """The same value in a new tensor and array that nothing else references."""
    edge = None if computed.edge is None else (next_seq(), ALIAS, (computed,), NO_ATTRS)
    result = alias(computed, edge)
    if isinstance(computed.data, np.ndarray):
        result.data = computed.data.copy(order="K")
    return result


def at(name: str, target: Any, index: Any, value: Any) -> None:
    """``np.add.at`` and ``np.subtract.at``: a repeated index counts each time."""
    target = _written(f"np.{name}.at", target)
    write(target, _added(name, settled(target), index, value))


def _added(name: str, now: Tensor, index: Any, value: Any) -> Any:
    template, arrays = index_template(index)
    chosen = apply(ops.get("getitem"), (now, *arrays), {"index": template})
    addend = fitted(chosen, _typed(value, now), f"np.{name}.at", wider=True)
    return call(name, now, call("index_add", addend, *arrays, index=template, shape=now.shape))


def _written(operation: str, target: Any) -> Tensor:
    if not isinstance(target, Tensor):
        raise UnsupportedError(
            f"{operation} would write a tensor's elements to an array, out of the graph",
            source=here(),
            hint="make the first argument a tensor, or a new one: np.full_like, np.broadcast_to",
        )
    check_writable(target, operation)
    return target


def _typed(value: Any, like: Tensor) -> Tensor:
    """``value`` as a tensor; Python numbers in the dtype that NumPy would compute in."""
    tensor = operand(value)
    if tensor is not None and tensor.__class__ is not Tensor:
        return tensor_of(np.asarray(tensor, np.result_type(tensor, like.dtype)))
    return tensor_of(value)


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """``np.copyto``: ``src`` broadcasts to ``dst``."""
    target = _written("np.copyto", dst)
    source = _typed(src, target)
    if not np.can_cast(source.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise DtypeError(
            f"np.copyto: {source.dtype} cannot be cast to {target.dtype} by the rule {casting!r}",
            source=here(),
            hint="give casting='unsafe', or convert with .astype",
        )
    if casting == "unsafe" and source.dtype != target.dtype:
        source = source.astype(target.dtype)
    source = fitted(target, source, "np.copyto", wider=True)
    if where is True:
        write(target, updated(target, ..., source))
    else:
        write(target, call("where", tensor_of(where), source, settled(target)))


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """``np.put_along_axis``."""
    target = _written("np.put_along_axis", arr)
    positions = tensor_of(indices)
    if axis is None:
        _flat(target, np.asarray(positions.numpy()).ravel(), values)
        return
    if positions.ndim != target.ndim or not -target.ndim <= axis < target.ndim:
        raise BoundsError(
            f"np.put_along_axis: indices of shape {positions.shape} and axis {axis} do not fit "
            f"{target.shape}",
            source=here(),
            hint="indices have as many dimensions as the tensor",
        )
    axis %= target.ndim
    index: list[Any] = []
    for axis_, size in enumerate(target.shape):
        if axis_ == axis:
            index.append(positions)
        else:
            shape = [1] * target.ndim
            shape[axis_] = size
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
    """``np.place``: where ``mask`` holds, the elements of ``vals`` in order, repeated if too
    few.
    """
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
    """``target.flat[places] = values``, repeated as needed; ``chosen``: the indices of the values
    used.
    """
    new_values = tensor_of(values)
    if new_values.ndim:
        places_of_values = np.arange(len(places)) if chosen is None else chosen
        new_values = new_values.ravel()[places_of_values % max(new_values.size, 1)]
    if len(places) and not -target.size <= places.min() <= places.max() < target.size:
        raise BoundsError(
            f"an index is out of range for a tensor of {target.size} elements", source=here()
        )
    index = np.unravel_index(places % max(target.size, 1), target.shape)
    write(target, updated(target, tuple(np.asarray(part) for part in index), new_values))


NUMPY: Table = {
    np.copyto: copyto, np.put_along_axis: put_along_axis, np.fill_diagonal: fill_diagonal,
    np.nan_to_num: nan_to_num, np.put: put, np.place: place, np.putmask: putmask,
}  # fmt: skip
