"""Kernels: finds the kernel of a back end, or the part of its plan, that computes wrong values.

Each kernel runs alone, as the back end's kernel and as a plan of this one node, on operands
computed by NumPy. If all kernels are right alone, the plan is at fault: the shortest prefix of it
that gives a wrong value ends with the kernel to report.

Invariant: only reads graphs, and runs them. Kernels of inexact back ends may differ within their
rounding bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from nodescope.engine.codegen.backend import Backend, Kernel, Runner
from nodescope.engine.crosscheck.bounds import outside, ranges
from nodescope.engine.crosscheck.values import every_value, quiet, same
from nodescope.ir.graph import GIVEN, Graph, Node
from nodescope.ops.control import constants_of
from nodescope.ops.plan import needed
from nodescope.passes.pipeline import Lowered

Values = Mapping[int, Any]


class WrongKernel(NamedTuple):
    """A wrong kernel, with one of its outputs, or the error that it raises.

    Attributes:
        alone: Whether it is wrong when it runs alone.
        member: The first of its fused nodes that is wrong alone; None if it is not fused, or if all
            are right.
        form: ``observed`` if only the kernel that an observed run calls is wrong, ``unobserved`` if
            only the plan of this one node is; ``""`` if both are.
    """

    node: Node
    alone: bool
    expected: Any = None
    actual: Any = None
    error: str = ""
    member: Node | None = None
    form: str = ""


def kernels_in_turn(
    lowered: Lowered, runner: Runner, feeds: Sequence[Any]
) -> tuple[list[Any], Values]:
    """The outputs of the graph run kernel by kernel, as in the observed run, and every value."""
    values: dict[int, Any] = dict(lowered.arrays)
    values.update(zip(lowered.graph.inputs, feeds, strict=True))
    for node in _computing(lowered.graph):
        with quiet():
            results = runner.kernels[node.id](*(values[value] for value in node.inputs))
        values.update(zip(node.outputs, results, strict=True))
    return [values[value] for value in lowered.graph.outputs], values


def wrong_alone(
    lowered: Lowered, backend: Backend, runner: Runner, values: Values
) -> WrongKernel | None:
    """The first kernel whose results differ from NumPy's on the same operands.

    Args:
        lowered: The graph that runs.
        backend: The back end that made the runner.
        runner: The runner of the graph.
        values: The kernels' operands, by value id.
    """
    for node in _computing(lowered.graph):
        operands = [values[value] for value in node.inputs]
        kernels = runner.kernels[node.id], _planned(lowered, backend, node)
        observed, planned = (
            _wrong(lowered.graph, node, operands, kernel, exact=backend.exact) for kernel in kernels
        )
        wrong = planned or observed
        if wrong is not None:
            both = observed is not None and planned is not None
            form = "" if both else "unobserved" if observed is None else "observed"
            member = _wrong_member(lowered, backend, node, operands)
            if member is not None and not wrong.error and not member.error:
                wrong = wrong._replace(expected=member.expected, actual=member.actual)
            return wrong._replace(member=member.node if member is not None else None, form=form)
    return None


def _wrong_member(
    lowered: Lowered, backend: Backend, kernel: Node, operands: Sequence[Any]
) -> WrongKernel | None:
    """The first node of a kernel's body that a plan of its own computes wrongly."""
    if kernel.op != "fused":
        return None
    body: Graph = kernel.attrs["body"]
    values = every_value(body, constants_of(body), operands)[1]
    for node in _computing(body):
        taken = [values[value] for value in node.inputs]
        try:
            planned = _planned(lowered, backend, node, body)
        except Exception:
            continue
        wrong = _wrong(body, node, taken, planned, exact=backend.exact)
        if wrong is not None:
            return wrong
    return None


def _wrong(
    graph: Graph, node: Node, operands: Sequence[Any], kernel: Kernel, *, exact: bool
) -> WrongKernel | None:
    """How a kernel differs from NumPy; None if it does not, or only within rounding bounds."""
    if node.op == "fused":
        body: Graph = node.attrs["body"]
        expected = every_value(body, constants_of(body), operands)[0]
    else:
        alone = _alone(graph, node)
        fed = dict(zip(node.inputs, operands, strict=True))
        expected = every_value(alone, {}, [fed[value] for value in alone.inputs])[0]
    try:
        with quiet():
            actual = kernel(*operands)
    except Exception as error:
        return WrongKernel(node, True, error=f"{type(error).__name__}: {error}")
    if len(actual) != len(expected):
        return WrongKernel(node, True, error=f"it gives {len(actual)} values, not {len(expected)}")
    wrong = [not same(now, then) for now, then in zip(actual, expected, strict=True)]
    if any(wrong) and not exact:
        rooms = ranges(node.attrs["body"] if node.op == "fused" else node, operands)
        wrong = [
            other and bool(outside(np.asarray(now), room))
            for other, now, room in zip(wrong, actual, rooms, strict=True)
        ]
    for other, now, then in zip(wrong, actual, expected, strict=True):
        if other:
            return WrongKernel(node, True, then, now)
    return None


def wrong_in_plan(
    lowered: Lowered, backend: Backend, feeds: Sequence[Any], values: Values
) -> WrongKernel | None:
    """The last kernel of the shortest prefix of the plan that gives a wrong value."""
    for node in _computing(lowered.graph):
        graph = msgspec.structs.replace(lowered.graph, outputs=node.outputs)
        kept = {node_.id for node_ in needed(graph, graph.outputs, graph.inputs)}
        nodes = tuple(n for n in graph.nodes if n.id in kept or n.is_leaf)
        shorter = _part(lowered, msgspec.structs.replace(graph, nodes=nodes), lowered.arrays)
        try:
            runner = backend.build(shorter)
            for _ in range(2):
                with quiet():
                    results = runner.run(list(feeds))
                for value, now in zip(node.outputs, results, strict=True):
                    if not same(now, np.asarray(values[value])):
                        return WrongKernel(node, False, values[value], now)
        except Exception as error:
            return WrongKernel(node, False, error=f"{type(error).__name__}: {error}")
    return None


def _planned(lowered: Lowered, backend: Backend, node: Node, within: Graph | None = None) -> Kernel:
    """A plan of one node as a kernel, run twice: back ends may observe the first run to make a
    plan.
    """
    graph = _alone(lowered.graph if within is None else within, node)
    runner = backend.build(_part(lowered, graph, {}))
    ports = [node.inputs.index(value) for value in graph.inputs]

    def kernel(*arrays: Any) -> tuple[Any, ...]:
        runner.run([arrays[port] for port in ports])
        return tuple(runner.run([arrays[port] for port in ports]))

    return kernel


def _part(lowered: Lowered, graph: Graph, arrays: Mapping[int, Any]) -> Lowered:
    """A part of a lowered graph, to be built."""
    return Lowered(graph, graph, arrays, (), lowered.options)


def _alone(graph: Graph, node: Node) -> Graph:
    """A graph of one node, whose operands are fed."""
    inputs = tuple(dict.fromkeys(node.inputs))
    used = {*inputs, *node.outputs}
    return Graph(
        id=graph.id, kind=graph.kind, inputs=inputs, outputs=node.outputs,
        nodes=(msgspec.structs.replace(node, control_inputs=()),),
        values=tuple(value for value in graph.values if value.id in used),
    )  # fmt: skip


def _computing(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op not in GIVEN)
