"""Transfer: nodes that compute nothing: renamed values, synchronisation points, transfers.

Invariant: values pass through unchanged to the bit.
"""

from __future__ import annotations

from typing import Any

from nodescope.errors import UsageError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.rules import same

register(
    Op(
        name="identity",
        family="layout",
        infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
        impl=lambda x: x,
        vjp=(same,),
        samples=lambda rng: [Sample((rng.standard_normal(shape),)) for shape in ((2, 3), (0,), ())],
    )
)
register(
    Op(
        name="no_op",
        family="control",
        infer=lambda specs, attrs: (),
        impl=lambda: (),
        outputs=0,
        ports=(),
    )
)
"""Computes nothing; nodes that wait for it wait for all nodes that it waits for."""


def _alone(*_: Array, **__: Any) -> Any:
    raise UsageError(
        "send and receive run only in a partition of a graph",
        hint="run the graph with a Session",
    )


def _received(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(attrs["shape"]), attrs["dtype"])


register(
    Op(
        name="send",
        family="control",
        infer=lambda specs, attrs: (),
        impl=_alone,
        outputs=0,
        variadic=True,
    )
)
"""Sends a value (or without input, the signal that a node has run) to another partition.

Attributes: ``key``, under which the value is received; ``to``, the partition.
"""
register(Op(name="receive", family="control", infer=_received, impl=_alone, ports=()))
"""A value from another partition. Attributes: ``key``, ``source`` (a partition), its spec."""
