"""A signal that fades from layer to layer until almost nothing is left: weights are too small."""

from __future__ import annotations

import math
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
    sizes: dict[int, tuple[Node, float]] = {}  # by id of an activation: node, root mean square
    faded: dict[int, int] = {}
    progress = LossProgress()

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if node.family != "activation":
            if sight.value in graph.losses:
                progress.take(sight)
            raise Inapplicable("no layer follows another")
        summary = sight.summary
        if summary.norm is None or not sight.size or summary.nan_count or summary.inf_count:
            return None
        size = summary.norm / math.sqrt(sight.size)
        sizes[node.id] = node, size
        first = _first(graph, node, sizes)
        if first is None or len(sight.spec.shape) < 2:
            raise Inapplicable("no layer follows another")
        fades = 0 < size < factor * first[1]
        faded[node.id] = faded.get(node.id, 0) + 1 if fades else 0
        if faded[node.id] < steps:
            raise needs_steps(steps, faded[node.id])
        left = progress.left
        if left is None or left < left_ge or not graph.reaches_loss(node):
            return None
        return Finding(
            f"the signal has faded, from {first[1]:.3g} after {first[0].name} to {size:.3g} "
            f"here, in each of {faded[node.id]} steps, and {100 * left:.3g}% of the loss is "
            "left: the weights in between are too small; initialise them with a deviation of 1 "
            "/ sqrt(inputs) or more",
            {"first": first[1], "here": size},
        )

    return look


def _first(
    graph: ProgramGraph, node: Node, sizes: dict[int, tuple[Node, float]]
) -> tuple[Node, float] | None:
    """The first activation above a node, and its size; None if there is none."""
    above = graph.above(node.outputs[0]) - {node.id}
    magnitudes = [sizes[number] for number in sorted(above) if number in sizes]
    return magnitudes[0] if magnitudes else None


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is an activation, or may be a loss."""
    return node.phase == "forward" and (node.family == "activation" or node.family in _LOSSES)


register(
    Rule(
        "signal_fades",
        "the signal fades to almost nothing from layer to layer, and the loss hardly falls",
        _begin,
        ("activations", "losses"),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 20, "number of consecutive steps", unit="steps", low=1),
            number(
                "factor",
                0.01,
                "hit below this share of the size after the first layer",
                low=0,
                high=1,
            ),
            percent("left", 95, "hit if at least this share of the loss is left"),
        ),
        lasting=True,
        explains=True,
        suits=trains_weights("nothing is learned from a signal that fades from layer to layer"),
        concerns=_concerns,
    )
)
