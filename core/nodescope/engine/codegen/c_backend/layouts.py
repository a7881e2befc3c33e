"""Layouts: views as address arithmetic, joins as writes into parts, gathers as calls.

Invariant: nothing is copied where a view suffices; an out-of-range index is an error, not a read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nodescope.engine.codegen.c_backend.unit import (
    FunctionCall,
    NoKernel,
    Place,
    Sizes,
    Unit,
    Val,
    compact,
)
from nodescope.ir.graph import TensorSpec
from nodescope.ops.index import Port
from nodescope.ops.shapes import axes as axes_of

Lower = Callable[[Unit, tuple[Any, ...], dict[str, Any], tuple[TensorSpec, ...]], Sequence[Val]]
OK_INDEX = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")


def indexed(
    shape: Sizes, strides: Sizes, index: tuple[Any, ...]
) -> tuple[Sizes, Sizes, int] | None:
    """``x[index]`` for ints, slices, None and ``...``; None for any other index."""
    used = sum(item is not None and item is not Ellipsis for item in index)
    full: list[Any] = []
    for item in index:
        if item is Ellipsis:
            full += [slice(None)] * (len(shape) - used)
        else:
            full.append(item)
    if Ellipsis not in index:
        full += [slice(None)] * (len(shape) - used)
    sizes: list[int] = []
    steps: list[int] = []
    offset, axis = 0, 0
    for item in full:
        if item is None:
            sizes.append(1)
            steps.append(0)
            continue
        if isinstance(item, slice):
            start, stop, step = item.indices(shape[axis])
            count = len(range(start, stop, step))
            sizes.append(count)
            steps.append(strides[axis] * step)
            offset += strides[axis] * start if count else 0
        elif isinstance(item, int) and not isinstance(item, bool):
            offset += strides[axis] * (item % shape[axis] if shape[axis] else 0)
        else:
            return None
        axis += 1
    return tuple(sizes), tuple(steps), offset


def viewed(
    name: str, attrs: dict[str, Any], shape: Sizes, strides: Sizes, out: Sizes
) -> tuple[Sizes, int] | None:
    """Strides and offset of a layout op's result as a view, or None if it is not one."""
    from nodescope.engine.codegen.c_backend.unit import reshaped

    if name in ("reshape", "squeeze", "expand_dims"):
        layout = reshaped(shape, strides, out)
        return None if layout is None else (layout, 0)
    if name == "transpose":
        order = attrs["axes"]
        order = tuple(range(len(shape)))[::-1] if order is None else order
        return tuple(strides[i] for i in order), 0
    if name == "broadcast_to":
        lead = len(out) - len(shape)
        layout = (0,) * lead + tuple(
            0 if n == 1 else s for n, s in zip(shape, strides, strict=True)
        )
        return layout, 0
    if name == "flip":
        flipped = axes_of("flip", attrs["axis"], len(shape))
        offset = sum(strides[i] * (shape[i] - 1) for i in flipped if shape[i])
        return tuple(-s if i in flipped else s for i, s in enumerate(strides)), offset
    if name == "getitem":
        view = indexed(shape, strides, attrs["index"])
        return None if view is None or view[0] != out else (view[1], view[2])
    return None


VIEWS = ("reshape", "squeeze", "expand_dims", "transpose", "broadcast_to", "flip", "getitem")
_SAME = ("reshape", "squeeze", "expand_dims", "broadcast_to")


def _view(name: str) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        x, out = args[0], tuple(outs[0].shape)
        if len(args) > 1:
            return (_taken(unit, args, attrs, out),)
        layout = viewed(name, attrs, x.shape, x.strides, out)
        if layout is None:
            if name not in _SAME:
                raise NoKernel(f"{name} with such an index")
            return (unit.reshape(x, out),)
        if name in _SAME and out == x.shape:
            return (x,)
        return (unit.view(x, out, layout[0], layout[1], same=name in _SAME),)

    return lower


def _taken(unit: Unit, args: Any, attrs: Any, out: Sizes) -> Val:
    """Rows taken by one index array in front: ``x[i]``."""
    if len(args) != 2 or attrs["index"][:1] != (Port(0),) or any(
        item != slice(None) and item is not Ellipsis for item in attrs["index"][1:]
    ):  # fmt: skip
        raise NoKernel("getitem with such an index")
    return rows(unit, args[0], args[1], out, "getitem")


def rows(unit: Unit, x: Val, index: Val, out: Sizes, name: str) -> Val:
    """Rows of a table by number; negative numbers count from the end."""
    if index.dtype not in OK_INDEX or x.dtype == "bool" or not x.shape:
        raise NoKernel(f"{name} by {index.dtype}")
    x, index = unit.dense(x), unit.cast(unit.dense(index), "int64")
    result = unit.fresh(out, x.dtype)
    width = math.prod(x.shape[1:])
    unit.prims.append(
        FunctionCall(
            (result,),
            (x, index),
            f"NS_ROWS({x.stored}, {{o0}}, {{i0}}, {{i1}}, {index.size}, {x.shape[0]}, {width});",
            ("rows",),
            fails=True,
        )
    )
    return result


