"""Evaluation in training mode: batch norm uses the batch's own statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import fate, within
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, number
from nodescope.events import Array
from nodescope.ir.graph import Node

_SURE: Final = 3.0  # standard errors of a mean
_KEEP: Final = frozenset({"append", "extend", "print"})


class _Trained:
    """Means and variances of the channels, averaged over the batches of training."""

    def __init__(self) -> None:
        self.batches = 0
        self.mean: Array = np.zeros(0)
        self.variance: Array = np.zeros(0)

    def take(self, mean: Array, variance: Array) -> None:
        share = max(1 / (self.batches + 1), 0.1)  # as of the last ten batches or so
        if mean.shape != self.mean.shape:
            self.mean, self.variance = mean, variance
        self.mean = self.mean + share * (mean - self.mean)
        self.variance = self.variance + share * (variance - self.variance)
        self.batches += 1


def _begin(settings: Settings) -> Look:
    shift = settings["shift"]
    trained: dict[int, _Trained] = {}  # by value of the layer's weight

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        inputs = sight.inputs
        if not inputs:
            raise MissingData("the node has no inputs")
        if len(node.inputs) < 2:
            raise Inapplicable("batch norm has no weight to identify its layer by")
        if sight.value != node.outputs[0]:
            return None
        x = inputs[0].array
        if x.ndim < 2 or x.dtype.kind != "f" or not x.size:
            return None
        axes = (0, *range(2, x.ndim))
        with np.errstate(all="ignore"):
            mean, variance = x.mean(axis=axes, dtype=float), x.var(axis=axes, dtype=float)
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            return None
        weight = graph.held_in(node.inputs[1])
        if not evaluates(graph, node):
            trained.setdefault(weight, _Trained()).take(mean, variance)
            return None
        before = trained.get(weight)
        if before is None or graph.reaches_loss(node) or before.mean.shape != mean.shape:
            return None
        apart = np.abs(mean - before.mean) / np.sqrt(before.variance + 1e-12)
        away = math.sqrt(float(np.mean(np.minimum(apart, 10.0) ** 2)))
        rows = len(x)
        if not away > max(shift, _SURE / math.sqrt(rows)):
            return None
        return Finding(
            "evaluated in training mode: it normalises with the mean and variance of these "
            f"{rows} rows, whose mean is {away:.2g} standard deviations from that in training; "
            "call eval() on the model before evaluating, so that it uses its running statistics",
            {"shift": away, "rows": rows},
        )

    return look


def evaluates(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node runs without gradients, and its result is kept.

    What is dropped was run to renew the running statistics.
    """
    tree = graph.tree(node.source)
    if tree is None or node.source is None or not within(tree, node.source.line, "no_grad"):
        return False
    kept = fate(tree, node.source.line)
    return kept is None or kept.kind != "dropped" or kept.calls in _KEEP


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    name = next((node.name for node in nodes if node.op == "batch_norm"), "")
    return f"{name} uses the batch's statistics, which evaluation must not do" if name else ""


register(
    Rule(
        "training_in_evaluation",
        "batch norm uses the batch's own statistics in evaluation: the model is in training mode",
        _begin,
        ("values",),
        ops=frozenset({"batch_norm"}),
        needs=frozenset({"inputs", "values", "history"}),
        parameters=(
            number(
                "shift",
                0.5,
                "hit if the channel means are more than this many deviations away",
                low=0,
            ),
        ),
        explains=True,
        suits=_suits,
    )
)
