"""Steps of an optimizer that are too large: they move a weight far, and the loss does not fall."""

from __future__ import annotations

from collections import deque

from nodescope.debug.watch import register
from nodescope.debug.watch.loss_progress import LossProgress
from nodescope.debug.watch.measures import change
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    percent,
)
from nodescope.debug.watch.suiting import trains_weights


def _begin(settings: Settings) -> Look:
    steps, least = settings["num_steps"], settings["moved"] / 100
    moves: dict[int, deque[float]] = {}
    progress = LossProgress()

    def look(sight: Sight) -> Finding | None:
        if "weights" not in sight.roles:
            progress.take(sight)
            raise Inapplicable("it trains no weights")
        if len(sight.spec.shape) < settings["min_axes"]:
            return None
        if sight.before is None:
            raise needs_steps(steps + 1, 1)
        moved = moves.setdefault(sight.value, deque(maxlen=steps))
        moved.append(change(sight, 0.0) or 0.0)  # there is no ratio if the weight was zero
        if len(moved) < steps:
            raise needs_steps(steps + 1, len(moved) + 1)
        if min(moved) < least:
            return None
        left = progress.left
        if left is None:
            raise Inapplicable("no loss shows whether it learns")
        if left < 1:
            return None
        return Finding(
            f"each of the last {steps} steps changed the weight by {100 * min(moved):.3g}% of "
            f"its mean magnitude or more, and the loss is {left:.3g} times its initial value: "
            "the learning rate is too high",
            {"moved": 100 * min(moved)},
        )

    return look


_LOSS = {"loss": "mse"}

register(
    Rule(
        "steps_too_large",
        "each step changes a weight by a large share of it, and the losses do not fall",
        _begin,
        ("weights", "losses"),
        needs=frozenset({"summary", "values", "previous_values", "history"}),
        parameters=(
            count("num_steps", 5, "number of consecutive steps", unit="steps", low=1),
            percent("moved", 10, "a larger share of its mean magnitude is a large step"),
            count("min_axes", 2, "weights with fewer axes (biases) are skipped"),
        ),
        lasting=True,
        diverges=True,
        suits=trains_weights("steps that are too large lead away from the minimum"),
        examples=(
            Example([{"w": [[(-2.0) ** step]], "loss": float(step + 1)} for step in range(8)],
                    (6, 7, 8), ops=_LOSS),
            Example([{"w": [[(-2.0) ** step]], "loss": 8.0 - step} for step in range(8)],
                    (), ops=_LOSS, about="the loss falls"),
            Example([[[1.0]], [[-3.0]], [[9.0]]], (), {"num_steps": 1},
                    about="no loss shows whether it learns"),
        ),
    )
)  # fmt: skip
