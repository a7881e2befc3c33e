"""Gradient ends: where the path from the loss to a value is cut, or its gradient becomes zero.

Invariant: reads definitions and gradients of a recording, no elements.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Final, NamedTuple

from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.debug.watch.gradient_cuts import Cut, cut_of, explicit_cut, flat_cut, left_graph
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.why.target import Target, value_named
from nodescope.errors import ReplayError
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of
from nodescope.record.recording import Recording

_SUFFIX: Final = ".grad"


def gradient_end(recording: Recording, value: int) -> str:
    """Why a parameter is not trained: ``… its gradient ends at detach (train.py:12): …``.

    Returns ``""`` if no reason is known, or if the value is not a parameter.

    Args:
        value: The id of the parameter's value.
    """
    graph = _graph_of(recording)
    weight = graph.maker(graph.held_in(value))
    if weight is None or not weight.is_weight or not graph.losses:
        return ""
    if any(graph.held_in(known) == weight.outputs[0] for known in graph.gradients):
        cut = flat_cut(graph, weight)
        return f"{weight.name} is not trained: its gradient is 0 {_at(cut)}" if cut else ""
    end = _end(graph, weight)
    return f"{weight.name} is not trained: {end}" if end else ""


class Asked(NamedTuple):
    """The meaning of ``NAME.grad``.

    Attributes:
        target: The gradient as a target; the original target if it names no known gradient.
        lack: Why there is no gradient, or ``""``.
        flat: Where the gradient becomes zero, or ``""``.
    """

    target: Target
    lack: str = ""
    flat: str = ""


def gradient_asked(book: ExecutionIndex, target: Target) -> Asked:
    """The gradient that a target names."""
    names = book.values
    if not target.name.endswith(_SUFFIX) or target.name in names.values():
        return Asked(target)
    try:
        value = value_named(book, target.name.removesuffix(_SUFFIX))
    except ReplayError:
        return Asked(target)
    graph = _graph_of(book.recording)
    held = graph.held_in(value)
    gradients = [one for known, one in graph.gradients.items() if graph.held_in(known) == held]
    maker = graph.maker(held)
    if gradients and gradients[-1] in names:
        cut = flat_cut(graph, maker) if maker is not None else None
        flat = f"the gradient of {maker.name} is 0 {_at(cut)}" if maker and cut else ""
        return Asked(replace(target, name=names[gradients[-1]]), flat=flat)
    if maker is None:
        return Asked(target)
    return Asked(target, f"{maker.name} has no gradient: {_reason(graph, maker)}")


def _reason(graph: ProgramGraph, node: Node) -> str:
    if not graph.losses:
        return "no backward pass was recorded"
    end = _end(graph, node)
    if end:
        return end
    if graph.reaches_loss(node):
        leaves = graph.leaves(node.outputs[0])
        if not any(leaf.is_weight for leaf in leaves):
            return "it is computed from data alone, and gradients go to what parameters go into"
        return "a backward pass kept none for it"
    return "no loss is computed from it"


def _end(graph: ProgramGraph, node: Node) -> str:
    cut = cut_of(graph, node) or explicit_cut(graph, node) or left_graph(graph, node)
    if cut is None:
        return ""
    return f"its gradient ends {_at(cut)}"


def _at(cut: Cut) -> str:
    source = cut.node.source
    where = f" ({PurePath(source.file).name}:{cut.line})" if source is not None and cut.line else ""
    return f"at {cut.by}{where}: {cut.words}"


def _graph_of(recording: Recording) -> ProgramGraph:
    graph = ProgramGraph(lambda file: recording.source(file) or "")
    graph.tell(row.value for row in recording.values())
    for row in recording.nodes():
        graph.define(row.node)
    for pair in recording.gradients():
        maker = graph.maker(pair.gradient)
        begins = maker is not None and maker.phase == "backward" and (
            maker.is_leaf or "begins" in traits_of(maker.op).effects
        )  # fmt: skip
        graph.paired(pair.value, pair.gradient, begins=begins)
    return graph
