"""Two optimizers that move one weight in opposite directions, because both hold it.

In adversarial training, for example, the discriminator's optimizer may also hold the generator's
weights, and undo in each step what the generator's own optimizer does. Two losses with an optimizer
each may share weights on purpose; then the steps are not opposed all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
    number,
    percent,
)
from nodescope.events import Array
from nodescope.ir.graph import Node

_WRITES: Final = frozenset({"assign", "assign_add", "assign_sub"})
_MOST_ELEMENTS: Final = 1 << 16


class _Weight:
    """A weight, and its changes by two optimizers."""

    def __init__(self) -> None:
        self.step = 0
        self.lines: list[int] = []
        self.nodes: set[int] = set()  # that update it
        self.change: Array | None = None  # the change by the first optimizer in this step
        self.both = self.against = 0
        self.sum = 0.0


def _begin(settings: Settings) -> Look:
    least, below, share = settings["num_steps"], settings["cosine_lt"], settings["share"] / 100
    weights: dict[int, _Weight] = {}

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if not sight.inputs or node.source is None:
            raise Inapplicable("no optimizer's updates are known")
        held = graph.held_in(node.outputs[0])
        weight = weights.setdefault(held, _Weight())
        if weight.step != sight.step:
            weight.step, weight.change, weight.lines = sight.step, None, []
        weight.nodes.add(node.id)
        if len(weight.nodes) == 1:
            raise Inapplicable("no weight has two optimizers")
        change = _change(sight)
        if change is None:
            return None
        weight.lines.append(node.source.line)
        if weight.change is None:
            weight.change = change
            raise Inapplicable("no weight has two optimizers")
        if len(weight.lines) != 2 or weight.lines[0] == weight.lines[1]:
            return None
        cosine = _cosine(weight.change, change)
        weight.both += 1
        weight.sum += cosine
        weight.against += cosine < 0
        if weight.both < least:
            raise needs_steps(least, weight.both)
        mean = weight.sum / weight.both
        if mean > below or weight.against < share * weight.both:
            return None
        maker = graph.maker(held)
        name = maker.name if maker is not None else "the weight"
        return Finding(
            f"two optimizers update {name}, in opposite directions: by the step in line "
            f"{weight.lines[0]} and by that in line {weight.lines[1]}, which undo each other (the "
            f"mean cosine of both changes is {mean:.2g}, over {weight.both} steps); give it to "
            "one of them only",
            {"cosine": mean},
        )

    return look


def _change(sight: Sight) -> Array | None:
    new, old = sight.array_or_none, sight.inputs[0].array_or_none
    if new is None or old is None or new.shape != old.shape or new.dtype.kind != "f":
        return None
    flat = new.reshape(-1)[:_MOST_ELEMENTS].astype(np.float64)
    change: Array = flat - old.reshape(-1)[:_MOST_ELEMENTS].astype(np.float64)
    return change if np.isfinite(change).all() else None


def _cosine(one: Array, other: Array) -> float:
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / size if size else 0.0


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "optimizer" and bool(node.writes)


def _suits(nodes: Sequence[Node]) -> str:
    seen: dict[str, int] = {}
    for node in nodes:
        if node.phase != "optimizer" or not node.writes or node.source is None:
            continue
        line = seen.setdefault(node.scope, node.source.line)
        if line != node.source.line and node.op in _WRITES:
            return f"{node.scope.removeprefix('optimizer/')} is updated in two lines"
    return ""


register(
    Rule(
        "optimizers_opposed",
        "two optimizers update a weight in opposite directions, and undo each other's steps",
        _begin,
        ops=_WRITES,
        needs=frozenset({"values", "inputs", "history"}),
        parameters=(
            count("num_steps", 20, "steps with both updates", unit="steps", low=1),
            number("cosine_lt", -0.6, "hit if the mean cosine of the changes is below this"),
            percent("share", 90, "the share of steps in which they are opposed"),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
