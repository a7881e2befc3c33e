"""Cost: about how long a node will run, from its op's flops and the bytes that it moves.

The constants are measured on one core of a server CPU of the 2020s (bench/execution.py prints what
they give beside what is measured). They only decide where running nodes at the same time pays; no
result depends on them.

Invariant: a function of specs, never of values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from nodescope.engine.plan import Call, Scalar
from nodescope.ir.graph import TensorSpec

CALL_NS = 1_500.0
"""A call of an impl on next to nothing."""

NS_PER_FLOP = {
    "matmul": 0.05, "elementwise": 0.3, "activation": 4.0, "reduction": 0.4, "norm": 2.0,
    "loss": 4.0, "random": 6.0,
}  # fmt: skip
NS_PER_BYTE = 0.12
SLOW = {
    "exp": 4.0, "log": 4.0, "tanh": 6.0, "sin": 8.0, "cos": 8.0, "power": 15.0, "erf": 12.0,
    "logaddexp": 20.0, "arctan": 8.0, "sinh": 12.0, "cosh": 12.0, "tan": 10.0, "expm1": 8.0,
    "log1p": 8.0, "sqrt": 1.0, "divide": 0.6, "sort": 30.0, "argsort": 60.0,
}  # fmt: skip
"""Nanoseconds per element of ops that compute long on each."""

SIDE_BY_SIDE = frozenset(
    {"elementwise", "activation", "reduction", "norm", "layout", "index", "random", "loss"}
)
"""Families whose impls use one core. All others (products of matrices above all) may use every core
by themselves, through BLAS, and so run alone."""


def alone(call: Call) -> bool:
    """Whether a call should have the cores for itself."""
    return call.op.family not in SIDE_BY_SIDE


def nanoseconds(call: Call, specs: Mapping[int, TensorSpec]) -> float:
    """The estimate for one call."""
    inputs = tuple(each.value if isinstance(each, Scalar) else specs[each] for each in call.args)
    outputs = [specs[each] for each in call.node.outputs]
    if not outputs:
        return CALL_NS
    elements = sum(math.prod(each.shape) for each in outputs)
    moved = sum(_bytes(each) for each in (*inputs, *outputs) if isinstance(each, TensorSpec))
    per = SLOW.get(call.node.op)
    if per is not None:
        work = per * elements
    else:
        flops = call.op.flops(inputs, outputs[0])
        work = flops * NS_PER_FLOP.get(call.op.family, 1.0)
    return CALL_NS + max(work, moved * NS_PER_BYTE if call.op.family != "layout" else 0.0)


def _bytes(spec: TensorSpec) -> int:
    size = 2 if spec.dtype == "bfloat16" else np.dtype(spec.dtype).itemsize
    return math.prod(spec.shape) * size
