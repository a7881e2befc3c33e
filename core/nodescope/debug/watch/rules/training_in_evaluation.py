"""Evaluation in training mode: batch norm uses the batch's own statistics."""

from __future__ import annotations

import ast
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

_SURE: Final = 3.0  # least distance of means, in standard errors
_KEEP: Final = frozenset({"append", "extend", "print"})
# Up to _FEW elements per channel say nothing about a variance, if training has _TIMES as many.
_FEW: Final = 4
_TIMES: Final = 4


class _Trained:
    """Means and variances of the channels, averaged over the batches of training."""

    def __init__(self) -> None:
        self.batches = self.rows = 0
        self.mean: Array = np.zeros(0)
        self.variance: Array = np.zeros(0)

    def take(self, mean: Array, variance: Array, rows: int) -> None:
        share = max(1 / (self.batches + 1), 0.1)  # an average over about the last ten batches
        if mean.shape != self.mean.shape:
            self.mean, self.variance = mean, variance
        self.mean = self.mean + share * (mean - self.mean)
        self.variance = self.variance + share * (variance - self.variance)
        self.batches += 1
        self.rows = max(self.rows, rows)


def _begin(settings: Settings) -> Look:
    shift = settings["shift"]
    trained: dict[int, _Trained] = {}  # by value id of the layer's weight

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
        if graph.reaches_loss(node) or not evaluates(graph, node):
            trained.setdefault(weight, _Trained()).take(mean, variance, x[:, 0].size)
            return None
        before = trained.get(weight)
        if before is None or before.mean.shape != mean.shape:
            return None
        apart = np.abs(mean - before.mean) / np.sqrt(before.variance + 1e-12)
        away = math.sqrt(float(np.mean(np.minimum(apart, 10.0) ** 2)))
        rows, averaged = len(x), x[:, 0].size
        few = averaged <= _FEW and averaged * _TIMES <= before.rows
        if not few and not away > max(shift, _SURE / math.sqrt(rows)):
            return None
        than = (
            f"instead of {before.rows} as in training"
            if few
            else f"whose mean is {away:.2g} standard deviations from that in training"
        )
        return Finding(
            f"evaluated in training mode: it normalises with the mean and variance of these "
            f"{rows} row{'s'[: rows > 1]}, {than}; call eval() on the model before evaluating, so "
            "that it uses its running statistics",
            {"shift": away, "rows": rows},
        )

    return look


def evaluates(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node runs under ``no_grad``, and its result is kept.

    A node's line may be in the model's own code, so the lines of its data count as well. If the
    result is dropped, the program only renews running statistics.
    """
    return any(map(_is_kept_aside, *_places(graph, node)))


def data_given(graph: ProgramGraph, node: Node) -> list[Node]:
    """The input data from which a node is computed."""
    return [leaf for leaf in graph.leaves(node.outputs[0]) if leaf.role == "input"]


def _places(graph: ProgramGraph, node: Node) -> tuple[list[ast.Module | None], list[int]]:
    """The lines of a node and of its data, with the syntax trees of their files."""
    places = [node, *data_given(graph, node)]
    sources = [place.source for place in places if place.source is not None]
    return [graph.tree(source) for source in sources], [source.line for source in sources]


def _is_kept_aside(tree: ast.Module | None, line: int) -> bool:
    """Whether a line is in a ``no_grad`` block, and its result is not dropped."""
    if tree is None or not within(tree, line, "no_grad"):
        return False
    kept = fate(tree, line)
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
