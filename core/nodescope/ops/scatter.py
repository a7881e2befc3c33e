"""Writing at an index without modifying the input: the result is a changed copy.

Invariant: inputs stay unchanged; overwritten elements get no gradient, and if an element was
written more than once, the last write counts, for values and gradients alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import BoundsError, DtypeError, IndexTypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.index import Index, Port, _fill, check_masks
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.rules import unbroadcast
from nodescope.ops.shapes import dtype_of, shape_of


def _index_set(x: Array, value: Any, *arrays: Array, index: Index) -> Array:
    _check_imaginary(np.result_type(x), np.asarray(value).dtype)
    total = np.array(x, order="K")  # keeps the layout, as an in-place write would: same bits later
    try:
        total[_fill(index, arrays)] = value
    except ValueError as error:
        masked = any(array.dtype == bool for array in arrays)  # else `infer` explains it
        if masked and ("broadcast" in str(error) or "assign" in str(error)):
            raise ShapeError(
                f"index_set: a value of shape {np.shape(value)} does not fit what the index "
                f"selects, of shape {total[_fill(index, arrays)].shape}",
                hint="the value must have that shape, or broadcast to it",
            ) from None
        raise
    return total


def _check_imaginary(old: np.dtype[Any], new: np.dtype[Any]) -> None:
    if new.kind == "c" and old.kind != "c":
        raise DtypeError(
            f"index_set: {new.name} cannot be stored as {old.name}: it has an imaginary part",
            hint="take .real, or convert the tensor with .astype first",
        )


def _index_set_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, value = specs[:2]
    assert isinstance(x, TensorSpec)
    _check_imaginary(np.dtype(x.dtype), np.dtype(dtype_of(value)))
    check_masks("index_set", x.shape, attrs["index"], specs[2:])
    arrays: list[Array] = []
    for spec in specs[2:]:
        assert isinstance(spec, TensorSpec)
        if np.dtype(spec.dtype).kind not in "biu":
            raise IndexTypeError(
                f"index_set: an index array must be of integers or bool, not {spec.dtype}",
                hint="convert it with .astype('int64'), or compare to select by a mask",
            )
        arrays.append(np.zeros(spec.shape, bool if spec.dtype == "bool" else np.intp))
    masks = [array.dtype == bool for array in arrays]
    if any(masks) and not all(masks):
        return x  # the mask selects an unknown number of elements
    stand_in = np.broadcast_to(np.empty((), np.dtype(x.dtype)), x.shape)
    try:
        selected = np.shape(stand_in[_fill(attrs["index"], tuple(arrays))])
    except IndexError as error:
        raise BoundsError(
            f"index_set: {error}",
            hint="count from 0, or from -1 for the last; slices may extend past the end",
        ) from None
    value_shape = shape_of(value)
    lead = len(value_shape) - len(selected)
    if lead > 0 and any(n != 1 for n in value_shape[:lead]):
        raise ShapeError(f"index_set: a value of shape {value_shape} does not fit {selected}")
    pairs = zip(reversed(value_shape), reversed(selected), strict=False)
    if not any(masks) and any(n not in (1, m) for n, m in pairs):
        raise ShapeError(
            f"index_set: a value of shape {value_shape} does not fit {selected}, "
            "which the index selects",
            hint="the value must have that shape, or broadcast to it",
        )
    return x


def _index_set_vjp(
    F: Any, ct: Any, out: Any, x: Any, value: Any, *arrays: Any, index: Index, port: int
) -> Any:
    if port == 0:
        return F.index_set(ct, 0.0, *arrays, index=index)
    if port != 1:
        return None
    if len(index) == 1 and len(arrays) == 1 and arrays[0].dtype == bool and value.ndim == 0:
        # One number at every place of a mask: no selection, so the shapes are known beforehand.
        mask = arrays[0]
        wide = F.reshape(mask, shape=mask.shape + (1,) * (ct.ndim - mask.ndim))
        return F.where(wide, ct, 0.0)
    gradient = F.getitem(ct, *arrays, index=index)
    if any(array.dtype != bool for array in arrays):
        # To find the last write, write every writer's number and read back.
        numbers = np.arange(int(np.prod(gradient.shape))).reshape(gradient.shape)
        written = F.index_set(np.zeros(x.shape, np.intp), numbers, *arrays, index=index)
        last = F.equal(F.getitem(written, *arrays, index=index), numbers)
        gradient = F.where(last, gradient, 0.0)
    extra = value.ndim - gradient.ndim
    if extra > 0:
        gradient = F.reshape(gradient, shape=(1,) * extra + gradient.shape)
    return unbroadcast(F, gradient, value)


def _index_set_samples(rng: np.random.Generator) -> list[Sample]:
    x = rng.standard_normal((4, 5))
    whole = slice(None)
    mask = np.array([True, False, True, True])

    def value(*shape: int) -> Array:
        return rng.standard_normal(shape)

    return [
        Sample((x, value(5)), {"index": (1,)}),
        Sample((x, 2.5), {"index": (1, whole)}),
        Sample((x, value(2, 1)), {"index": (slice(None, None, -2),)}),
        Sample((x, value(1, 1, 5)), {"index": (slice(0, 2),)}),
        Sample((x, value(4, 0)), {"index": (..., slice(1, 1))}),
        Sample((x, value(3, 5), np.array([0, 2, 2])), {"index": (Port(0),)}),
        Sample((x, value(2), np.array([0, -1]), np.array([1, 1])), {"index": (Port(0), Port(1))}),
        Sample((x, value(4, 2, 2), np.array([[0, 1], [3, 3]])), {"index": (whole, Port(0))}),
        Sample((x, value(), np.array([[0, 1], [3, 3]])), {"index": (whole, Port(0))}),
        Sample((x, value(), mask), {"index": (Port(0),)}),
        Sample((x, value(3, 5), mask), {"index": (Port(0),)}),
        Sample((x, value(), x > 0), {"index": (Port(0),)}),
        Sample((x, value(1), x > 0), {"index": (Port(0),)}),
        Sample((value(0, 3), value(3)), {"index": (whole,)}),
        Sample((value(), value()), {"index": (...,)}),
    ]


register(
    Op(
        name="index_set",
        family="index",
        infer=_index_set_infer,
        impl=_index_set,
        vjp=(_index_set_vjp,),
        variadic=True,
        ports=("x", "value"),
        samples=_index_set_samples,
    )
)
