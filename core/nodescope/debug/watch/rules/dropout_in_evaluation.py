"""Dropout in evaluation: the model is in training mode, and its predictions are random.

Predictions may be random on purpose: many for the same inputs, whose spread shows how certain the
model is, or in each step of training, as targets. Neither counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_source import repeats
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count
from nodescope.debug.watch.rules.training_in_evaluation import evaluates
from nodescope.ir.graph import Node


def _begin(settings: Settings) -> Look:
    least = settings["num_steps"]
    trained: set[int] = set()  # steps
    evaluated: set[int] = set()

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if graph.reaches_loss(node):
            trained.add(sight.step)
            return None
        if not evaluates(graph, node) or node.source is None:
            return None
        evaluated.add(sight.step)
        if len(trained) < least:
            raise Inapplicable("no model with dropout is trained and then evaluated")
        tree = graph.tree(node.source)
        drawn = tree is not None and repeats(tree, node.source.line)
        if drawn or 2 * len(evaluated) > len(trained):
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
