"""Results whose shape depends on values, and counts.

Invariant: correct when run eagerly; if only shapes are known, a `ShapeError` says so and names an
alternative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.index import Port
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_input
from nodescope.ops.shapes import shape_of, tensor_spec


def _unknown(name: str, hint: str) -> Callable[..., Any]:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        raise ShapeError(f"{name}: the shape of the result depends on values", hint=hint)

    return infer


def _flat_samples(rng: np.random.Generator) -> list[Sample]:
    shapes: list[tuple[int, ...]] = [(6,), (2, 3), (1,), (0,)]
    return [Sample((rng.integers(0, 3, shape),)) for shape in shapes]


register(
    Op(
        name="nonzero",
        family="index",
        infer=_unknown("nonzero", "select with np.where(condition, x, y)"),
        impl=lambda x: np.nonzero(x),
        numpy=(np.nonzero,),
        bind=lambda a: ((a,), {}),
        outputs=0,
        samples=_flat_samples,
    )
)
register(
    Op(
        name="argwhere",
        family="index",
        infer=_unknown("argwhere", "select with np.where(condition, x, y)"),
        impl=lambda x: np.argwhere(x),
        numpy=(np.argwhere,),
        bind=lambda a: ((a,), {}),
        samples=_flat_samples,
    )
)
register(
    Op(
        name="unique",
        family="index",
        infer=_unknown("unique", "np.sort keeps the shape; or count with np.bincount"),
        impl=lambda x, equal_nan: np.unique(x, equal_nan=equal_nan),
        samples=lambda rng: [Sample(s.inputs, {"equal_nan": True}) for s in _flat_samples(rng)],
    )
)
register(
    Op(
        name="unique_all",
        family="index",
        infer=_unknown("unique", "np.sort keeps the shape; or count with np.bincount"),
        impl=lambda x, axis, equal_nan: np.unique(
            x, True, True, True, axis=axis, equal_nan=equal_nan
        ),
        outputs=4,
        samples=lambda rng: (
            [Sample(s.inputs, {"axis": None, "equal_nan": True}) for s in _flat_samples(rng)]
            + [Sample((rng.integers(0, 2, (5, 1)),), {"axis": 0, "equal_nan": True})]
        ),
    )
)

# Counts


def _bincount_check(specs: tuple[Operand, ...]) -> None:
    shapes = [shape_of(spec) for spec in specs]
    if len(shapes[0]) != 1 or len(set(shapes)) != 1:
        raise ShapeError(f"bincount: needs one-dimensional numbers and as many weights: {shapes}")
    dtype = tensor_spec(specs[0]).dtype
    if np.dtype(dtype).kind not in "iub":
        raise DtypeError(f"bincount: counts integers, not {dtype}", hint="convert with .astype")
    if len(specs) > 1 and np.dtype(tensor_spec(specs[1]).dtype).kind == "c":
        raise DtypeError(
            "bincount: weights are real", hint="count real and imaginary parts separately"
        )


def _bincount_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    _bincount_check(specs)
    if attrs["length"] is None:
        raise ShapeError(
            "bincount: the shape of the result depends on values",
            hint="nodescope.bincount(x, length=n) returns n counts",
        )
    return TensorSpec((attrs["length"],), "float64" if len(specs) > 1 else "int64")


def _bincount(x: Array, *weights: Array, minlength: int, length: int | None) -> Array:
    _bincount_check(tuple(TensorSpec(spec.shape, spec.dtype.name) for spec in (x, *weights)))
    counts = np.bincount(x.astype(np.intp), weights[0] if weights else None, minlength)
    if length is None:
        return counts
    if len(counts) > length:
        raise ShapeError(f"bincount: {len(counts) - 1} is out of range for {length} counts")
    return np.append(counts, np.zeros(length - len(counts), counts.dtype))


def _bincount_vjp(
    F: Any, ct: Any, out: Any, x: Any, *weights: Any, port: int, **attrs: Any
) -> Any:  # fmt: skip
    return F.getitem(ct, x, index=(Port(0),)) if port == 1 else None


register(
    Op(
        name="bincount",
        family="reduction",
        infer=_bincount_infer,
        impl=_bincount,
        vjp=(_bincount_vjp,),
        variadic=True,
        ports=("x", "weights"),
        samples=lambda rng: [
            Sample((np.array([0, 2, 2]), rng.standard_normal(3)), {"minlength": 0, "length": 4}),
            Sample((np.array([0, 2, 2]), rng.standard_normal(3)), {"minlength": 5, "length": None}),
            Sample((np.array([1, 1]),), {"minlength": 0, "length": None}),
            Sample((np.zeros(0, np.int64),), {"minlength": 0, "length": 2}),
        ],
        flops=one_per_input,
    )
)


def _edges_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    bins, limits = attrs["bins"], attrs["limits"]
    if isinstance(bins, str):
        raise ShapeError(
            f"histogram: the number of bins for {bins!r} depends on values",
            hint="give the number of bins",
        )
    dtype = np.dtype(tensor_spec(specs[0]).dtype)
    if dtype.kind == "c":
        raise DtypeError("histogram: complex numbers have no order")
    dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    return TensorSpec((bins + 1,), np.histogram_bin_edges(np.zeros(1, dtype), 1, limits).dtype.name)


def _edges(x: Array, bins: int | str, limits: tuple[float, float] | None) -> Array:
    if x.dtype.kind == "c":
        raise DtypeError("histogram: complex numbers have no order")
    if x.dtype == bool:
        x = x.astype(np.uint8)  # as in np.histogram_bin_edges, with a warning
    return np.histogram_bin_edges(x, bins, limits)


register(
    Op(
        name="histogram_bin_edges",
        family="reduction",
        infer=_edges_infer,
        impl=_edges,
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"bins": 4, "limits": limits})
            for shape, limits in [((7,), None), ((2, 3), (-1.0, 2.0)), ((0,), None)]
        ],
        flops=one_per_input,
    )
)


def _histogram_infer(
    specs: tuple[Operand, ...], attrs: dict[str, Any]
) -> tuple[TensorSpec, TensorSpec]:
    x, edges = tensor_spec(specs[0]), shape_of(specs[1])
    if len(edges) != 1 or edges[0] < 2:
        raise ShapeError(f"histogram: needs at least two edges in one dimension, not {edges}")
    if np.dtype(x.dtype).kind == "c":
        raise DtypeError("histogram: complex numbers have no order")
    dtype = "float64" if attrs["density"] else "int64"
    return TensorSpec((edges[0] - 1,), dtype)  # type: ignore[return-value]


def _histogram(x: Array, edges: Array, density: bool) -> Array:
    _histogram_infer(
        (TensorSpec(x.shape, x.dtype.name), TensorSpec(edges.shape, "")), {"density": density}
    )
    return np.histogram(x, edges, density=density)[0]


register(
    Op(
        name="histogram",
        family="reduction",
        infer=_histogram_infer,
        impl=_histogram,
        ports=("x", "edges"),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape), np.linspace(-1, 1, 4)), {"density": density})
            for shape, density in [((9,), False), ((3, 4), True), ((0,), False)]
        ],
        flops=one_per_input,
    )
)
