"""Cost: estimates how long a node runs, from its op's flops and the bytes that it moves.

The constants are CPU times measured on one core of a server CPU (AMD EPYC, 2026, NumPy 2.4, arrays
of 200,000 elements); bench/execution.py prints the estimates beside measurements. They only decide
whether running nodes in parallel is tried, and how graphs are partitioned; no result depends on
them.

Invariant: a function of specs, never of values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nodescope.ir.graph import TensorSpec
from nodescope.ops.calls import Call, Scalar
from nodescope.passes.cost import nbytes

CALL_NS = 1_000.0
"""Time of a call of an impl on a tiny array."""

NS_PER_FLOP = {"matmul": 0.02, "elementwise": 0.2, "reduction": 0.3}
NS_PER_BYTE = 0.06
PER_ELEMENT = {
    "sqrt": (0.4, 1.4), "exp": (1.3, 5.0), "exp2": (1.3, 5.0), "log": (1.7, 4.1),
    "sin": (1.6, 17.0), "cos": (1.6, 14.0), "tan": (15.0, 20.0), "tanh": (2.6, 13.0),
    "power": (5.8, 13.0), "arctan": (8.0, 9.5), "sinh": (18.0, 17.0), "cosh": (6.2, 6.5),
    "expm1": (11.0, 9.6), "log1p": (11.0, 11.0), "logaddexp": (2.2, 1.9), "erf": (10.0, 26.0),
    "gelu": (12.0, 40.0), "sigmoid": (3.0, 18.0), "silu": (3.5, 19.0), "softmax": (2.4, 12.0),
    "log_softmax": (2.3, 6.8), "sort": (20.0, 20.0), "argsort": (40.0, 40.0),
}  # fmt: skip
"""Nanoseconds per element for ops with much work per element: for dtypes of up to four bytes, and
larger ones.
"""
OTHER = {"activation": 3.0, "norm": 3.0, "loss": 3.0, "random": 6.0}
"""Nanoseconds per element of the other ops of these families."""

SIDE_BY_SIDE = frozenset(
    {"elementwise", "activation", "reduction", "norm", "layout", "index", "random", "loss"}
)
"""Families whose impls use one core. All others (above all matrix products) may use every core
through BLAS, and so run alone.
"""


def alone(call: Call) -> bool:
    """Whether a call should have the cores for itself."""
    return call.op.family not in SIDE_BY_SIDE


def nanoseconds(call: Call, specs: Mapping[int, TensorSpec]) -> float:
    """The estimate for one call."""
    inputs = tuple(
        argument.value if isinstance(argument, Scalar) else specs[argument]
        for argument in call.args
    )
    outputs = [specs[value] for value in call.node.outputs]
    if not outputs:
        return CALL_NS
    elements = max(math.prod(spec.shape) for spec in (*outputs, *_specs(inputs)))
    per = PER_ELEMENT.get(call.node.op)
    if per is not None:
        return CALL_NS + per[np.dtype(outputs[0].dtype).itemsize > 4] * elements
    if call.op.family in OTHER:
        return CALL_NS + OTHER[call.op.family] * elements
    moved = sum(map(nbytes, (*outputs, *_specs(inputs))))
    flops = call.op.flops(inputs, outputs[0], call.attrs)
    work = flops * NS_PER_FLOP.get(call.op.family, 1.0)
    return CALL_NS + max(work, moved * NS_PER_BYTE if call.op.family != "layout" else 0.0)


def _specs(inputs: tuple[Any, ...]) -> list[TensorSpec]:
    return [operand for operand in inputs if isinstance(operand, TensorSpec)]
