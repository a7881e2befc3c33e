"""Running sums, products and extremes along an axis.

Invariant: gradients are exact and differentiable even where elements are 0; no rule divides by an
element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DtypeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Infer, Op, Operand, Sample, one_per_input
from nodescope.ops.rules import backwards, last
from nodescope.ops.shapes import axes, tensor_spec


def _bind(
    a: Any, axis: int | None = None, dtype: None = None, out: None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if dtype is not None or out is not None:
        raise TypeError("the arguments dtype and out are not traced: use .astype on the operand")
    return (a,), {"axis": None if axis is None else int(axis)}


def _infer(name: str, ufunc: np.ufunc) -> Infer:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        x = tensor_spec(specs[0])
        axis = attrs["axis"]
        if axis is not None:
            axes(name, (axis,), max(len(x.shape), 1))
        input_dtype = np.dtype(x.dtype)
        try:
            # Small integers are summed in the platform's word, as in NumPy.
            dtype = ufunc.accumulate(np.ones(1, input_dtype)).dtype
        except TypeError:
            raise DtypeError(f"{name}: not defined for {input_dtype}") from None
        size = (int(np.prod(x.shape, dtype=np.int64)),)
        return TensorSpec(size if axis is None or not x.shape else x.shape, dtype.name)

    return infer


def _scan(name: str, ufunc: np.ufunc, rule: Any, numpy: tuple[Any, ...], *, smooth: bool) -> None:
    def impl(x: Any, axis: int | None) -> Any:
        if axis is None or not np.ndim(x):
            axes(name, (0 if axis is None else axis,), 1)
            x, axis = np.ravel(x), 0
        return ufunc.accumulate(x, axis=axis)

    def vjp(F: Any, ct: Any, out: Any, x: Any, axis: int | None) -> Any:
        """Along the last axis, whatever ``axis`` was."""
        if axis is None or not x.ndim:
            flat = (int(np.prod(x.shape, dtype=np.int64)),)
            return F.reshape(rule(F, ct, out, F.reshape(x, shape=flat)), shape=x.shape)
        order = list(range(x.ndim))
        order[axis], order[-1] = order[-1], order[axis]  # its own inverse
        if axis % x.ndim == x.ndim - 1:
            return rule(F, ct, out, x)
        swapped = (F.transpose(array, axes=tuple(order)) for array in (ct, out, x))
        return F.transpose(rule(F, *swapped), axes=tuple(order))

    register(
        Op(
            name=name,
            family="reduction",
            infer=_infer(name, ufunc),
            impl=impl,
            vjp=(vjp,),
            numpy=numpy,
            bind=_bind,
            samples=_samples,
            smooth=smooth,
            flops=one_per_input,
        )
    )


def _samples(rng: np.random.Generator) -> list[Sample]:
    zeros = rng.standard_normal((2, 5))
    zeros[0, 2] = zeros[1, 1] = zeros[1, 3] = 0.0
    cases = [((3, 4), 0), ((3, 4), -1), ((2, 3), None), ((), None), ((0, 3), 1), ((3, 0), 1)]
    drawn = [Sample((rng.permuted(np.arange(float(np.prod(shape))) + 0.5).reshape(shape) / 5,),
                    {"axis": axis}) for shape, axis in cases]  # fmt: skip
    return [
        *drawn,
        Sample((rng.standard_normal((2, 1, 7)),), {"axis": 2}),
        Sample((zeros,), {"axis": 1}),
    ]


def _sum_behind(F: Any, x: Any) -> Any:
    return backwards(F, lambda F, y: F.cumsum(y, axis=-1), x)


def _cumprod_rule(F: Any, ct: Any, out: Any, x: Any) -> Any:
    """Products before an element, times the cotangents arriving from after it.

    The latter are s[i] = ct[i] + x[i+1] s[i+1], solved by doubling steps: after k of them, s[i]
    contains the terms of the next 2**k elements and a[i] the product that continues them.
    """
    size = x.shape[-1]
    if size < 2:
        return F.multiply(ct, F.ones_like(x))
    first = F.ones_like(F.getitem(x, index=last(None, 1)))
    before = F.concatenate(first, F.getitem(out, index=last(None, -1)), axis=-1)
    none = F.zeros_like(first)
    a = F.concatenate(F.getitem(x, index=last(1, None)), none, axis=-1)
    s = ct
    step = 1
    while step < size:
        ends = F.zeros_like(F.getitem(x, index=last(None, step)))
        ahead_s = F.concatenate(F.getitem(s, index=last(step, None)), ends, axis=-1)
        s = F.add(s, F.multiply(a, ahead_s))
        ahead_a = F.concatenate(F.getitem(a, index=last(step, None)), ends, axis=-1)
        a = F.multiply(a, ahead_a)
        step *= 2
    return F.multiply(before, s)


def _extreme_rule(beyond: str) -> Any:
    def rule(F: Any, ct: Any, out: Any, x: Any) -> Any:
        # Each output comes from the latest element that determined it; NaN stays where it arose.
        numbers = np.broadcast_to(np.arange(x.shape[-1]), x.shape)
        reached = F.logical_not(getattr(F, beyond)(x, out))
        places = F.cummax(F.where(reached, numbers, 0), axis=-1)
        return F.add_along_axis(ct, places, axis=-1, shape=x.shape)

    return rule


_scan("cumsum", np.add, lambda F, ct, out, x: _sum_behind(F, ct), (np.cumsum,), smooth=True)
_scan("cumprod", np.multiply, _cumprod_rule, (np.cumprod,), smooth=True)
_scan("cummax", np.maximum, _extreme_rule("less"), (), smooth=False)
_scan("cummin", np.minimum, _extreme_rule("greater"), (), smooth=False)
