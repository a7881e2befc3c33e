"""Updates: an optimizer's changes to a parameter.

Invariant: nothing is written in place; a parameter gets a new array, so that references to the old
array keep the old numbers.
"""

from __future__ import annotations

from typing import Any

from nodescope.errors import ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample


def _assign(old: Array, new: Array) -> Array:
    # Usually `new` itself: a fresh array of the right dtype needs no copy.
    return new.astype(old.dtype, copy=False)


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    old, new = specs
    assert isinstance(old, TensorSpec)
    assert isinstance(new, TensorSpec)
    if old.shape != new.shape:
        raise ShapeError(
            f"assign: a parameter of shape {old.shape} cannot be assigned shape {new.shape}",
            hint="reshape the value, or make a new parameter",
        )
    return old


register(
    Op(
        name="assign",
        family="update",
        infer=_infer,
        impl=_assign,
        ports=("old", "new"),
        samples=lambda rng: [Sample((rng.standard_normal((3, 4)), rng.standard_normal((3, 4))))],
        c="{1}",
    )
)