def along(unit: Unit, x: Val, index: Val, axis: int, name: str) -> Val:
    """Elements along an axis by number; the other dimensions must be equal."""
    (at,) = axes_of(name, (axis,), len(x.shape))
    rest = [(n, m) for i, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)) if i != at]
    if index.dtype not in OK_INDEX or any(n != m for n, m in rest):
        raise NoKernel(f"{name} with such an index")
    x, index = unit.dense(x), unit.cast(unit.dense(index), "int64")
    shape = (*x.shape[:at], index.shape[at], *x.shape[at + 1 :])
    out = unit.fresh(shape, x.dtype)
    # Labels of a loss are class numbers, which cannot be negative.
    least = 0 if name in ("cross_entropy", "nll_loss") else -x.shape[at]
    unit.prims.append(
        FunctionCall((out,), (x, index), f"NS_ALONG({x.stored}, {{o0}}, {{i0}}, {{i1}}, "
             f"{math.prod(shape[:at])}, {x.shape[at]}, {index.shape[at]}, "
             f"{math.prod(shape[at + 1 :])}, {least});", ("along",), fails=True)
    )  # fmt: skip
    return out


def _along(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    x, index = args
    return (along(unit, x, index, attrs["axis"], "take_along_axis"),)


def _along_add(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    ct, index = args
    shape = tuple(attrs["shape"])
    (at,) = axes_of("add_along_axis", (attrs["axis"],), len(shape))
    spread = (*shape[:at], index.shape[at] if len(index.shape) == len(shape) else 0,
              *shape[at + 1 :])  # fmt: skip
    if index.dtype not in OK_INDEX or index.shape != spread or ct.shape != spread:
        raise NoKernel("add_along_axis with such an index")
    if 1 in (*shape[:at], *shape[at + 1 :]) and math.prod(shape) != shape[at]:
        raise NoKernel("add_along_axis over a dimension of size 1")
    if ct.dtype == "bool":
        raise NoKernel("add_along_axis of booleans")
    ct, index = unit.dense(ct), unit.cast(unit.dense(index), "int64")
    out = unit.fresh(shape, ct.dtype)
    unit.prims.append(
        FunctionCall((out,), (ct, index), f"NS_ALONG_ADD({ct.stored}, {{o0}}, {{i0}}, {{i1}}, "
             f"{math.prod(shape[:at])}, {shape[at]}, {spread[at]}, {math.prod(shape[at + 1 :])});",
             ("along_add",), fails=True)
    )  # fmt: skip
    return (out,)


# Writes into parts


def _joined(stacked: bool) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        shape, dtype = tuple(outs[0].shape), outs[0].dtype
        (at,) = axes_of("concatenate", (attrs["axis"],), len(shape))
        out = unit.fresh(shape, dtype)
        start = 0
        for argument in args:
            part = unit.cast(argument, dtype)
            width = 1 if stacked else part.shape[at]
            if stacked:
                part = unit.reshape(part, (*shape[:at], 1, *shape[at + 1 :]))
            part_shape = (*shape[:at], width, *shape[at + 1 :])
            target = unit.view(out, part_shape, out.strides, start * out.strides[at])
            unit.prims.append(Place(target, part))
            start += width
        return (out,)

    return lower


def _index_add(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    ct, *index = args
    shape = tuple(attrs["shape"])
    if index:
        return (_rows_add(unit, ct, index, attrs, shape),)
    if ct.dtype == "bool":
        raise NoKernel("index_add of booleans")
    view = indexed(shape, compact(shape), attrs["index"])
    if view is None or view[0] != ct.shape:
        raise NoKernel("index_add with such an index")
    # `put` moves this view into the memory of its result.
    target = Val(0, view[0], ct.dtype, strides=view[1], offset=view[2])
    return (unit.put(shape, ct.dtype, [(target, ct)]),)


def _rows_add(unit: Unit, ct: Val, index: list[Val], attrs: Any, shape: Sizes) -> Val:
    if len(index) != 1 or attrs["index"][:1] != (Port(0),) or any(
        item != slice(None) and item is not Ellipsis for item in attrs["index"][1:]
    ):  # fmt: skip
        raise NoKernel("index_add with such an index")
    return rows_added(unit, ct, index[0], shape, "index_add")


def rows_added(unit: Unit, ct: Val, index: Val, shape: Sizes, name: str) -> Val:
    """Zeros, with the rows of ``ct`` added at the rows that ``index`` selects."""
    if index.dtype not in OK_INDEX or ct.dtype == "bool":
        raise NoKernel(f"{name} by {index.dtype}")
    ct, index = unit.dense(ct), unit.cast(unit.dense(index), "int64")
    out = unit.fresh(shape, ct.dtype)
    unit.prims.append(
        FunctionCall((out,), (ct, index), f"NS_ROWS_ADD({ct.stored}, {{o0}}, {{i0}}, {{i1}}, "
             f"{index.size}, {shape[0]}, {math.prod(shape[1:])});", ("rows_add",), fails=True)
    )  # fmt: skip
    return out


TABLE: dict[str, Lower] = {
    **{name: _view(name) for name in VIEWS},
    "concatenate": _joined(False),
    "stack": _joined(True),
    "index_add": _index_add,
    "take_along_axis": _along,
    "add_along_axis": _along_add,
}
