"""Detach: the same value without its history: no gradient passes through it.

It is a node, so that what is cut off can be seen, and where.

Invariant: the result is the array that was given, not a copy.
"""

from __future__ import annotations

from nodescope.ops import register
from nodescope.ops.op import Op, Sample

register(
    Op(
        name="detach",
        family="layout",
        infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
        impl=lambda x: x,
        samples=lambda rng: [Sample((rng.standard_normal(shape),)) for shape in ((2, 3), (0,), ())],
    )
)
