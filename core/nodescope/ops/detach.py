"""Detach: the same value without its history, so that no gradient passes through it.

It is a node, so that the graph shows where a gradient is cut off.

Invariant: the result is the input array itself, not a copy.
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
