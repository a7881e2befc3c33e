"""Writing to tensors: ``x += y``, ``x[i] = y``, ``out=x``.

A write is an ordinary operation that makes a new tensor; afterwards the tensor written to refers to
the new one, and so does everything that shares memory with it, element by element. Earlier
references on the tape keep the earlier elements (`Written`). So a program with writes computes and
differentiates exactly like the same program in which every write makes a new tensor. A write takes
time and memory for all elements of the tensor, however few it changes.

Threads: a reader sees a tensor before or after a write, never in between; two threads that write to
the same tensor at once are not ordered, and one of the writes may be lost, as in NumPy.

Invariant: a write is exact for every tensor that shares the memory, or it is refused and changes
nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine import methods as _methods  # noqa: F401 (puts them on Tensor)
from nodescope.engine.autodiff.grad import note, store
from nodescope.engine.operators import ARITHMETIC, called, index_template
from nodescope.engine.run import apply, binary
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import (
    LEAF,
    NO_ATTRS,
    Tensor,
    Written,
    alias,
    changed,
    next_seq,
    operand,
    settled,
    written_at,
)
from nodescope.engine.writing import copying as _copying  # noqa: F401 (puts it on Tensor)
from nodescope.engine.writing.sharing import passing, sharers, taped, unshared
from nodescope.engine.writing.traced import shared
from nodescope.engine.writing.writable import check_writable, fitted, is_state
from nodescope.errors import BoundsError, GradientError, UnsupportedError
from nodescope.ops.op import Array, Op

_SET, _ASSIGN = ops.get("index_set"), ops.get("assign")
_GETITEM, _WHERE = ops.get("getitem"), ops.get("where")
_RESHAPE = ops.get("reshape")


def write(target: Tensor, result: Tensor) -> None:
    """Make ``target``, and everything that shares memory with it, refer to ``result``.

    Args:
        target: A tensor that passed `check_writable`.
        result: A newly made tensor without other references, `fitted`.

    Raises:
        GradientError: A view of the target is a leaf, or the target is a view of one.
        UnsupportedError: A tensor views its memory as another dtype.
    """
    builder = dispatch_mode.builder()
    if builder is not None:
        _write_traced(target, result, builder)
        return
    _check_history(target)
    sharers_now = [] if unshared(target) or taped(target, result) else sharers(target)
    old, detached = target.data, settled(target).edge is None
    seen = [(sharer, _seen(sharer, old, result, detached)) for sharer in sharers_now]
    arrays = [old, *(sharer.data for sharer in sharers_now)]
    values = [result.data, *(tensor.data if new is None else new.data for tensor, new in seen)]
    placed = _placed(arrays, values)
    dispatch_mode.move(result, placed[0])
    _rebind(target, result)
    for (tensor, new), array in zip(seen, placed[1:], strict=True):
        if new is None:
            # The same elements, in the memory that they share now.
            dispatch_mode.move(settled(tensor), array)
        else:
            dispatch_mode.move(new, array)
            _rebind(tensor, new)


def _check_history(target: Tensor) -> None:
    """Refuse to cut a tensor silently off from its history."""
    edge = settled(target).edge
    if edge is not None and edge is not LEAF and not current().recording:
        raise GradientError(
            "the target was computed from a tensor that requires a gradient, and nothing is "
            "recorded here, so the gradient would be lost",
            source=where(),
            hint="write outside no_grad, or to a copy without history: x = x.detach().copy()",
        )


def _seen(other: Tensor, old: Array, result: Tensor, detached: bool) -> Tensor | None:
    """The new state of ``other`` after ``result`` is written over ``old``; None if it is
    unaffected.

    ``detached``: whether the target had no history.
    """
    data = other.data
    if data.dtype != old.dtype:
        raise UnsupportedError(
            f"a tensor of {data.dtype} shares memory with the target, of {old.dtype}",
            source=where(),
            hint="write to a copy: x = x.copy()",
        )
    return _replaced(other, _places(old), _places(data), result, detached)


def _replaced(
    other: Tensor, written: Array, seen: Array, result: Tensor, detached: bool
) -> Tensor | None:
    """`_seen`, where elements are identified by their numbers in ``written`` and ``seen``."""
    if not seen.size or not written.size:
        return None
    written = written.ravel()
    order = np.argsort(written)
    at = np.minimum(np.searchsorted(written, seen, sorter=order), written.size - 1)
    index = order[at]
    hit = written[index] == seen
    if not hit.any():
        return None
    if other.edge is LEAF and current().recording:
        raise GradientError(
            "the target shares memory with a leaf that requires a gradient",
            source=where(),
            hint="write to a copy: x = x.copy(); or inside `with nodescope.no_grad():`",
        )
    tracked = other.edge is not None and other.edge is not LEAF
    # If the other tensor was written to only in part, it keeps its history in the rest.
    if detached and tracked and (other.__class__ is Tensor or hit.all()):
        raise GradientError(
            "the target was detached from a tensor that requires a gradient and shares its memory: "
            "that tensor would lose its gradient",
            source=where(),
            hint="write to a copy: x = x.detach().copy()",
        )
    flat = apply(_RESHAPE, (result,), {"shape": (result.size,)})
    template, indices = index_template(index)
    selected = apply(_GETITEM, (flat, *indices), {"index": template})
    if hit.all():
        return selected
    return apply(_WHERE, (operand(hit), selected, settled(other)), NO_ATTRS)


def _places(array: Array) -> Array:
    """The address of every element."""
    addresses = np.full(array.shape, array.__array_interface__["data"][0], np.int64)
    for axis, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        addresses += steps.reshape((size,) + (1,) * (array.ndim - 1 - axis))
    return addresses


def _placed(arrays: list[Array], values: list[Array]) -> list[Array]:
    """``values`` in new memory, in the same relative positions as ``arrays`` in theirs."""
    old, new = arrays[0], values[0]
    fresh = new.base is None and new.flags.writeable
    if len(arrays) == 1 and (not old.size or (fresh and new.strides == old.strides)):
        return [new]
    bounds = [np.lib.array_utils.byte_bounds(array) for array in arrays if array.size]
    if not bounds:
        return values
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    memory = np.empty(high - low, np.uint8)
    placed = []
    for array, value in zip(arrays, values, strict=True):
        if array.size:
            at = array.__array_interface__["data"][0] - low
            place: Array = np.ndarray(array.shape, array.dtype, memory, at, array.strides)
            place[...] = value
            place.flags.writeable = array.flags.writeable
        else:
            place = value
        placed.append(place)
    return placed


def _rebind(target: Tensor, result: Tensor) -> None:
    note(target)
    if is_state(target) and target.__class__ is Tensor:
        target.data = result.data
        target._vid = getattr(result, "_vid", 0)
        changed(target)
        return
    if target.__class__ is Written:
        target._history = (target._history[0], result)
    else:
        before = alias(target, target.edge)
        builder = dispatch_mode.builder()
        if builder is not None:
            builder.same(before, target)
        target._history = (before, result)
        target.__class__ = Written
        for slot in (_DATA, _EDGE):
            slot.__set__(target, None)
    written_at[0] = next_seq()


_DATA: Any = Tensor.__dict__["data"]
_EDGE: Any = Tensor.__dict__["edge"]


def _write_traced(target: Tensor, result: Tensor, builder: Any) -> None:
    if not isinstance(target.data, Abstract) and id(target) not in builder.made:
        note(target)
        with dispatch_mode.recording(False):
            store(target, apply(_ASSIGN, (target, result), NO_ATTRS))
        return
    detached = settled(target).edge is None
    memory, places, sharing = shared(target, builder)
    seen = [
        (other, _replaced(other, places, shown, result, detached), shown)
        for other, shown in sharing
    ]
    _rebind(target, result)
    if sharing:
        builder.shown[builder.value_of(target)] = (memory, places)
    for other, new, shown in seen:
        if new is not None:
            _rebind(other, new)
            builder.shown[builder.value_of(other)] = (memory, shown)


# Operators


def _operator(op: Op, sign: str) -> Callable[[Tensor, Any], Any]:
    expression = f"x {sign} y"

    def operator(self: Tensor, other: Any) -> Any:
        if passing(self, sys._getframe(1)):
            result = binary(op, self, other)
            return result if result is NotImplemented else fitted(self, result, expression)
        check_writable(self, expression)
        result = binary(op, self, other)
        if result is NotImplemented:
            return result
        write(self, fitted(self, result, expression))
        return self

    return operator


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    check_writable(self, "x[i] = y")
    write(self, updated(self, index, value))


def updated(target: Tensor, index: Any, value: Any) -> Tensor:
    """A copy of ``target`` after ``copy[index] = value``."""
    new_value = operand(value)
    if new_value is None:
        raise UnsupportedError(
            f"x[i] = y: cannot take a {type(value).__name__}",
            source=where(),
            hint="give a tensor, an array or a number",
        )
    template, arrays = index_template(index)
    return apply(_SET, (settled(target), new_value, *arrays), {"index": template})


def _sort(
    self: Tensor, axis: int = -1, kind: Any = None, order: Any = None, *,
    stable: bool | None = None,
) -> None:  # fmt: skip
    """Sort the elements along an axis in place; `numpy.sort` returns a new tensor."""
    check_writable(self, "x.sort()")
    write(self, np.sort(settled(self), axis, kind, order, stable=stable))  # type: ignore[arg-type]


def _partition(
    self: Tensor, kth: Any, axis: int = -1, kind: Any = "introselect", order: Any = None
) -> None:
    """Move the k-th smallest element to its place, in place; `numpy.partition` returns a new
    tensor.
    """
    check_writable(self, "x.partition()")
    write(self, np.partition(settled(self), kth, axis, kind, order))  # type: ignore[arg-type]


class Flat:
    """The elements of a tensor in C order, for reading and writing; `numpy.ndarray.flat`."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __len__(self) -> int:
        return self._tensor.size

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._tensor.ravel())

    def __getitem__(self, index: Any) -> Tensor:
        return self._tensor.flatten()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        check_writable(self._tensor, "x.flat[i] = y")
        known = index.numpy() if isinstance(index, Tensor) else index
        try:
            places = np.arange(self._tensor.size)[known]
        except IndexError as error:
            raise BoundsError(
                f"x.flat[i] = y: {error}", source=where(), hint="count from 0, or from -1"
            ) from None
        put: Any = np.put
        put(self._tensor, np.ravel(places), value)


