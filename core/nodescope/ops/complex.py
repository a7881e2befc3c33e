"""Parts of complex numbers.

Invariant: cotangents are carried unconjugated (``dL = Re(ct * dz)``), so this file contains every
rule for which a real formula would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Rule, Sample, one_per_output
from nodescope.ops.shapes import dtype_of, shape_of


def _samples(rng: np.random.Generator) -> list[Sample]:
    def both(*shape: int) -> Array:
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))

    return [Sample((both(3, 4),)), Sample((rng.standard_normal((2, 1)),)), Sample((both(0, 2),))]


def _dtype(operand: Operand) -> np.dtype[Any]:
    dtype = dtype_of(operand)
    return dtype if isinstance(dtype, np.dtype) else np.result_type(dtype(0))


def _part_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    dtype = _dtype(specs[0])
    return TensorSpec(shape_of(specs[0]), np.empty(0, dtype).real.dtype.name)


def _register(name: str, impl: Callable[..., Any], rule: Rule, infer: Any, numpy: Any) -> None:
    register(
        Op(
            name=name,
            family="elementwise",
            infer=infer,
            impl=impl,
            vjp=(rule,),
            numpy=(numpy,),
            bind=lambda val: ((val,), {}),
            samples=_samples,
            flops=one_per_output,
        )
    )


def _imag_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    return F.multiply(ct, -1j) if x.dtype.kind == "c" else F.zeros_like(x)


# Views where NumPy returns views, so that writes to them count as writes to the operand.
_register(
    "real",
    lambda x: np.asarray(np.real(x)),
    lambda F, ct, out, x: F.astype(ct, dtype=x.dtype.name),
    _part_infer,
    np.real,
)
_register("imag", lambda x: np.asarray(np.imag(x)), _imag_vjp, _part_infer, np.imag)


def _conjugate_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    dtype = np.conjugate.resolve_dtypes((_dtype(specs[0]), None))[-1]
    return TensorSpec(shape_of(specs[0]), dtype.name)


register(
    Op(
        name="conjugate",
        family="elementwise",
        infer=_conjugate_infer,
        impl=np.conjugate,
        vjp=(lambda F, ct, out, x: F.conjugate(ct),),
        numpy=(np.conjugate,),
        samples=_samples,
        flops=one_per_output,
    )
)
