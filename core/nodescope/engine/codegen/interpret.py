"""The back end ``plain``: runs node after node with NumPy, as eager execution does.

Other back ends are compared with it, and the back end ``numpy`` falls back on it.

Invariant: runs the ops' impls in the graph's order, on their own memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.engine.codegen.backend import Kernel, backend
from nodescope.ir.graph import GIVEN
from nodescope.ir.provenance import MemoryReport
from nodescope.ops.calls import Call, Scalar, call_of
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan
from nodescope.passes.pipeline import Lowered


class PlainRunner:
    """A plan of the lowered graph; see `nodescope.engine.codegen.backend.Runner`."""

    source = ""
    memory: MemoryReport | None = None

    def __init__(self, lowered: Lowered) -> None:
        self._plan = Plan(lowered.graph, dict(lowered.arrays))
        self.kernels: Mapping[int, Kernel] = kernels_of(lowered)
        self._at = {node: i for i, node in enumerate(self.kernels)}  # some nodes are unused

    def run(self, feeds: Sequence[Any]) -> list[Array]:
        """See `Runner.run`."""
        return self._plan.run(feeds)

    def run_timed(self, feeds: Sequence[Any], stamps: Array) -> list[Array]:
        """See `Runner.run_timed`."""
        values: dict[int, Any] = dict(self._plan.constants)
        values.update(zip(self._plan.fed, feeds, strict=True))
        clock = time.perf_counter_ns
        stamps[:] = clock()
        for call in self._plan.calls:
            i = self._at[call.node.id]
            operands = [values[argument] for argument in call.args if isinstance(argument, int)]
            stamps[2 * i] = clock()
            results = self.kernels[call.node.id](*operands)
            stamps[2 * i + 1] = clock()
            values.update(zip(call.node.outputs, results, strict=True))
            for dropped in call.drop:
                del values[dropped]
        return [values[value] for value in self._plan.outputs]


def kernels_of(lowered: Lowered) -> dict[int, Kernel]:
    """Each node of a graph as a separate kernel, by id."""
    nodes = (node for node in lowered.graph.nodes if node.op not in GIVEN)
    return {node.id: kernel_of(call_of(node)) for node in nodes}


def kernel_of(call: Call) -> Kernel:
    """A single node, run by its impl."""
    impl, attrs = call.op.impl, call.attrs
    scalars = [argument.value if isinstance(argument, Scalar) else None for argument in call.args]
    ports = [i for i, argument in enumerate(call.args) if isinstance(argument, int)]
    plain = len(ports) == len(scalars)

    def kernel(*inputs: Any) -> tuple[Array, ...]:
        operands: Sequence[Any] = inputs
        if not plain:
            operands = list(scalars)
            for port, operand in zip(ports, inputs, strict=True):
                operands[port] = operand
        data = impl(*operands, **attrs)
        if data.__class__ is tuple:
            return tuple(map(np.asarray, data))
        return (np.asarray(data),)

    return kernel


class PlainBackend:
    """See `nodescope.engine.codegen.backend.Backend`."""

    name = "plain"
    exact = True

    def missing(self) -> str:
        """Always ``""``: NumPy is available."""
        return ""

    def build(self, lowered: Lowered) -> PlainRunner:
        """See `Backend.build`."""
        return PlainRunner(lowered)


PLAIN = backend(PlainBackend())
