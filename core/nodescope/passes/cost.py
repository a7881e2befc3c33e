"""Cost: flops and bytes of nodes and kernels, and their place under this machine's roofline.

The roofline (Williams et al., 2009): work with few operations per byte is bound by memory, the rest
by the processor. Speeds of this machine are measured once per process, when first needed.

Invariant: flops and bytes are functions of specs, never of values; no result of a graph depends on
these measurements.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Graph, Node, TensorSpec
from nodescope.ir.provenance import Bound
from nodescope.ops.calls import Scalar, call_of

VIEWS = frozenset({"reshape", "transpose", "broadcast_to", "squeeze", "expand_dims"})
"""Layout ops that usually move no data: their result is a view."""

# Size of the multiplied matrices, in elements: the largest that OpenBLAS multiplies on one thread.
# Several threads would have to wait for processors that are busy with other work.
_PRODUCT = 64
_COPIED = 4 << 20  # bytes copied: more than fits in the first caches
_TRIALS = 8


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one run of a node or kernel.

    Attributes:
        flops: Floating-point operations, estimated.
        read, written: Bytes in and out, without values that stay inside a kernel.
    """

    flops: int
    read: int
    written: int

    @property
    def moved(self) -> int:
        """Bytes in and out."""
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Flops per byte moved; 0 if nothing is computed."""
        return self.flops / self.moved if self.moved else math.inf if self.flops else 0.0


@dataclass(frozen=True, slots=True)
class Machine:
    """Speeds of one core.

    Attributes:
        flops: Float32 operations per second in a matrix product.
        bandwidth: Bytes per second, read and written together, of a copy.
    """

    flops: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """Flops per byte beyond which the processor is the bound, not memory."""
        return self.flops / self.bandwidth


@dataclass(frozen=True, slots=True)
class Roof:
    """The place of some work under the roofline.

    Attributes:
        bound: ``memory`` or ``compute``.
        attainable: Flops per second allowed by the roofline.
        least_s: Estimated lower bound in seconds.
    """

    bound: Bound
    attainable: float
    least_s: float


def nbytes(spec: TensorSpec) -> int:
    """Bytes of a value."""
    return math.prod(spec.shape) * itemsize(spec.dtype)


@functools.cache
def itemsize(dtype: str) -> int:
    """Bytes of an element."""
    size: int = as_dtype(dtype).itemsize
    return size


def node_work(node: Node, specs: Mapping[int, TensorSpec]) -> Work:
    """The work of a node, a kernel or a loop.

    A loop's flops are those of its body times its length; a branch's are those of its longest side;
    a ``while_loop`` counts once, since its length is unknown.

    Args:
        specs: Specs of the node's inputs and outputs, by value id.
    """
    if node.is_leaf:
        return Work(0, 0, 0)
    read = sum(nbytes(specs[value]) for value in dict.fromkeys(node.inputs))
    written = sum(nbytes(specs[value]) for value in node.outputs)
    if node.op in VIEWS:
        return Work(0, 0, 0)
    return Work(_flops(node, specs), read, written)


def graph_work(graph: Graph) -> Work:
    """The sum over a graph's nodes, each with its own traffic."""
    specs = {value.id: value.tensor for value in graph.values}
    works = [node_work(node, specs) for node in graph.nodes]
    return Work(
        sum(work.flops for work in works),
        sum(work.read for work in works),
        sum(work.written for work in works),
    )


def roof(work: Work, machine: Machine | None = None) -> Roof:
    """The place of work under the roofline.

    Args:
        machine: Speeds; those of this machine if None.
    """
    machine = machine or this_machine()
    compute, memory = work.flops / machine.flops, work.moved / machine.bandwidth
    least = max(compute, memory)
    attainable = min(machine.flops, work.intensity * machine.bandwidth)
    return Roof("compute" if compute > memory else "memory", attainable, least)


def _flops(node: Node, specs: Mapping[int, TensorSpec]) -> int:
    graphs = [value for value in node.attrs.values() if isinstance(value, Graph)]
    if graphs:
        each_run = [graph_work(graph).flops for graph in graphs]
        if node.op == "fused":
            return sum(each_run)
        return max(each_run) * int(node.attrs.get("length", 1))
    call = call_of(node)
    if not node.outputs:
        return 0
    operands = tuple(
        argument.value if isinstance(argument, Scalar) else specs[argument]
        for argument in call.args
    )
    return int(call.op.flops(operands, specs[node.outputs[0]], call.attrs))


# This machine


@functools.cache
def this_machine() -> Machine:
    """Speeds of this machine, measured once per process in a few milliseconds."""
    return measured()


def measured(clock: Callable[[], float] = time.perf_counter) -> Machine:
    """Measure speeds: the best of a few matrix products, and of a few copies.

    Args:
        clock: Returns seconds.
    """
    a = np.ones((_PRODUCT, _PRODUCT), np.float32)
    product = np.empty_like(a)
    source = np.ones(_COPIED // 4, np.float32)
    copied = np.empty_like(source)
    multiply = _best(lambda: np.matmul(a, a, out=product), clock)
    copy = _best(lambda: np.copyto(copied, source), clock)
    return Machine(2.0 * _PRODUCT**3 / multiply, 2.0 * _COPIED / copy)


def _best(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    times = []
    for _ in range(_TRIALS + 1):  # the first warms up
        start = clock()
        run()
        times.append(clock() - start)
    return max(min(times[1:]), 1e-9)
