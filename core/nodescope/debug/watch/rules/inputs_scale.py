"""Inputs far larger or smaller than 1, from which a network learns nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from nodescope.ir.graph import Node

_LOSSES: Final = frozenset({"loss", "elementwise", "reduction", "kernel"})
_LAYERS: Final = frozenset({"matmul", "conv1d", "conv2d"})


def _begin(settings: Settings) -> Look:
    steps, low, high = settings["num_steps"], settings["low"], settings["high"]
    left_ge = settings["left"] / 100
    odd: dict[int, int] = {}
    progress = LossProgress()

    def look(sight: Sight) -> Finding | None:
        node, graph, summary = sight.node, sight.graph, sight.summary
        if not node.is_leaf:
            if sight.value in graph.losses:
                progress.take(sight)
            raise Inapplicable("no inputs go into a layer")
        if summary.norm is None or not sight.size or summary.nan_count or summary.inf_count:
            return None
        if len(sight.spec.shape) < 2 or not sight.spec.dtype.startswith("float"):
            raise Inapplicable("no inputs go into a layer")
        size = summary.norm / math.sqrt(sight.size)
        odd[sight.value] = odd.get(sight.value, 0) + 1 if not low <= size <= high and size else 0
        if odd[sight.value] < steps:
            raise needs_steps(steps, odd[sight.value])
        left = progress.left
        if left is None or left < left_ge or not _is_given(graph, sight.value):
            return None
        small = size < low
        return Finding(
            f"it is {size:.3g} in root mean square, and {100 * left:.3g}% of the loss is left: "
            f"inputs this {'small' if small else 'large'} hardly {'move' if small else 'let'} a "
            f"network{'' if small else ' learn'}; scale them to about "
            f"1{', once' if small else ''}",
            {"size": size, "left": 100 * left},
        )

    return look


def _is_given(graph: ProgramGraph, value: int) -> bool:
    """Whether data reaches a layer unchanged, except for layout ops."""
    todo, seen = [value], {value}
    while todo:
        for reader in graph.readers(todo.pop()):
            if reader.phase != "forward":
                continue
            if reader.op in _LAYERS:
                return graph.reaches_loss(reader)
            if reader.family == "layout" and reader.outputs and reader.outputs[0] not in seen:
                seen.add(reader.outputs[0])
                todo.append(reader.outputs[0])
    return False


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is input data, or may be a loss."""
    if node.phase != "forward":
        return False
    return node.role == "input" or (not node.is_leaf and node.family in _LOSSES)


def _suits(nodes: Sequence[Node]) -> str:
    trains = any(node.phase == "backward" for node in nodes)
    layers = any(node.op in _LAYERS for node in nodes)
    given = any(node.role == "input" for node in nodes)
    return (
        "it has layers, whose inputs should be of size 1 or so"
        if trains and layers and given
        else ""
    )


register(
    Rule(
        "inputs_scale",
        "inputs are far from 1 in size, and the loss hardly falls",
        _begin,
        ("inputs", "losses"),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 30, "number of consecutive steps", unit="steps", low=1),
            number("low", 0.02, "inputs below this size are small", low=0),
            number("high", 50.0, "inputs above this size are large", low=0),
            percent("left", 90, "hit if at least this share of the loss is left"),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
