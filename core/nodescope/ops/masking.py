"""Masking: keeps elements where a condition holds, with 0 elsewhere; the gradient of selections.

``np.where`` branches on every element, which costs ten times as much on masks that look random;
here the bits of dropped elements are cleared instead, so that infinities and NaN vanish as well.

Invariant: equal to ``np.where(condition, x, 0)`` to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, one_per_output
from nodescope.ops.shapes import broadcast

WORDS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def kept(x: Array, condition: Array, out: Array | None = None) -> Array:
    """``x`` where the condition holds, else 0; both of the same shape, floating point."""
    word = WORDS.get(x.dtype.itemsize)
    if word is None or x.dtype.kind not in "fV" or not x.ndim:
        values = np.where(condition, x, x.dtype.type(0))
        if out is None:
            return values
        out[...] = values
        return out
    bits = condition.astype(word)
    np.negative(bits, out=bits)  # 1 becomes all ones
    into = bits if out is None else out.view(word)
    np.bitwise_and(x.view(word), bits, out=into)
    return into.view(x.dtype)


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = specs[0]
    dtype = x.dtype if isinstance(x, TensorSpec) else np.asarray(x).dtype.name
    return TensorSpec(broadcast("keep", specs), dtype)


def _keep(x: Any, condition: Any) -> Any:
    x, condition = np.asarray(x), np.asarray(condition)
    if condition.dtype != bool:
        condition = condition.astype(bool)
    if x.shape == condition.shape:
        return kept(x, condition)
    return np.where(condition, x, np.zeros((), x.dtype))


register(
    Op(
        name="keep",
        family="elementwise",
        infer=_infer,
        impl=_keep,
        vjp=(lambda F, ct, out, x, condition: F.keep(ct, condition), None),
        ports=("x", "condition"),
        elementwise=True,
        flops=one_per_output,
        c="ns_keep_{T}({0}, {1})",
    )
)
