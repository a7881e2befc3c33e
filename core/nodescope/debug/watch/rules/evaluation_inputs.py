"""Evaluation on inputs with another scale than in training: they were preprocessed differently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import within
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, number
from nodescope.ir.graph import Node
from nodescope.record.summary import TensorSummary

_OPS: Final = frozenset({"matmul", "conv1d", "conv2d"})
_LEAST_ELEMENTS: Final = 16
# How close training inputs must be to mean 0 and deviation 1 to count as standardised; and the
# limits for other inputs' means, in deviations, and for the ratio of deviations.
_NEAR: Final = 0.05
_FAR: Final = 2.0
_WIDE: Final = 3.0


class _Seen:
    """The inputs that a weight had in training.

    Attributes:
        mean, std, scale: Mean, deviation and root mean square of the last batch.
        low, high: The smallest and the largest scale.
    """

    def __init__(self) -> None:
        self.mean = self.std = self.scale = self.high = 0.0
        self.low = math.inf
        self._count = 0
        self._sum = self._squares = 0.0

    def take(self, summary: TensorSummary, scale: float, count: int) -> None:
        self.mean, self.std, self.scale = summary.mean or 0.0, summary.std or 0.0, scale
        self.low, self.high = min(self.low, scale), max(self.high, scale)
        self._count += count
        self._sum += self.mean * count
        self._squares += scale * scale * count

    @property
    def standardised(self) -> bool:
        """Whether all inputs together have mean 0 and deviation 1, so they were standardised."""
        mean = self._sum / self._count
        return abs(mean) < _NEAR and abs(self._squares / self._count - mean * mean - 1.0) < _NEAR

    def unlike(self, summary: TensorSummary, scale: float, factor: float, shift: float) -> bool:
        """Whether other inputs differ in scale or mean."""
        mean, std = summary.mean or 0.0, summary.std or 0.0
        if self.standardised and (abs(mean) > _FAR or not 1 / _WIDE < std < _WIDE):
            return True
        apart = abs(mean - self.mean)
        return not self.low / factor < scale < self.high * factor or apart > shift * self.std


def _begin(settings: Settings) -> Look:
    factor, shift = settings["factor"], settings["shift"]
    trained: dict[int, _Seen] = {}  # by value id of the weight
    steps: dict[int, set[int]] = {}  # by node: steps in which no loss was computed from it

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if len(node.inputs) < 2:
            raise Inapplicable("no node applies a weight to data")
        weight = graph.held_in(node.inputs[1])
        inputs = sight.inputs
        if not inputs:
            raise MissingData("the node has no inputs")
        summary = inputs[0].summary
        count = math.prod(size or 0 for size in summary.spec.shape)
        if count < _LEAST_ELEMENTS or summary.norm is None or summary.mean is None:
            return None
        scale = summary.norm / math.sqrt(count)
        if graph.reaches_loss(node):
            trained.setdefault(weight, _Seen()).take(summary, scale, count)
            return None
        before = trained.get(weight)
        known = steps.setdefault(node.id, set())
        known.add(sight.step)
        if before is None or not before.low or not scale:
            return None
        if len(known) < 2 and not _without_gradient(graph, node):
            return None  # its backward pass may still follow
        if not before.unlike(summary, scale, factor, shift):
            return None
        source = graph.given(node.inputs[0])
        return Finding(
            f"evaluated on {source.name if source else 'inputs'} with mean {summary.mean:.3g} "
            f"and standard deviation {summary.std or 0.0:.3g}; it was trained on inputs with "
            f"mean {before.mean:.3g} and standard deviation {before.std:.3g}: preprocess both in "
            "the same way (for example with the mean and deviation of the training data)",
            {"scale": scale, "trained_scale": before.scale},
        )

    return look


def _without_gradient(graph: ProgramGraph, node: Node) -> bool:
    tree = graph.tree(node.source)
    return (
        tree is not None and node.source is not None and within(tree, node.source.line, "no_grad")
    )


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node applies a weight to data."""
    if len(node.inputs) < 2 or node.phase != "forward":
        return False
    given, weight = graph.given(node.inputs[0]), graph.maker(graph.held_in(node.inputs[1]))
    return (
        given is not None
        and given.role == "input"
        and weight is not None
        and weight.role == "parameter"
    )


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    name = next((node.name for node in nodes if node.role == "input"), "")
    return f"{name} is its data, which evaluation must preprocess as training does" if name else ""


register(
    Rule(
        "evaluation_inputs",
        "inputs in evaluation differ greatly in scale from those in training",
        _begin,
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            number("factor", 20.0, "hit if the scales differ by more than this factor", low=1),
            number("shift", 8.0, "hit if the mean is more than this many deviations away", low=0),
        ),
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
