"""Gradient ends: why a parameter never changes: where the way from the loss to it is cut.

Invariant: reads definitions and gradients of a recording, no elements.
"""

from __future__ import annotations

from pathlib import PurePath

from nodescope.debug.watch.gradient_cuts import cut_of
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.ops.traits import traits_of
from nodescope.record.recording import Recording


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
    cut = cut_of(graph, weight)
    if cut is None:
        return ""
    source = cut.node.source
    where = f" ({PurePath(source.file).name}:{cut.line})" if source is not None and cut.line else ""
    return f"{weight.name} is not trained: its gradient ends at {cut.by}{where}: {cut.words}"


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
