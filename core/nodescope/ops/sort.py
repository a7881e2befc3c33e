"""Order: sorting, sorting positions, and searching in sorted values.

Invariant: sorting is stable wherever positions are returned, so that ties are always resolved the
same way; NaN sorts last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_input
from nodescope.ops.shapes import axes, promoted, shape_of, tensor_spec


def _infer(name: str, dtype: str | None) -> Any:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        x, axis = tensor_spec(specs[0]), attrs["axis"]
        axes(name, None if axis is None else (axis,), len(x.shape))
        flat = (int(np.prod(x.shape, dtype=np.int64)),)
        return TensorSpec(flat if axis is None else x.shape, dtype or x.dtype)

    return infer


def _along(x: Array, axis: int | None) -> tuple[Array, int]:
    if axis is None:
        return np.ravel(x), 0
    (normalised,) = axes("sort", (axis,), np.ndim(x))
    return x, normalised


def _argsort(x: Array, axis: int | None, descending: bool) -> Array:
    x, axis = _along(x, axis)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # Reversed twice, so that ties keep their order here as well.
    order = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.asarray(np.flip(x.shape[axis] - 1 - order, axis))


def _sort(x: Array, axis: int | None, descending: bool) -> Array:
    x, axis = _along(x, axis)
    sorted_values = np.sort(x, axis=axis, kind="stable")
    return np.asarray(np.flip(sorted_values, axis)) if descending else sorted_values


def _sort_vjp(F: Any, ct: Any, out: Any, x: Any, axis: int | None, descending: bool) -> Any:
    order = F.argsort(x, axis=axis, descending=descending)
    shape = out.shape
    back = F.add_along_axis(ct, order, axis=0 if axis is None else axis, shape=shape)
    return F.reshape(back, shape=x.shape) if axis is None else back


def _samples(rng: np.random.Generator) -> list[Sample]:
    cases: list[tuple[tuple[int, ...], int | None, bool]] = [
        ((3, 4), -1, False), ((3, 4), 0, True), ((2, 3), None, False), ((1,), 0, False),
        ((0, 2), 0, False), ((2, 0), 1, True),
    ]  # fmt: skip
    return [
        Sample((rng.standard_normal(shape),), {"axis": axis, "descending": descending})
        for shape, axis, descending in cases
    ]


def _bind(
    a: Any, axis: Any = -1, kind: Any = None, order: None = None, *, stable: Any = None,
    descending: bool = False,
) -> tuple[tuple[Any, ...], dict[str, Any]]:  # fmt: skip
    if order is not None:
        raise TypeError("the argument order is for structured arrays")
    return (a,), {"axis": None if axis is None else int(axis), "descending": bool(descending)}


for _name, _impl, _rules, _dtype, _numpy in (
    ("sort", _sort, (_sort_vjp,), None, (np.sort,)),
    ("argsort", _argsort, None, "int64", (np.argsort,)),
):
    register(
        Op(
            name=_name,
            family="index",
            infer=_infer(_name, _dtype),
            impl=_impl,
            vjp=_rules,
            numpy=_numpy,
            bind=_bind,
            samples=_samples,
            flops=one_per_input,
        )
    )


def _argpartition_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    spec: TensorSpec = _infer("argpartition", "int64")(specs, attrs)
    x, axis = tensor_spec(specs[0]), attrs["axis"]
    size = spec.shape[0] if axis is None else x.shape[axis]
    if size and any(not -size <= position < size for position in attrs["kth"]):
        raise ShapeError(f"argpartition: kth {attrs['kth']} is out of range for {size} elements")
    return spec


register(
    Op(
        name="argpartition",
        family="index",
        infer=_argpartition_infer,
        impl=lambda x, kth, axis: np.argpartition(x, kth, axis=axis),
        numpy=(np.argpartition,),
        bind=lambda a, kth, axis=-1, kind="introselect", order=None: (
            (a,),
            {"kth": tuple(int(position) for position in np.atleast_1d(kth)), "axis": axis},
        ),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 4)),), {"kth": (1,), "axis": -1}),
            Sample((rng.standard_normal((3, 4)),), {"kth": (0, 2), "axis": 0}),
            Sample((rng.standard_normal((2, 2)),), {"kth": (3,), "axis": None}),
        ],
        flops=one_per_input,
    )
)


def _search_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    if len(shape_of(specs[0])) != 1:
        raise ShapeError(
            f"searchsorted: the sorted values must have one dimension, not {shape_of(specs[0])}"
        )
    promoted(specs)
    return TensorSpec(shape_of(specs[1]), "int64")


register(
    Op(
        name="searchsorted",
        family="index",
        infer=_search_infer,
        impl=lambda a, v, side: np.searchsorted(a, v, side=side),
        ports=("a", "v"),
        samples=lambda rng: [
            Sample((np.sort(rng.standard_normal(5)), rng.standard_normal(shape)), {"side": side})
            for shape, side in [((3, 4), "left"), ((), "right"), ((0,), "left"), ((1,), "right")]
        ],
        flops=one_per_input,
    )
)


def _lexsort_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    shapes = {shape_of(spec) for spec in specs}
    if len(shapes) != 1:
        raise ShapeError(f"lexsort: the keys differ in shape: {sorted(shapes)}")
    (shape,) = shapes
    axes("lexsort", (attrs["axis"],), len(shape))
    return TensorSpec(shape, "int64")


register(
    Op(
        name="lexsort",
        family="index",
        infer=_lexsort_infer,
        impl=lambda *keys, axis: np.lexsort(keys, axis=axis),
        numpy=(np.lexsort,),
        bind=lambda keys, axis=-1: (tuple(keys), {"axis": int(axis)}),
        variadic=True,
        samples=lambda rng: [
            Sample((rng.integers(0, 3, 6), rng.integers(0, 3, 6)), {"axis": -1}),
            Sample((rng.integers(0, 3, (2, 4)),), {"axis": 0}),
        ],
        flops=one_per_input,
    )
)
