"""Updates so small for their weights that nothing is learned in the steps of the run."""

from __future__ import annotations

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
    number,
    percent,
)
from nodescope.debug.watch.suiting import trains_weights
from nodescope.ir.graph import Node

_LOSSES: Final = frozenset({"loss", "elementwise", "reduction", "kernel"})


def _begin(settings: Settings) -> Look:
    least, share, left_ge = settings["num_steps"], settings["share"], settings["left"] / 100
    progress = LossProgress()
    steps: dict[int, int] = {}
    moved: dict[int, float] = {}  # by value: the sum of all steps, relative to the weight

    def look(sight: Sight) -> Finding | None:
        node, value = sight.node, sight.value
        if node.phase != "optimizer":
            if value in sight.graph.losses:
                progress.take(sight)
            raise Inapplicable("no optimizer takes a step from a weight")
        if node.op != "subtract" or len(sight.inputs) != 2:
            raise Inapplicable("no optimizer takes a step from a weight")
        if not any(reader.writes for reader in sight.graph.readers(value)):
            raise Inapplicable("no optimizer takes a step from a weight")
        weight, step = (content.summary for content in sight.inputs)
        if not weight.norm or step.norm is None:
            return None
        steps[value] = steps.get(value, 0) + 1
        moved[value] = moved.get(value, 0.0) + step.norm / weight.norm
        if steps[value] < least:
            raise needs_steps(least, steps[value])
        left = progress.left
        if not 0 < moved[value] < share or left is None or left < left_ge:
            return None
        return Finding(
            f"all {steps[value]} updates together move the weight by no more than "
            f"{moved[value]:.2g} of its size, and {100 * left:.4g}% of the loss are left: the "
            "steps are too small; is the learning rate too low, or are gradients scaled down?",
            {"moved": moved[value], "left": 100 * left},
        )

    return look


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node may be a loss, or the step of an optimizer."""
    if node.phase == "optimizer":
        return node.op == "subtract"
    return node.phase == "forward" and node.family in _LOSSES


register(
    Rule(
        "steps_too_small",
        "all updates together hardly move a weight, and the losses do not fall",
        _begin,
        ("values", "losses"),
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("num_steps", 40, "steps to judge by", unit="steps", low=1),
            number("share", 1e-3, "of the size of a weight, that it moves by in all steps", low=0),
            percent("left", 97, "of the loss must be left"),
        ),
        lasting=True,
        explains=True,
        follows=("clip_too_small", "schedule_ends_early", "gradient_lost", "dead_layer"),
        suits=trains_weights("steps that are too small lead nowhere"),
        concerns=_concerns,
    )
)
