"""Representations of two views that are only pulled together, so that all rows become the same.

Only a loss between two views is judged; labels or targets would keep the rows apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
    percent,
)
from nodescope.debug.watch.target_comparisons import becomes_loss, takes_two_forward
from nodescope.ir.graph import Node


def _begin(settings: Settings) -> Look:
    steps, rows, left_lt = settings["num_steps"], settings["rows"], settings["left"] / 100
    first = 0.0
    seen = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal first, seen
        shape = sight.spec.shape
        if len(shape) != 2 or (shape[0] or 0) < rows or not _views(sight.graph, sight.node):
            raise Inapplicable("no representations of two views are compared")
        seen += 1
        if seen > 1 and not becomes_loss(sight.graph, sight.node):
            return None
        codes = sight.inputs[0].array.astype(np.float64)
        spread = float(np.sqrt(np.mean((codes - codes.mean(axis=0)) ** 2)))
        first = first or spread
        if seen < steps:
            raise needs_steps(steps, seen)
        if not first or not spread < left_lt * first:
            return None
        maker = sight.graph.maker(sight.node.inputs[0])
        name = maker.name if maker is not None else "its codes"
        return Finding(
            f"the {shape[0]} rows of {name} have collapsed to one: they differ by {spread:.2g}, "
            f"where it was {first:.2g} at first. Pulling two views together is solved by a "
            "constant; add a term that keeps rows apart: contrasts, a variance term, or a "
            "predictor",
            {"spread": spread, "first": first},
        )

    return look


def _views(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node compares results of the same weights on different data."""
    sides = [graph.leaves(value) for value in node.inputs]
    weights = [{leaf.id for leaf in side if leaf.is_weight} for side in sides]
    data = [{leaf.id for leaf in side if leaf.role == "input"} for side in sides]
    return bool(weights[0] & weights[1]) and all(data) and data[0] != data[1]


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return takes_two_forward(node, graph)


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in ("subtract", "mse") and node.phase == "forward" and len(node.inputs) == 2:
            return f"{node.name} may pull two views together"
    return ""


register(
    Rule(
        "views_collapse",
        "representations of two views are pulled together until all rows are the same",
        per_value(_begin),
        ops=frozenset({"subtract", "mse"}),
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("num_steps", 20, "number of steps required", unit="steps", low=2),
            count("rows", 8, "representations with fewer rows are skipped", low=2),
            percent("left", 5, "hit below this share of the initial spread"),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
