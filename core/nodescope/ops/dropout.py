"""Dropout with a given mask; another op draws the mask from a key.

Srivastava et al., 2014; scaled while training, so that evaluation needs no change.

Invariant: linear in ``x``, and its own gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DomainError, DtypeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_output
from nodescope.ops.shapes import broadcast
from nodescope.ops.windows import floating, specs_of


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, mask = specs
    shape = broadcast("dropout", specs)
    dtype = floating("dropout", x)
    if not isinstance(mask, TensorSpec) or mask.dtype != "bool":
        raise DtypeError("dropout: the mask must be boolean: True where an element is kept")
    if not 0.0 <= attrs["p"] < 1.0:
        raise DomainError(
            f"dropout: p = {attrs['p']} is not in [0, 1)",
            hint="p is the fraction of elements that is dropped",
        )
    return TensorSpec(shape, dtype.name)


def _dropout(x: Array, mask: Array, p: float) -> Any:
    _infer(specs_of(x, mask), {"p": p})
    # A bfloat16 array times a Python number is float32.
    scaled = np.multiply(x, 1.0 / (1.0 - p)).astype(x.dtype, copy=False)
    # Selected, not multiplied: dropped elements are 0 even if they were not finite.
    return np.where(mask, scaled, x.dtype.type(0))


register(
    Op(
        name="dropout",
        family="random",
        infer=_infer,
        impl=_dropout,
        vjp=(lambda F, ct, out, x, mask, p: F.dropout(ct, mask, p=p), None),
        ports=("x", "mask"),
        samples=lambda rng: [
            Sample(
                (np.asarray(rng.standard_normal(shape)), np.asarray(rng.random(shape) > p)),
                {"p": p},
            )
            for shape, p in [((3, 4), 0.5), ((0, 2), 0.1), ((), 0.0)]
        ],
        flops=one_per_output,
        c="ns_where_{T}({1}, {0} * ({T})(1.0 / (1.0 - {p})), 0)",
    )
)
