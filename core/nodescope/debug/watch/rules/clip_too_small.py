"""Gradients that are clipped to almost nothing in every step, so that hardly anything is learned.

For an optimizer that divides by the gradients' size, the clip has no effect: the loss falls, and
nothing is reported.
"""

from __future__ import annotations

from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.loss_progress import LossProgress
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    number,
    percent,
)
from nodescope.debug.watch.suiting import trains_weights
from nodescope.ir.graph import Node

_LOSSES: Final = frozenset({"loss", "elementwise", "reduction", "kernel"})


def _begin(settings: Settings) -> Look:
    steps, factor, left_ge = settings["num_steps"], settings["factor"], settings["left"] / 100
    progress = LossProgress()
    small: dict[int, int] = {}

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if sight.size != 1:
            raise Inapplicable("gradients are not clipped by their norm")
        if node.op != "minimum":
            if sight.value in graph.losses:
                progress.take(sight)
            raise Inapplicable("gradients are not clipped by their norm")
        if not _scales_gradients(graph, node):
            raise Inapplicable("gradients are not clipped by their norm")
        scale = sight.summary.mean
        held = scale is not None and 0 < scale < factor
        small[sight.value] = small.get(sight.value, 0) + 1 if held else 0
        if small[sight.value] < steps:
            raise needs_steps(steps, small[sight.value])
        left = progress.left
        if scale is None or left is None or left < left_ge:
            return None
        return Finding(
            f"gradients are clipped to {scale:.2g} of their norm, and to less than {factor:g} in "
            f"each of the last {small[sight.value]} steps; {100 * left:.3g}% of the loss is "
            "left: clip at a norm that gradients seldom reach",
            {"scale": scale, "left": 100 * left},
        )

    return look


def _scales_gradients(graph: ProgramGraph, node: Node) -> bool:
    """Whether gradients are multiplied by a node's result, perhaps after conversions."""
    todo = list(node.outputs)
    while todo:
        for reader in graph.readers(todo.pop()):
            if reader.op == "astype":
                todo += reader.outputs
            elif reader.op == "multiply" and not graph.slopes.isdisjoint(reader.inputs):
                return True
    return False


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node may be a loss, or the scale of gradients."""
    return node.op == "minimum" or (node.phase == "forward" and node.family in _LOSSES)


register(
    Rule(
        "clip_too_small",
        "gradients are clipped to almost nothing in every step, and the loss hardly falls",
        _begin,
        ("values", "losses"),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 20, "number of consecutive steps", unit="steps", low=1),
            number(
                "factor", 0.01, "share of the gradients' norm that counts as almost nothing", low=0
            ),
            percent("left", 30, "hit if at least this share of the loss is left at the end"),
        ),
        lasting=True,
        explains=True,
        suits=trains_weights("gradients may be clipped to almost nothing"),
        concerns=_concerns,
    )
)
