"""Training in evaluation mode: batch norm uses outdated running statistics, or dropout is off,
because ``eval()`` was called and ``train()`` was not called again.

A batch norm may be frozen on purpose; its statistics were collected before and then roughly match
its inputs. Dropout may be switched off towards the end of training on purpose.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import call_lines, in_rounds
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
from nodescope.events import Array
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"batch_norm", "batch_norm_eval", "dropout"})
_FEWEST: Final = 8  # least number of rows for a meaningful mean
_SHARE: Final = 0.5  # least share of steps in which statistics are outdated
_WIDE: Final = 4.0  # ratio of deviations above which statistics do not fit


class _Layer:
    """A batch norm: which statistics it used in which training steps."""

    def __init__(self) -> None:
        self.own: set[int] = set()  # steps that used the statistics of the batch
        self.kept: set[int] = set()  # steps that used running statistics
        self.off: set[int] = set()  # those of ``kept`` in which they were outdated


def _begin(settings: Settings) -> Look:
    least, shift, share = settings["num_steps"], settings["shift"], settings["share"] / 100
    layers: dict[int, _Layer] = {}  # by value id of the layer's weight
    dropped: set[int] = set()  # training steps with dropout
    trained: set[int] = set()

    def look(sight: Sight) -> Finding | None:
        if "losses" in sight.roles:
            trained.add(sight.step)
        node, graph = sight.node, sight.graph
        if node.op == "dropout" and graph.reaches_loss(node):
            dropped.add(sight.step)
        if node.op == "batch_norm_eval":
            return batch_norm(sight)
        if node.op == "batch_norm" and len(node.inputs) > 1 and graph.reaches_loss(node):
            layer = layers.setdefault(graph.held_in(node.inputs[1]), _Layer())
            layer.own.add(sight.step)
        if "losses" in sight.roles and dropped:
            return dropout(sight)
        raise Inapplicable("no layer of the model is other in evaluation than in training")

    def dropout(sight: Sight) -> Finding | None:
        last = max(dropped)
        without = sum(step > last for step in trained)
        if without < max(least, share * len(trained)):
            return None
        line = _stays_in_evaluation(sight.graph, sight.node)
        if not line:
            return None
        return Finding(
            f"trained in evaluation mode: dropout was active until step {last}, and has been off "
            f"in the {without} steps since; eval() is called in line {line}, and nothing calls "
            "train() after it: call train() before training resumes",
            {"steps": without},
        )

    def batch_norm(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if len(node.inputs) < 4 or not graph.reaches_loss(node):
            return None
        inputs = sight.inputs
        if len(inputs) < 3:
            raise MissingData("the node has no inputs")
        x, mean, variance = (content.array for content in inputs[:3])
        layer = layers.setdefault(graph.held_in(node.inputs[3]), _Layer())
        layer.kept.add(sight.step)
        off = _apart(x, mean, variance)
        if off > shift:
            layer.off.add(sight.step)
        if len(layer.kept) < least:
            raise needs_steps(least, len(layer.kept))
        if layer.own and not layer.kept.isdisjoint(dropped):
            return None  # only the norm is in evaluation mode, so it is frozen on purpose
        if off <= shift or len(layer.off) < _SHARE * len(layer.kept):
            return None
        if len(layer.kept) < share * (len(layer.own) + len(layer.kept)):
            return None
        line = _last_eval(graph, node)
        calls = f"eval() is called in line {line}: " if line else ""
        since = (
            f"were last renewed in step {max(layer.own)}"
            if layer.own
            else "are those that it was made with" if _is_initial(mean, variance)
            else "were never renewed"
        )  # fmt: skip
        return Finding(
            "trained in evaluation mode: it normalises with running statistics, which "
            f"{since}, and its inputs are {off:.3g} standard deviations away from them; "
            f"{calls}call train() on the model before training resumes",
            {"shift": off},
        )

    return look


def _apart(x: Array, mean: Array, variance: Array) -> float:
    """The distance of a batch's channels from running statistics, in their deviations; 0 if the
    batch is too small.
    """
    if x.ndim < 2 or x.dtype.kind != "f" or x[:, 0].size < _FEWEST:
        return 0.0
    axes = (0, *range(2, x.ndim))
    with np.errstate(all="ignore"):
        of_batch, wide = x.mean(axis=axes, dtype=float), x.var(axis=axes, dtype=float)
        std = np.sqrt(np.asarray(variance, float) + 1e-12)
        away = np.abs(of_batch - mean) / std
        ratio = np.sqrt(wide + 1e-12) / std
    if not (np.isfinite(away).all() and np.isfinite(ratio).all()):
        return 0.0
    means = math.sqrt(float(np.mean(np.minimum(away, 1e6) ** 2)))
    typical = float(np.median(ratio))
    return max(means, typical if typical > _WIDE else 0.0)


def _is_initial(mean: Array, variance: Array) -> bool:
    return not np.any(mean) and bool(np.all(np.asarray(variance) == 1))


def _trees(graph: ProgramGraph, node: Node) -> list[ast.Module]:
    """The syntax trees of a node's source and its data's; one contains the training loop."""
    places = [node, *(leaf for leaf in graph.leaves(node.outputs[0]) if leaf.role == "input")]
    trees = {id(tree): tree for tree in (graph.tree(place.source) for place in places) if tree}
    return list(trees.values())


def _last_eval(graph: ProgramGraph, node: Node) -> int:
    lines = [line for tree in _trees(graph, node) for line in call_lines(tree, "eval")]
    return max(lines, default=0)


def _stays_in_evaluation(graph: ProgramGraph, node: Node) -> int:
    """The line that calls ``eval()``, if no loop or function calls ``train()``; else 0."""
    trees = _trees(graph, node)
    for tree in trees:
        if any(in_rounds(tree, line) for line in call_lines(tree, "train")):
            return 0
    return max((line for tree in trees for line in call_lines(tree, "eval")), default=0)


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in _OPS:
            return f"{node.name} must be in training mode while the model is trained"
    return ""


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.op in _OPS or node.outputs[0] in graph.losses


register(
    Rule(
        "evaluation_in_training",
        "a model is trained in evaluation mode: batch norm uses old statistics, or dropout is off",
        _begin,
        ("values", "losses"),
        needs=frozenset({"inputs", "values", "history"}),
        parameters=(
            count("num_steps", 10, "steps of training in evaluation mode", unit="steps", low=1),
            number("shift", 1.0, "hit if statistics are more deviations than this off", low=0),
            percent("share", 50, "the share of the training that is in evaluation mode"),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
