"""Gradient ends: why a parameter never changes, or a value has no gradient: where the way from the
loss to it is cut.

Invariant: reads definitions and gradients of a recording, no elements.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Final

from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.debug.watch.gradient_cuts import cut_of, explicit_cut, left_graph
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.why.target import Target, value_named
from nodescope.errors import ReplayError
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of
from nodescope.record.recording import Recording

_SUFFIX: Final = ".grad"


def gradient_end(recording: Recording, value: int) -> str:
    """``gradient ends at detach (train.py:12): …``; ``""`` if it is trained, or not a parameter.

    Args:
        value: The id of the parameter's value.
    """
    graph = _graph_of(recording)
    weight = graph.maker(graph.held_in(value))
    if weight is None or not weight.is_weight or not graph.losses:
        return ""
    if any(graph.held_in(known) == weight.outputs[0] for known in graph.gradients):
        return ""
    end = _end(graph, weight)
    return f"{weight.name} is not trained: {end}" if end else ""


def gradient_asked(book: ExecutionIndex, target: Target) -> tuple[Target, str]:
    """What ``NAME.grad`` means: the value of that gradient; or why there is none.

    Returns the target itself if it names no gradient.
    """
    names = book.values
    if not target.name.endswith(_SUFFIX) or target.name in names.values():
        return target, ""
    try:
        value = value_named(book, target.name.removesuffix(_SUFFIX))
    except ReplayError:
        return target, ""
    graph = _graph_of(book.recording)
    held = graph.held_in(value)
    gradients = [one for known, one in graph.gradients.items() if graph.held_in(known) == held]
    if gradients and gradients[-1] in names:
        return replace(target, name=names[gradients[-1]]), ""
    maker = graph.maker(held)
    if maker is None:
        return target, ""
    return target, f"{maker.name} has no gradient: {_reason(graph, maker)}"


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
    source = cut.node.source
    where = f" ({PurePath(source.file).name}:{cut.line})" if source is not None and cut.line else ""
    return f"its gradient ends at {cut.by}{where}: {cut.words}"


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
