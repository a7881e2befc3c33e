"""Evaluation against targets with another scale than in training: one side was not scaled back.

The predictions have the scale of the training targets; the evaluation targets do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, ObservedContent, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps, number
from nodescope.debug.watch.target_comparisons import (
    becomes_loss,
    comparing,
    takes_two_forward,
)
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"subtract", "mse", "huber"})
_LEAST_ELEMENTS: Final = 8
_ALIKE: Final = 5.0  # factor within which predictions have the size of the training targets


class _Scale(NamedTuple):
    mean: float
    std: float
    size: float  # the root of the mean square


def _scale(content: ObservedContent) -> _Scale | None:
    summary = content.summary
    elements = math.prod(extent or 0 for extent in summary.spec.shape)
    if summary.norm is None or summary.mean is None or elements < _LEAST_ELEMENTS:
        return None
    if summary.nan_count or summary.inf_count:
        return None
    return _Scale(summary.mean, summary.std or 0.0, summary.norm / math.sqrt(elements))


def _begin(settings: Settings) -> Look:
    least, factor, shift = settings["num_steps"], settings["factor"], settings["shift"]
    trained: dict[int, _Scale] = {}  # by weight of the predictions: the last batch of targets
    lowest: dict[int, float] = {}
    highest: dict[int, float] = {}
    steps: dict[int, set[int]] = {}
    comparisons: dict[int, tuple[int, tuple[int, list[int]] | None]] = {}

    def compared(graph: ProgramGraph, node: Node) -> tuple[int, list[int]] | None:
        """The port with data, and the weights from which the other input is computed."""
        known = comparisons.get(node.id)
        if known is None or known[0] != graph.version:
            known = comparisons[node.id] = graph.version, _compared(graph, node)
        return known[1]

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        comparison = compared(graph, node)
        if comparison is None or len(sight.inputs) != 2:
            raise Inapplicable("no loss subtracts predictions and targets")
        target, weights = comparison
        scale = _scale(sight.inputs[target])
        if scale is None:
            return None
        if becomes_loss(graph, node):
            for weight in weights:
                trained[weight] = scale
                lowest[weight] = min(lowest.get(weight, math.inf), scale.size)
                highest[weight] = max(highest.get(weight, 0.0), scale.size)
                steps.setdefault(weight, set()).add(sight.step)
            return None
        known = [weight for weight in weights if weight in trained]
        if not known or len(known) < len(weights):
            return None  # some of the weights were not trained on such targets
        weight, made = known[0], _scale(sight.inputs[1 - target])
        if len(steps[weight]) < least:
            raise needs_steps(least, len(steps[weight]))
        before = trained[weight]
        if made is None or not lowest[weight] / _ALIKE < made.size < highest[weight] * _ALIKE:
            return None
        apart = abs(scale.mean - before.mean)
        unlike = not lowest[weight] / factor < scale.size < highest[weight] * factor
        if not unlike or (scale.size > before.size and apart <= shift * before.std):
            return None
        names = [maker.name if maker is not None else "a value"
                 for maker in map(graph.maker, node.inputs)]  # fmt: skip
        return Finding(
            f"evaluated against {names[target]} with mean {scale.mean:.3g} and standard deviation "
            f"{scale.std:.3g}; it was trained on targets with mean {before.mean:.3g} and standard "
            f"deviation {before.std:.3g}, and so are its predictions, {names[1 - target]} (mean "
            f"{made.mean:.3g}): scale the predictions back, or the targets as in training",
            {"size": scale.size, "trained_size": before.size},
        )

    return look


def _compared(graph: ProgramGraph, node: Node) -> tuple[int, list[int]] | None:
    for port in (1, 0) if len(node.inputs) == 2 else ():
        maker = graph.given(node.inputs[port])
        if maker is not None and maker.role == "input":
            weights = _weights(graph, node.inputs[1 - port])
            return (port, weights) if weights else None
    return None


def _weights(graph: ProgramGraph, value: int) -> list[int]:
    """The parameters that a value is computed from."""
    held = set()
    for node in graph.above(value):
        for made in graph.nodes[node].outputs[:1]:
            maker = graph.maker(graph.held_in(made))
            if maker is not None and maker.is_weight:
                held.add(maker.outputs[0])
    return sorted(held)


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(nodes, _OPS, "compares what may be predictions with their targets")


register(
    Rule(
        "evaluation_targets",
        "targets in evaluation differ greatly in scale from those in training",
        _begin,
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("num_steps", 10, "training steps required before evaluation", unit="steps",
                  low=1),
            number("factor", 20.0, "hit if the scales differ by more than this factor", low=1),
            number("shift", 8.0, "and the mean is more than this many deviations away", low=0),
        ),
        explains=True,
        suits=_suits,
        concerns=takes_two_forward,
    )
)  # fmt: skip
