"""Indexing: basic, advanced and boolean, and its transpose, adding at the same places.

An index is a tuple of ints, slices, None, Ellipsis and `Port(i)`; a port stands for the i-th index
array, which is an input of the op like the indexed array.

Invariant: reading never copies more than NumPy does; gradients add up where an element was taken
more than once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import BoundsError, IndexTypeError, ShapeError
from nodescope.ir.attrs import Port as Port
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_input
from nodescope.ops.shapes import axes, dtype_of, shape_of

Index = tuple[Any, ...]


def _fill(index: Index, arrays: tuple[Array, ...]) -> Index:
    return tuple(arrays[item.port] if isinstance(item, Port) else item for item in index)


def _getitem(x: Array, *arrays: Array, index: Index) -> Array:
    return x[_fill(index, arrays) if arrays else index]


def _getitem_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = specs[0]
    assert isinstance(x, TensorSpec)
    # A boolean index selects as many elements as it has True elements, which its spec cannot tell.
    check_masks("getitem", x.shape, attrs["index"], specs[1:])
    arrays = []
    for spec in specs[1:]:
        assert isinstance(spec, TensorSpec)
        if spec.dtype == "bool":
            raise ShapeError(
                "getitem: the shape of a boolean selection depends on its values",
                hint="np.where(mask, x, y) keeps the shape",
            )
        if np.dtype(spec.dtype).kind not in "iu":
            raise IndexTypeError(
                f"getitem: an index array must be of integers, not {spec.dtype}",
                hint="convert it with .astype('int64'), or compare to select by a mask",
            )
        arrays.append(np.zeros(spec.shape, np.intp))
    # A stride-0 array of one element has any shape at no cost, so NumPy itself computes the result.
    stand_in = np.broadcast_to(np.empty((), np.dtype(x.dtype)), x.shape)
    try:
        selected = stand_in[_fill(attrs["index"], tuple(arrays))]
    except IndexError as error:
        raise BoundsError(
            f"getitem: {error}",
            hint="count from 0, or from -1 for the last; slices may extend past the end",
        ) from None
    return TensorSpec(np.shape(selected), x.dtype)


def check_masks(
    name: str, shape: tuple[int, ...], index: Index, arrays: tuple[Operand, ...]
) -> None:
    """Refuse masks that do not match the shape of the dimensions that they select from.

    Raises:
        BoundsError: A mask has another size, or there are more masks than dimensions.
    """
    sizes = [shape_of(array) if dtype_of(array) == "bool" else None for array in arrays]
    if not any(sizes):
        return
    lengths = [
        len(sizes[item.port] or (0,)) if isinstance(item, Port)
        else int(item is not None and item is not Ellipsis)
        for item in index
    ]  # fmt: skip
    # A boolean array without dimensions consumes none; an integer array consumes one.
    for i, item in enumerate(index):
        if isinstance(item, Port) and sizes[item.port] == ():
            lengths[i] = 0
    if sum(lengths) > len(shape):
        raise BoundsError(
            f"{name}: too many indices: a tensor of shape {shape} has {len(shape)} dimensions, "
            f"but {sum(lengths)} were indexed",
            hint="a mask of n dimensions selects from n of them",
        )
    axis = 0
    for item, takes in zip(index, lengths, strict=True):
        if item is Ellipsis:
            axis += len(shape) - sum(lengths)
        elif isinstance(item, Port) and sizes[item.port]:
            mask = sizes[item.port] or ()
            for at, size in enumerate(mask, axis):
                if size != shape[at]:
                    raise BoundsError(
                        f"{name}: a mask of shape {mask} does not fit a tensor of shape {shape}: "
                        f"axis {at} has size {shape[at]}, the mask {size}",
                        hint="a mask has the sizes of the dimensions that it selects from",
                    )
        axis += takes


def _getitem_vjp(F: Any, ct: Any, out: Any, x: Any, *arrays: Any, index: Index, port: int) -> Any:
    return F.index_add(ct, *arrays, index=index, shape=x.shape) if port == 0 else None


def _index_add(ct: Array, *arrays: Array, index: Index, shape: tuple[int, ...]) -> Array:
    total = np.zeros(shape, ct.dtype)
    if arrays and any(array.dtype != bool for array in arrays):
        np.add.at(total, _fill(index, arrays), ct)
    else:
        # Slices and masks name each element once: plain assignment is exact and much faster.
        total[_fill(index, arrays) if arrays else index] = ct
        if arrays:
            total += 0  # as by adding: no zero is negative
    return total


def _index_add_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    assert isinstance(specs[0], TensorSpec)
    return TensorSpec(attrs["shape"], specs[0].dtype)


def _index_add_vjp(
    F: Any, ct: Any, out: Any, x: Any, *arrays: Any, index: Index, shape: Any, port: int
) -> Any:
    return F.getitem(ct, *arrays, index=index) if port == 0 else None


def _getitem_samples(rng: np.random.Generator) -> list[Sample]:
    x = rng.standard_normal((4, 5))
    whole = slice(None)
    return [
        Sample((x,), {"index": (1,)}),
        Sample((x,), {"index": (slice(None, None, -2), 0)}),
        Sample((x,), {"index": (..., None, slice(1, 1))}),
        Sample((x, np.array([0, 2, 2])), {"index": (Port(0),)}),
        Sample((x, np.array([0, -1]), np.array([1, 1])), {"index": (Port(0), Port(1))}),
        Sample((x, np.array([[0, 1], [3, 3]])), {"index": (whole, Port(0))}),
        Sample((x, np.zeros(0, np.intp)), {"index": (Port(0), whole)}),
    ]


def _index_add_samples(rng: np.random.Generator) -> list[Sample]:
    shape = (4, 5)
    return [
        Sample((np.asarray(_getitem(np.zeros(shape), *s.inputs[1:], index=s.attrs["index"])) + 1.0,
                *s.inputs[1:]), {"index": s.attrs["index"], "shape": shape})
        for s in _getitem_samples(rng)
    ]  # fmt: skip


register(
    Op(
        name="getitem",
        family="index",
        infer=_getitem_infer,
        impl=_getitem,
        vjp=(_getitem_vjp,),
        variadic=True,
        samples=_getitem_samples,
    )
)
register(
    Op(
        name="index_add",
        family="index",
        infer=_index_add_infer,
        impl=_index_add,
        vjp=(_index_add_vjp,),
        variadic=True,
        samples=_index_add_samples,
        flops=one_per_input,
    )
)

# take_along_axis and its inverse


def _along_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, indices = specs
    assert isinstance(x, TensorSpec)
    shape, picked = x.shape, shape_of(indices)
    (axis,) = axes("take_along_axis", (attrs["axis"],), len(shape))
    if len(shape) != len(picked):
        raise ShapeError(f"take_along_axis: {shape} and indices {picked} differ in dimensions")
    rest = [(n, m) for i, (n, m) in enumerate(zip(shape, picked, strict=True)) if i != axis]
    if any(n != m and 1 not in (n, m) for n, m in rest):
        raise ShapeError(f"take_along_axis: {shape} and indices {picked} do not broadcast")
    sizes = [max(n, m) if 0 not in (n, m) else 0 for n, m in rest]
    sizes.insert(axis, picked[axis])
    return TensorSpec(tuple(sizes), x.dtype)


def _along_add(ct: Array, indices: Array, axis: int, shape: tuple[int, ...]) -> Array:
    total = np.zeros(shape, ct.dtype)
    axis %= len(shape)
    # A dimension of size 1 was broadcast when taking, so its index is 0 everywhere.
    grid = [
        np.zeros(1, np.intp) if n == 1 else np.arange(n).reshape(
            [-1 if i == j else 1 for j in range(len(shape))]
        )
        for i, n in enumerate(shape)
    ]  # fmt: skip
    grid[axis] = indices
    np.add.at(total, tuple(grid), ct)
    return total


def _along_samples(rng: np.random.Generator) -> list[Sample]:
    x = rng.standard_normal((3, 4))
    return [
        Sample((x, np.array([[1], [0], [3]])), {"axis": 1}),
        Sample((x, np.array([[0, 2, 2, 1]])), {"axis": 0}),
        Sample((x, np.array([[1, 1], [0, 3], [2, 2]])), {"axis": -1}),
    ]


register(
    Op(
        name="take_along_axis",
        family="index",
        infer=_along_infer,
        impl=lambda x, indices, axis: np.take_along_axis(x, indices, axis),
        vjp=(
            lambda F, ct, out, x, indices, axis: F.add_along_axis(
                ct, indices, axis=axis, shape=x.shape
            ),
            None,
        ),
        numpy=(np.take_along_axis,),
        bind=lambda arr, indices, axis=-1: ((arr, indices), {"axis": int(axis)}),
        ports=("x", "indices"),
        samples=_along_samples,
    )
)
register(
    Op(
        name="add_along_axis",
        family="index",
        infer=lambda specs, attrs: TensorSpec(attrs["shape"], specs[0].dtype),  # type: ignore[union-attr]
        impl=_along_add,
        vjp=(
            lambda F, ct, out, x, indices, axis, shape: F.take_along_axis(ct, indices, axis=axis),
            None,
        ),
        ports=("x", "indices"),
        samples=lambda rng: [
            Sample(
                (np.take_along_axis(s.inputs[0], s.inputs[1], s.attrs["axis"]), s.inputs[1]),
                {"axis": s.attrs["axis"], "shape": (3, 4)},
            )
            for s in _along_samples(rng)
        ],
        flops=one_per_input,
    )
)
