"""Reductions over axes.

Invariant: ``axis`` is None, an int or a tuple; a reduction over no elements gives NumPy's result,
or a `ShapeError` where NumPy refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.errors import DtypeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.dtypes import name_of
from nodescope.ops.lowprecision import Reduce
from nodescope.ops.op import Array, Infer, Op, Operand, Rule, Sample, one_per_input
from nodescope.ops.rules import backwards, products_before, restore
from nodescope.ops.shapes import Axis, axes, count, reduced


def _bind(
    a: Any, axis: Any = None, dtype: None = None, out: None = None, keepdims: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if dtype is not None or out is not None:
        raise TypeError("the arguments dtype and out are not traced: use .astype on the operand")
    return (a,), {"axis": as_axis(axis), "keepdims": bool(keepdims)}


def _bind_no_dtype(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return _bind(a, axis, None, out, keepdims)


def _bind_ddof(
    a: Any,
    axis: Any = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    inputs, attrs = _bind(a, axis, dtype, out, keepdims)
    return inputs, {**attrs, "ddof": ddof}


_add: Any = np.add.reduce


def _mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """`numpy.mean`; for common dtypes, by the two calls that NumPy itself makes."""
    if x.__class__ is not np.ndarray or x.dtype.char not in "fd" or not x.size:
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = _add(x, axis, None, None, keepdims)
    if total.__class__ is np.float32:  # one number, by the same division in float64
        return np.float32(float(total) / x.size)
    total = np.asarray(total)
    return np.true_divide(total, np.intp(x.size // total.size), out=total, casting="unsafe")


def as_axis(axis: Any) -> Axis:
    """An ``axis`` as stored in attributes: None, an int or a tuple of ints."""
    if axis is None or isinstance(axis, int):
        return axis
    if isinstance(axis, tuple | list):
        return tuple(int(a) for a in axis)
    return int(axis)


def _samples(rng: np.random.Generator, **more: Any) -> list[Sample]:
    cases: list[tuple[tuple[int, ...], Axis, bool]] = [
        ((3, 4), None, False), ((3, 4), 0, False), ((3, 4), 1, True), ((2, 3, 4), (0, 2), False),
        ((2, 3, 4), (-1, 0), True), ((1, 5), 1, False), ((4,), None, True), ((), None, False),
        ((2, 0, 3), 0, False),
    ]  # fmt: skip
    return [
        Sample((rng.standard_normal(shape),), {"axis": axis, "keepdims": keepdims, **more})
        for shape, axis, keepdims in cases
    ]


def _zeros_too(rng: np.random.Generator) -> list[Sample]:
    first, second = rng.standard_normal((2, 3, 4))
    first[0, 1] = second[1, 2] = second[1, 3] = 0.0
    attrs = {"axis": 1, "keepdims": False}
    return [*_samples(rng), *(Sample((x,), attrs) for x in (first, second, np.zeros((2, 3))))]


def _infer(name: str, dtype: Callable[[np.dtype[Any]], Any], *, nonempty: bool = False) -> Infer:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        (x,) = specs
        assert isinstance(x, TensorSpec)
        shape = reduced(name, x.shape, attrs["axis"], attrs["keepdims"], nonempty=nonempty)
        return TensorSpec(shape, np.dtype(dtype(np.dtype(x.dtype))).name)

    return infer


def _reduction(
    name: str,
    impl: Any,
    rule: Rule | None,
    dtype: Callable[[np.dtype[Any]], Any],
    numpy: tuple[Any, ...],
    bind: Any = _bind,
    *,
    nonempty: bool = False,
    smooth: bool = True,
    samples: Any = _samples,
    **more: Any,
) -> None:
    register(
        Op(
            name=name,
            family="reduction",
            infer=_infer(name, dtype, nonempty=nonempty),
            impl=impl,
            vjp=None if rule is None else (rule,),
            numpy=numpy,
            bind=bind,
            samples=lambda rng: samples(rng, **more),
            smooth=smooth,
            flops=one_per_input,
        )
    )


def _summed(dtype: np.dtype[Any]) -> Any:
    # Small integers are summed in the platform's word, as in NumPy.
    return np.add.reduce(np.empty(0, dtype)).dtype


def _averaged(dtype: np.dtype[Any]) -> Any:
    return np.float64 if dtype.kind in "biu" else dtype


def _spread_of(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c":
        return np.empty(0, dtype).real.dtype
    return _averaged(dtype)


def _sum_vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    return F.broadcast_to(restore(F, ct, x.shape, axis, keepdims), shape=x.shape)


def _mean_vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    size = float(max(count(x.shape, axis), 1))
    ct = restore(F, ct, x.shape, axis, keepdims)
    # From 65,520 on, the count itself exceeds float16.
    share = F.divide(ct, size) if size < 65_000 else F.multiply(ct, 1.0 / size)
    return F.broadcast_to(share, shape=x.shape)


def _prod_vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    # The product of all others, from before and after: out / x would be 0 / 0 at a zero.
    shape = x.shape
    reduced_axes = axes("prod", axis, len(shape))
    rest = tuple(i for i in range(len(shape)) if i not in reduced_axes)
    order = (*rest, *reduced_axes)
    kept = tuple(shape[i] for i in rest)
    rows = F.reshape(F.transpose(x, axes=order), shape=(*kept, count(shape, axis)))
    other_products = F.multiply(products_before(F, rows), backwards(F, products_before, rows))
    back = tuple(order.index(i) for i in range(len(shape)))
    other_products = F.transpose(
        F.reshape(other_products, shape=tuple(shape[i] for i in order)), axes=back
    )
    return F.multiply(restore(F, ct, shape, axis, keepdims), other_products)


def _extreme_vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    # Ties share the cotangent, so that the sum over the elements is exact.
    hit = F.astype(F.equal(x, restore(F, out, x.shape, axis, keepdims)), dtype=name_of(x.dtype))
    share = F.divide(hit, F.sum(hit, axis=axis, keepdims=True))
    return F.multiply(restore(F, ct, x.shape, axis, keepdims), share)


def _var_vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool, ddof: float) -> Any:
    centred = _centred(F, x, axis)
    scale = 2.0 / max(count(x.shape, axis) - ddof, 1e-300)
    return F.multiply(restore(F, ct, x.shape, axis, keepdims), F.multiply(centred, scale))


def _centred(F: Any, x: Any, axis: Axis) -> Any:
    # The slope of |z|**2 is 2 conj(z), as cotangents are not conjugated.
    centred = F.subtract(x, F.mean(x, axis=axis, keepdims=True))
    return F.conjugate(centred) if x.dtype.kind == "c" else centred


def _std_vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool, ddof: float) -> Any:
    centred = _centred(F, x, axis)
    # For a group of equal elements, the slopes to both sides differ; 0 is their mean.
    safe = F.where(F.equal(out, 0), 1.0, out)
    share = F.divide(ct, F.multiply(safe, float(max(count(x.shape, axis) - ddof, 1e-300))))
    return F.multiply(restore(F, share, x.shape, axis, keepdims), centred)


def _logsumexp(x: Array, axis: Axis, keepdims: bool) -> Any:
    if x.dtype.kind != "f":
        raise DtypeError(f"logsumexp: not defined for {x.dtype}", hint="convert with .astype")
    top = np.max(x, axis=axis, keepdims=True)
    # -inf - -inf would be NaN for a row of log zeros, whose logsumexp is -inf.
    safe = np.where(np.isfinite(top), top, x.dtype.type(0))
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - safe), axis=axis, keepdims=True)) + safe
    return total if keepdims else np.squeeze(total, axis=axis)


def _logsumexp_vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    top = restore(F, out, x.shape, axis, keepdims)
    # If all are -inf, their weights are 0, not exp(-inf + inf).
    weights = F.exp(F.subtract(x, F.where(F.isinf(top), 0.0, top)))
    return F.multiply(restore(F, ct, x.shape, axis, keepdims), weights)


def _floats_only(name: str) -> Callable[[np.dtype[Any]], Any]:
    def dtype(dtype: np.dtype[Any]) -> Any:
        if dtype.kind != "f":
            raise DtypeError(f"{name}: not defined for {dtype}", hint="convert with .astype")
        return dtype

    return dtype


_reduction("sum", Reduce(np.add), _sum_vjp, _summed, (np.sum,))
_reduction("prod", Reduce(np.multiply), _prod_vjp, _summed, (np.prod,), samples=_zeros_too)
_reduction("mean", _mean, _mean_vjp, _averaged, (np.mean,))
_reduction(
    "max", Reduce(np.maximum), _extreme_vjp, lambda d: d, (np.max, np.amax), _bind_no_dtype,
    nonempty=True, smooth=False,
)  # fmt: skip
_reduction(
    "min", Reduce(np.minimum), _extreme_vjp, lambda d: d, (np.min, np.amin), _bind_no_dtype,
    nonempty=True, smooth=False,
)  # fmt: skip
_reduction("var", np.var, _var_vjp, _spread_of, (np.var,), _bind_ddof, ddof=0)
_reduction("std", np.std, _std_vjp, _spread_of, (np.std,), _bind_ddof, ddof=0)
_reduction("any", Reduce(np.logical_or, bool), None, lambda d: bool, (np.any,), _bind_no_dtype)
_reduction("all", Reduce(np.logical_and, bool), None, lambda d: bool, (np.all,), _bind_no_dtype)
_reduction(
    "logsumexp", _logsumexp, _logsumexp_vjp, _floats_only("logsumexp"), (), _bind_no_dtype,
    nonempty=True,
)  # fmt: skip


def _bind_arg(
    a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return _bind(a, axis, None, out, keepdims)


def _arg_samples(rng: np.random.Generator) -> list[Sample]:
    return [sample for sample in _samples(rng) if not isinstance(sample.attrs["axis"], tuple)]


for _name, _function in (
    ("argmax", np.argmax),
    ("argmin", np.argmin),
    ("nanargmax", np.nanargmax),
    ("nanargmin", np.nanargmin),
):
    register(
        Op(
            name=_name,
            family="reduction",
            infer=_infer(_name, lambda d: np.intp, nonempty=True),
            impl=_function,
            numpy=(_function,),
            bind=_bind_arg,
            samples=_arg_samples,
            flops=one_per_input,
        )
    )
