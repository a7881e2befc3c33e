"""Dropout in evaluation: the model is in training mode, and its predictions are random.

Predictions may be random on purpose: many of them for the same inputs, to estimate the model's
uncertainty, or in each step of training, as targets. Neither is reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import block_around, repeats
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count
from nodescope.debug.watch.rules.training_in_evaluation import data_given, evaluates
from nodescope.ir.graph import Node, SourceLocation


def _begin(settings: Settings) -> Look:
    least = settings["num_steps"]
    trained: set[int] = set()  # training steps
    evaluated: set[int] = set()
    often: dict[tuple[SourceLocation | None, ...], bool] = {}

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if graph.reaches_loss(node):
            trained.add(sight.step)
            return None
        if not evaluates(graph, node):
            return None
        evaluated.add(sight.step)
        if len(trained) < least:
            raise Inapplicable("no model with dropout is trained and then evaluated")
        place = node.source, *(leaf.source for leaf in data_given(graph, node))
        if place not in often:
            often[place] = _is_drawn_often(graph, node)
        if often[place] or 2 * len(evaluated) > len(trained):
            return None
        share = float(sight.attrs.get("p", 0.0))
        if not share:
            return None
        return Finding(
            f"evaluated in training mode: dropout randomly drops {share:.0%} of its input; call "
            "eval() on the model before evaluating, and train() before training resumes",
            {"p": share},
        )

    return look


def _is_drawn_often(graph: ProgramGraph, node: Node) -> bool:
    """Whether a loop passes the same data through a node many times.

    If the node's line is in the model's code, the loop is found around the line of its data.
    """
    tree, source = graph.tree(node.source), node.source
    if tree is not None and source is not None and repeats(tree, source.line):
        return True
    for leaf in data_given(graph, node):
        tree, source = graph.tree(leaf.source), leaf.source
        if tree is None or source is None:
            continue
        if any(repeats(tree, line) for line in block_around(tree, source.line, "no_grad")):
            return True
    return False


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    name = next((node.name for node in nodes if node.op == "dropout"), "")
    return f"{name} drops elements at random, which evaluation must not do" if name else ""


register(
    Rule(
        "dropout_in_evaluation",
        "dropout is active in evaluation: the model is in training mode",
        _begin,
        ("values",),
        ops=frozenset({"dropout"}),
        needs=frozenset({"history"}),
        parameters=(
            count("num_steps", 5, "training steps required before evaluation", unit="steps", low=1),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
    )
)