def _set_flat(self: Tensor, value: Any) -> None:
    Flat(self)[:] = value


# Installed methods


_OWN = {
    "data", "edge", "name", "fill", "sort", "partition", "put", "flat", "__hash__", "__repr__",
    "__setitem__", "__copy__", "__deepcopy__", "__reduce_ex__",
}  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    def method(self: Written, *args: Any, **kwargs: Any) -> Any:
        now = settled(self)
        result = getattr(Tensor, name)(now, *args, **kwargs)
        return self if result is now else result

    method.__name__ = name
    return method


def _property(name: str) -> property:
    def read(self: Written) -> Any:
        now = settled(self)
        value = getattr(now, name)
        return self if value is now else value

    return property(read, lambda self, value: setattr(settled(self), name, value))


def _fixed(name: str, hint: str) -> property:
    """A read-only property."""

    def refuse(self: Tensor, value: Any) -> None:
        raise UnsupportedError(f"a tensor's {name} is not set", source=where(), hint=hint)

    return property(vars(Tensor)[name].fget, refuse)


def _fill() -> None:
    for name, hint in {
        "shape": "write x = x.reshape(...)", "dtype": "write x = x.astype(...)",
        "T": "write to x.T[...], or x = y.T", "real": "write x = y + 1j * x.imag",
        "imag": "write x = x.real + 1j * y",
    }.items():  # fmt: skip
        setattr(Tensor, name, _fixed(name, hint))
    setattr(Tensor, "__setitem__", _setitem)  # noqa: B010 (its annotation is for readers only)
    setattr(Tensor, "sort", called("Tensor.sort", _sort))  # noqa: B010
    setattr(Tensor, "partition", called("Tensor.partition", _partition))  # noqa: B010
    setattr(Tensor, "flat", property(Flat, _set_flat, doc=Flat.__doc__))  # noqa: B010
    setattr(Tensor, "fill", lambda self, value: _setitem(self, ..., value))  # noqa: B010
    for python, (name, sign) in ARITHMETIC.items():
        setattr(Tensor, f"__i{python}__", _operator(ops.get(name), f"{sign}="))
    own = _OWN | {f"__i{python}__" for python in ARITHMETIC}
    for name, value in list(vars(Tensor).items()):
        if name in own or name in vars(Written):
            continue
        if isinstance(value, property):
            setattr(Written, name, _property(name))
        elif callable(value) and not isinstance(value, type):
            setattr(Written, name, _method(name))


_fill()
