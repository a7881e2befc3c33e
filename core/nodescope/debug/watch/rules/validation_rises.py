"""A validation loss that rises far above what it was, while the training loss keeps falling.

A model that fits its training data has a higher loss on other data, which is not a fault. Nor is a
rise after the best step, if training ends soon or the best weights are kept. It is a fault if what
was learned is lost again: the loss is higher than at first, and several times its best.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    number,
    text,
)
from nodescope.debug.watch.rules.losses import loss_of
from nodescope.ir.graph import Node

_LATEST: Final = 3
_TRAINED: Final = 0.5  # limit of the training loss, relative to that at the best validation loss


def _begin(settings: Settings) -> Look:
    factor, least, pattern = settings["factor_gt"], settings["validations"], settings["validation"]
    training = math.inf  # the lowest loss so far
    first = math.nan
    best = training_at_best = math.inf
    latest: deque[float] = deque(maxlen=_LATEST)
    seen = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal training, first, best, training_at_best, seen
        loss = loss_of(sight)
        if loss is None or sight.size != 1 or not math.isfinite(loss):
            raise Inapplicable("no loss is a single number")
        if not fnmatchcase(sight.node.name, pattern):
            training = min(training, loss)
            raise Inapplicable(f"needs validation losses ({pattern}), each after training losses")
        if math.isinf(training):
            raise Inapplicable(f"needs validation losses ({pattern}), each after training losses")
        seen += 1
        first = loss if math.isnan(first) else first
        latest.append(loss)
        if loss < best:
            best, training_at_best = loss, training
        if seen < least:
            raise needs_steps(least, seen)
        if best <= 0 or min(latest) <= max(factor * best, first):
            return None
        if training > _TRAINED * training_at_best:
            return None
        return Finding(
            f"the validation loss is {loss:.4g}: it was {first:.4g} at first and {best:.4g} at "
            f"best, and has risen since, while the training loss fell from {training_at_best:.4g} "
            f"to {training:.4g}: the model learns its training data by heart; stop earlier, or "
            "use more data, a smaller model or regularisation",
            {"factor_gt": loss / best},
        )

    return look


def _suits(nodes: Sequence[Node]) -> str:
    losses = [node.name for node in nodes if node.family == "loss" and node.phase == "forward"]
    both = len(losses) > 1 and any("val" in name for name in losses)
    return "it has training and validation losses" if both else ""


_RISES = [
    {"loss": 1.0, "val_loss": 1.0},
    {"loss": 0.8, "val_loss": 0.5},
    *[{"loss": 0.1, "val_loss": 1.0 + 0.1 * step} for step in range(1, 6)],
]

register(
    Rule(
        "validation_rises",
        "a validation loss rises above its first value, to several times its best",
        _begin,
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            number("factor_gt", 2.0, "hit above this multiple of its lowest value", low=1),
            count("validations", 6, "validation losses required", low=3),
            text("validation", "*val*", "names of the nodes that compute validation losses"),
        ),
        lasting=True,
        follows=(
            "evaluation_inputs",
            "training_in_evaluation",
            "dropout_in_evaluation",
            "average_from_zero",
            "rows_change",
            "data_overwritten",
        ),
        suits=_suits,
        examples=(
            Example(_RISES, (6, 7)),
            Example([*_RISES[:5], *_RISES[:2]], (), about="it falls again"),
            Example(
                [{"loss": 1.0, "val_loss": 1.0 + 0.1 * step} for step in range(20)],
                (),
                about="the training loss does not fall either",
            ),
        ),
    )
)
