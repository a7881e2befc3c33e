"""Weight decay that outweighs learning: it removes much of a weight in each step.

The graph shows the decay: an optimizer multiplies the weight by a number just below one, or adds a
share of it to its gradient. A weight that loses 5% in each step keeps little of what it learned 20
steps before. It is a fault only if the losses do not fall.
"""

from __future__ import annotations

from collections import Counter
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
    percent,
)
from nodescope.debug.watch.suiting import trains_weights
from nodescope.ir.graph import Node

_LONGEST_PATH: Final = 6


def _begin(settings: Settings) -> Look:
    steps, limit = settings["num_steps"], settings["share"] / 100
    least = settings["loss_fell"] / 100
    seen: Counter[int] = Counter()  # by weight: number of consecutive steps
    latest: dict[int, int] = {}
    progress = LossProgress()

    def look(sight: Sight) -> Finding | None:
        if "weights" not in sight.roles:
            progress.take(sight)
            raise Inapplicable("it trains no weights")
        value = sight.value
        share = _share(sight.graph, value)
        if share < limit:
            seen[value] = 0
            return None
        seen[value] += latest.get(value) != sight.step
        latest[value] = sight.step
        if seen[value] < steps:
            raise needs_steps(steps, seen[value])
        left = progress.left
        if left is None:
            raise Inapplicable("no loss shows whether it learns")
        if left < 1 - least:
            return None
        return Finding(
            f"weight decay removed {100 * share:.3g}% of the weight in each of {seen[value]} "
            f"steps, more than training restores, and the loss is {left:.3g} times its initial "
            "value; decrease the weight decay",
            {"share": 100 * share},
        )

    return look


def _share(graph: ProgramGraph, value: int) -> float:
    """The share of a weight that decay removes in each step; 0 if the graph shows no decay."""
    held = graph.held_in(value)
    for reader in graph.readers(held):
        factor = _factor(reader)
        if reader.phase == "optimizer" and factor is not None:
            return _taken(graph, reader, factor, held)
    return 0.0


def _taken(graph: ProgramGraph, node: Node, factor: float, held: int) -> float:
    """The share of the weight that an update removes, following sums and factors."""
    for _ in range(_LONGEST_PATH):
        value = node.outputs[0]
        for reader in graph.readers(value):
            if reader.op == "subtract" and reader.phase == "optimizer":
                if reader.inputs[0] == value:  # the update is subtracted from the decayed weight
                    return 1 - factor if _writes_to(graph, reader, held) else 0.0
                first = graph.held_in(reader.inputs[0])
                return factor if first == held and _writes_to(graph, reader, held) else 0.0
        following = next(
            (reader for reader in graph.readers(value) if reader.op in ("add", "multiply")), None
        )
        if following is None:
            return 0.0
        if following.op == "multiply":
            scale = _factor(following)
            if scale is None:
                return 0.0
            factor *= scale
        node = following
    return 0.0


def _factor(node: Node) -> float | None:
    """The nonnegative number by which a node multiplies; None for other nodes."""
    number = node.attrs.get("x2", node.attrs.get("x1"))
    if node.op != "multiply" or len(node.inputs) != 1:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number) if number >= 0 else None


def _writes_to(graph: ProgramGraph, node: Node, held: int) -> bool:
    return any(
        reader.writes and graph.held_in(reader.outputs[0]) == held
        for reader in graph.readers(node.outputs[0])
    )


register(
    Rule(
        "decay_too_large",
        "weight decay removes much of a weight in each step, and the losses do not fall",
        _begin,
        ("weights", "losses"),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 20, "number of consecutive steps", unit="steps", low=1),
            percent("share", 5, "share of the weight removed in one step"),
            percent("loss_fell", 10, "not reported if a loss fell by this much"),
        ),
        lasting=True,
        suits=trains_weights("a decay that outweighs the gradients undoes what is learned"),
    )
)
