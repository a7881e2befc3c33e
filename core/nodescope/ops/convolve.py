"""The full convolution of two vectors, as in ``np.convolve``.

Invariant: linear in both, so each rule is a convolution again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Op, Operand, Rule, Sample
from nodescope.ops.shapes import promoted, shape_of


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    a, b = shape_of(specs[0]), shape_of(specs[1])
    if len(a) != 1 or len(b) != 1 or not a[0] or not b[0]:
        raise ShapeError(f"convolve: expected two non-empty vectors, got {a} and {b}")
    return TensorSpec((a[0] + b[0] - 1,), promoted(specs).name)


def _rule(port: int) -> Rule:
    def rule(F: Any, ct: Any, out: Any, *vectors: Any) -> Any:
        this, other = vectors[port], vectors[1 - port]
        back = F.convolve(ct, F.flip(other, axis=0))
        start = other.shape[0] - 1
        return F.getitem(back, index=(slice(start, start + this.shape[0]),))

    return rule


def _flops(specs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    return 2 * int(np.prod(shape_of(specs[0]) + shape_of(specs[1])))


register(
    Op(
        name="convolve",
        family="matmul",
        infer=_infer,
        impl=lambda a, v: np.convolve(a, v),
        vjp=(_rule(0), _rule(1)),
        ports=("a", "v"),
        samples=lambda rng: [
            Sample((rng.standard_normal(n), rng.standard_normal(m)))
            for n, m in [(5, 3), (1, 1), (2, 4)]
        ],
        flops=_flops,
    )
)
