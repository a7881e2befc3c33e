"""The Euclidean norm along axes, which is the Frobenius norm along two.

Invariant: for a vector of zeros, where the norm has no derivative, the gradient is zero (the
subgradient of least norm, as in PyTorch), not NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DtypeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.matrices import conjugate
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_input
from nodescope.ops.rules import restore
from nodescope.ops.shapes import Axis, reduced


def _dtype(name: str) -> np.dtype[Any]:
    result_dtype = as_dtype(name)
    if result_dtype.kind == "V":
        raise DtypeError(f"vector_norm: not defined for {name}", hint="use .astype('float32')")
    return (
        np.dtype(np.float64) if result_dtype.kind in "biu" else np.zeros(0, result_dtype).real.dtype
    )


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    (x,) = specs
    assert isinstance(x, TensorSpec)
    shape = reduced("vector_norm", x.shape, attrs["axis"], attrs["keepdims"])
    return TensorSpec(shape, _dtype(x.dtype).name)


def _impl(x: Array, axis: Axis, keepdims: bool) -> Any:
    target = _dtype(x.dtype.name)
    if axis is None and not keepdims:
        return np.linalg.norm(x.ravel()).astype(target, copy=False)
    if isinstance(axis, int):
        return np.linalg.norm(x, axis=axis, keepdims=keepdims)
    if x.dtype.kind not in "fc":
        x = x.astype(np.float64)
    return np.sqrt(np.sum((x.conj() * x).real, axis=axis, keepdims=keepdims))


def _vjp(F: Any, ct: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    out = restore(F, out, x.shape, axis, keepdims)
    safe = F.where(F.equal(out, 0.0), np.ones((), out.dtype), out)
    share = F.divide(restore(F, ct, x.shape, axis, keepdims), safe)
    return F.multiply(share, conjugate(F, x))


_CASES: list[tuple[tuple[int, ...], Axis, bool]] = [
    ((3, 4), None, False), ((3, 4), 0, False), ((3, 4), -1, True), ((2, 3, 4), (0, 2), False),
    ((2, 3, 4), (-2, -1), True), ((1,), 0, False), ((2, 0), 1, False), ((), None, False),
    ((2, 3), None, True), ((2, 3), (), False),
]  # fmt: skip

register(
    Op(
        name="vector_norm",
        family="reduction",
        infer=_infer,
        impl=_impl,
        vjp=(_vjp,),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"axis": axis, "keepdims": keepdims})
            for shape, axis, keepdims in _CASES
        ],
        flops=one_per_input,
    )
)
