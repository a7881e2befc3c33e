"""Arranging elements: padding, rolling, triangles and diagonals.

Invariant: added elements are constants, so no gradient flows into them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.rules import unbroadcast
from nodescope.ops.shapes import axes, tensor_spec

Widths = tuple[tuple[int, int], ...]

# pad


def _pad_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, widths = tensor_spec(specs[0]), attrs["widths"]
    if len(widths) != len(x.shape):
        raise ShapeError(f"pad: {len(widths)} pairs of widths for shape {x.shape}")
    if any(n < 0 for pair in widths for n in pair):
        raise ShapeError(f"pad: a width of {widths} is negative")
    sizes = zip(x.shape, widths, strict=True)
    return TensorSpec(tuple(n + before + after for n, (before, after) in sizes), x.dtype)


def _pad(x: Array, widths: Widths, value: Any) -> Array:
    if len(widths) != x.ndim:
        raise ShapeError(f"pad: {len(widths)} pairs of widths for shape {x.shape}")
    return np.pad(x, widths, constant_values=value) if widths else x


def _pad_vjp(F: Any, ct: Any, out: Any, x: Any, widths: Widths, value: Any) -> Any:
    sizes = zip(x.shape, widths, strict=True)
    return F.getitem(ct, index=tuple(slice(before, before + n) for n, (before, _) in sizes))


register(
    Op(
        name="pad",
        family="layout",
        infer=_pad_infer,
        impl=_pad,
        vjp=(_pad_vjp,),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"widths": widths, "value": 1})
            for shape, widths in [
                ((3, 2), ((1, 2), (0, 1))), ((2,), ((0, 0),)), ((0, 2), ((1, 0), (0, 0))), ((), ()),
            ]
        ],
    )
)  # fmt: skip

# roll


def _roll_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = tensor_spec(specs[0])
    if attrs["axis"] is not None:
        for axis in attrs["axis"]:  # an axis may be rolled twice
            axes("roll", (axis,), len(x.shape))
        if len(attrs["axis"]) != len(attrs["shift"]) and 1 not in (
            len(attrs["axis"]), len(attrs["shift"]),
        ):  # fmt: skip
            raise ShapeError(f"roll: shifts {attrs['shift']} do not fit axes {attrs['axis']}")
    return x


def _several(value: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in np.atleast_1d(value))


register(
    Op(
        name="roll",
        family="layout",
        infer=_roll_infer,
        impl=lambda x, shift, axis: np.roll(x, sum(shift) if axis is None else shift, axis),
        vjp=(
            lambda F, ct, out, x, shift, axis: F.roll(
                ct, shift=tuple(-amount for amount in shift), axis=axis
            ),
        ),
        numpy=(np.roll,),
        bind=lambda a, shift, axis=None: (
            (a,),
            {"shift": _several(shift), "axis": None if axis is None else _several(axis)},
        ),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"shift": shift, "axis": axis})
            for shape, shift, axis in [
                ((3, 4), (1,), None), ((3, 4), (-2,), (1,)), ((2, 3), (1, 2), (0, 1)),
                ((0, 2), (1,), (0,)), ((1,), (5,), (0,)), ((), (1,), None),
            ]
        ],
    )
)  # fmt: skip

# tril, triu


def _triangle(name: str, function: Any) -> None:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        x = tensor_spec(specs[0])
        if not x.shape:
            raise ShapeError(f"{name}: needs at least one dimension, not a scalar")
        return TensorSpec((*x.shape, *x.shape) if len(x.shape) == 1 else x.shape, x.dtype)

    def impl(x: Array, k: int) -> Array:
        if not np.ndim(x):
            raise ShapeError(f"{name}: needs at least one dimension, not a scalar")
        return np.asarray(function(x, k))

    register(
        Op(
            name=name,
            family="layout",
            infer=infer,
            impl=impl,
            vjp=(lambda F, ct, out, x, k: unbroadcast(F, getattr(F, name)(ct, k=k), x),),
            numpy=(function,),
            bind=lambda m, k=0: ((m,), {"k": int(k)}),
            samples=lambda rng: [
                Sample((rng.standard_normal(shape),), {"k": k})
                for shape, k in [((3, 4), 0), ((2, 3, 3), -1), ((3,), 1), ((0, 2), 0), ((1, 1), 0)]
            ],
        )
    )


_triangle("tril", np.tril)
_triangle("triu", np.triu)

# diagonal, and its inverse


def _diagonal_size(rows: int, columns: int, offset: int) -> int:
    return max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)


def _diagonal_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = tensor_spec(specs[0])
    if len(x.shape) < 2:
        raise ShapeError(f"diagonal: needs two dimensions, not shape {x.shape}")
    first, second = axes("diagonal", (attrs["axis1"], attrs["axis2"]), len(x.shape))
    rest = tuple(n for i, n in enumerate(x.shape) if i not in (first, second))
    size = _diagonal_size(x.shape[first], x.shape[second], attrs["offset"])
    return TensorSpec((*rest, size), x.dtype)


def _diagonal(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    return np.diagonal(x, offset, axis1, axis2)


def _diagonal_vjp(
    F: Any, ct: Any, out: Any, x: Any, offset: int, axis1: int, axis2: int
) -> Any:  # fmt: skip
    first, second = axis1 % x.ndim, axis2 % x.ndim
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    back = [0] * x.ndim
    for position, axis in enumerate((*rest, first, second)):
        back[axis] = position
    full = F.on_diagonal(ct, offset=offset, rows=x.shape[first], columns=x.shape[second])
    return F.transpose(full, axes=tuple(back))


register(
    Op(
        name="diagonal",
        family="layout",
        infer=_diagonal_infer,
        impl=_diagonal,
        vjp=(_diagonal_vjp,),
        numpy=(np.diagonal,),
        bind=lambda a, offset=0, axis1=0, axis2=1: (
            (a,),
            {"offset": int(offset), "axis1": int(axis1), "axis2": int(axis2)},
        ),
        samples=lambda rng: [
            Sample(
                (rng.standard_normal(shape),), {"offset": offset, "axis1": first, "axis2": second}
            )
            for shape, offset, first, second in [
                ((3, 4), 0, 0, 1),
                ((3, 4), -1, 0, 1),
                ((2, 3, 4), 1, -1, 0),
                ((2, 2), 5, 0, 1),
                ((0, 3), 0, 0, 1),
                ((1, 1), 0, 1, 0),
            ]
        ],
    )
)


def _on_diagonal(x: Array, offset: int, rows: int, columns: int) -> Array:
    size = x.shape[-1]
    if size != _diagonal_size(rows, columns, offset):
        raise ShapeError(f"on_diagonal: {x.shape} does not fit into ({rows}, {columns})")
    full = np.zeros((*x.shape[:-1], rows, columns), x.dtype)
    along = np.arange(size)
    full[..., along + max(-offset, 0), along + max(offset, 0)] = x
    return full


def _on_diagonal_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = tensor_spec(specs[0])
    rows, columns = attrs["rows"], attrs["columns"]
    if not x.shape or x.shape[-1] != _diagonal_size(rows, columns, attrs["offset"]):
        raise ShapeError(f"on_diagonal: {x.shape} does not fit into ({rows}, {columns})")
    return TensorSpec((*x.shape[:-1], rows, columns), x.dtype)


register(
    Op(
        name="on_diagonal",
        family="layout",
        infer=_on_diagonal_infer,
        impl=_on_diagonal,
        vjp=(
            lambda F, ct, out, x, offset, rows, columns: F.diagonal(
                ct, offset=offset, axis1=-2, axis2=-1
            ),
        ),
        samples=lambda rng: [
            Sample((rng.standard_normal((*lead, _diagonal_size(rows, columns, offset))),),
                   {"offset": offset, "rows": rows, "columns": columns})
            for lead, offset, rows, columns in [((), 0, 3, 3), ((2,), 1, 2, 3), ((1,), -1, 1, 2)]
        ],
    )
)  # fmt: skip
