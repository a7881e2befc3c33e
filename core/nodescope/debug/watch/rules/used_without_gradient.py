"""A weight of an optimizer that is used under ``no_grad`` only, so that it never changes.

A part may be frozen that way on purpose, while the optimizer is given all weights for convenience.
Then the trained part suffices, and the loss falls.
"""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.gradient_cuts import Cut, has_idle_weights, shut_off
from nodescope.debug.watch.loss_progress import LossProgress
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps, percent


def _begin(settings: Settings) -> Look:
    least, fell = settings["num_steps"], settings["loss_fell"] / 100
    progress = LossProgress()
    cuts: dict[int, tuple[int, Cut | None]] = {}
    seen: dict[int, set[int]] = {}

    def cut_of(graph: ProgramGraph, value: int) -> Cut | None:
        known = cuts.get(value)
        if known is None or known[0] != graph.version:
            known = cuts[value] = graph.version, shut_off(graph, value)
        return known[1]

    def look(sight: Sight) -> Finding | None:
        if "weights" not in sight.roles:
            progress.take(sight)
            raise Inapplicable("all weights that the optimizer is given have a gradient")
        value = sight.value
        cut = cut_of(sight.graph, value)
        if cut is None or sight.gradient is not None:
            raise Inapplicable("all weights that the optimizer is given have a gradient")
        steps = seen.setdefault(value, set())
        steps.add(sight.step)
        if len(steps) < least:
            raise needs_steps(least, len(steps))
        left = progress.left
        if left is None or left < 1 - fell:
            return None
        return Finding(
            f"the optimizer is given {sight.node.name}, which gets no gradient and never changes: "
            f"{cut.words}; the loss has fallen by only {100 * max(1 - left, 0):.3g}%",
            {"loss_fell": 100 * (1 - left)},
        )

    return look


register(
    Rule(
        "used_without_gradient",
        "a weight that an optimizer is given is used under no_grad only, and the loss hardly falls",
        _begin,
        ("weights", "losses"),
        needs=frozenset({"gradient", "history"}),
        parameters=(
            count("num_steps", 30, "number of steps required", unit="steps", low=1),
            percent("loss_fell", 50, "no hit if a loss fell by this much"),
        ),
        lasting=True,
        explains=True,
        suits=has_idle_weights,
    )
)
