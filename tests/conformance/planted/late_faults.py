"""Faults that appear late: only if a value is large, in one phase, with one shape, in one form.

A back end is replaced by one that is correct except for one op. The values decide whether the fault
takes effect, so a program chooses the step in which it does.

Invariant: a fault without effect changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.engine.codegen.backend import Runner
from nodescope.engine.codegen.numpy_backend import NumpyBackend
from nodescope.engine.crosscheck.values import every_value
from nodescope.ir.graph import GIVEN, Graph, Node
from nodescope.ops.control import constants_of
from nodescope.passes.pipeline import Lowered
from tests.conformance.planted import Patch

LARGE = 40.0


@dataclass(frozen=True)
class Biting:
    """A fault.

    Attributes:
        op: The op of the nodes whose first element is wrong wherever it is large.
        phase: The phase of those nodes; ``""`` for any.
        shape: The shape of their results; None for any.
        observed, unobserved: Whether the fault takes effect in that form.
    """

    op: str
    phase: str = ""
    shape: tuple[int, ...] | None = None
    observed: bool = True
    unobserved: bool = True

    def moved(self, node: Node, result: Any) -> Any:
        """The faulty back end's result for a node's result."""
        result = np.asarray(result)
        if not self._meant(node, result) or not result.size:
            return result
        wrong = np.array(result)
        if result.dtype.kind in "iufc" and np.max(np.abs(result)) > LARGE:
            wrong.flat[0] += 1
        return wrong

    def _meant(self, node: Node, result: Any) -> bool:
        return (
            node.op == self.op
            and (not self.phase or node.phase == self.phase)
            and (self.shape is None or result.shape == self.shape)
        )


def plant(patch: Patch, fault: Biting) -> None:
    """Plant it into the back end ``numpy``."""
    build = NumpyBackend.build
    patch.setattr(
        NumpyBackend, "build", lambda self, lowered: _Faulty(lowered, build(self, lowered), fault)
    )


class _Faulty:
    """A runner that is correct except for a fault."""

    def __init__(self, lowered: Lowered, runner: Runner, fault: Biting) -> None:
        self._lowered, self._runner, self._fault = lowered, runner, fault
        self.memory, self.source = runner.memory, runner.source
        nodes = [node for node in lowered.graph.nodes if node.op not in GIVEN]
        self._wrong = {node.id: self._kernel(node, runner.kernels[node.id]) for node in nodes}
        self.kernels = self._wrong if fault.observed else runner.kernels

    def _kernel(self, node: Node, right: Callable[..., Any]) -> Callable[..., Any]:
        fault = self._fault

        def kernel(*operands: Any) -> tuple[Any, ...]:
            if node.op == "fused" and any(n.op == fault.op for n in node.attrs["body"].nodes):
                return tuple(_fused(node.attrs["body"], operands, fault))
            return tuple(fault.moved(node, result) for result in right(*operands))

        return kernel

    def run(self, feeds: Sequence[Any]) -> list[Any]:
        if not self._fault.unobserved:
            return self._runner.run(feeds)
        graph = self._lowered.graph
        values: dict[int, Any] = dict(self._lowered.arrays)
        values.update(zip(graph.inputs, feeds, strict=True))
        for node in graph.nodes:
            if node.op not in GIVEN:
                results = self._wrong[node.id](*(values[value] for value in node.inputs))
                values.update(zip(node.outputs, results, strict=True))
        return [values[value] for value in graph.outputs]

    def run_timed(self, feeds: Sequence[Any], stamps: Any) -> list[Any]:
        return self.run(feeds)


def _fused(body: Graph, operands: Sequence[Any], fault: Biting) -> list[Any]:
    makers = {value: node for node in body.nodes for value in node.outputs}
    moved = every_value(
        body, constants_of(body), operands, lambda value, array: fault.moved(makers[value], array)
    )
    return moved[0]
