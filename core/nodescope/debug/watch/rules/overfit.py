"""SageMaker's Overfit and Overtraining: validation losses compared with training losses."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase

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
    per_value,
    text,
)
from nodescope.debug.watch.rules.losses import broken, loss_of

_VALIDATION = text("validation", "*val*", "names of the nodes that compute validation losses")


def _kind(sight: Sight, settings: Settings) -> tuple[bool, float]:
    """Whether it is a validation loss, and the loss. Raises `Inapplicable` if it is no number."""
    loss = loss_of(sight)
    if loss is None or sight.size != 1:
        raise Inapplicable("no loss is a single number")
    return fnmatchcase(sight.node.name, settings["validation"]), loss


def _named(settings: Settings) -> tuple[str, ...]:
    # A name without wildcards selects that node, whatever its role.
    name = settings["validation"]
    return () if any(char in name for char in "*?[") or not name else (f"node:{name}",)


def _overfit(settings: Settings) -> Look:
    limit, patience, start = (
        settings["ratio_threshold"], settings["patience"], settings["start_step"],
    )  # fmt: skip
    total, training_count, beyond, validations = 0.0, 0, 0, 0
    missing = f"needs validation losses ({settings['validation']}), each after training losses"

    def look(sight: Sight) -> Finding | None:
        nonlocal total, training_count, beyond, validations
        validation, loss = _kind(sight, settings)
        if sight.step < start:
            raise Inapplicable(f"starts at step {start}")
        failed = broken(sight)
        if failed is not None:
            return failed
        if not validation:
            total, training_count = total + loss, training_count + 1
            raise Inapplicable(missing)
        if not training_count:
            raise Inapplicable(missing)
        validations += 1
        training = total / training_count
        total, training_count = 0.0, 0
        ratio = (loss - training) / abs(training) if training else math.inf
        beyond = beyond + 1 if loss > training and ratio > limit else 0
        if validations < patience:
            raise Inapplicable(f"needs {patience} validation losses, had {validations}")
        if beyond < patience:
            return None
        return Finding(
            f"the validation loss is {loss:.6g}, the preceding training loss {training:.6g}: "
            f"larger by a ratio of {ratio:.6g}, above {limit:g}",
            {"ratio_threshold": ratio},
        )

    return look


def _overtraining(settings: Settings) -> Look:
    delta = settings["delta"]
    patience = {False: settings["patience_train"], True: settings["patience_validation"]}
    best, waited, losses_seen = math.inf, 0, 0

    def look(sight: Sight) -> Finding | None:
        nonlocal best, waited, losses_seen
        validation, loss = _kind(sight, settings)
        losses_seen += 1
        failed = broken(sight)
        if failed is not None:
            return failed
        if loss < best - delta or math.isinf(best):
            best, waited = loss, 0
        else:
            waited += 1
        if losses_seen <= patience[validation]:
            raise needs_steps(patience[validation] + 1, losses_seen)
        if waited < patience[validation]:
            return None
        kind = "validation" if validation else "training"
        return Finding(
            f"the {kind} loss has not improved on {best:.6g} by {delta:g} in "
            f"{waited} steps; now {loss:.6g}",
            {"patience_validation" if validation else "patience_train": waited},
        )

    return look


register(
    Rule(
        "overfit",
        "validation losses are above the preceding training losses",
        _overfit,
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            number(
                "ratio_threshold", 0.1, "hit if (validation − training) / training is above this"
            ),
            count("patience", 1, "consecutive validation losses required", low=1),
            count("start_step", 0, "first step to evaluate"),
            _VALIDATION,
        ),
        origin="SageMaker",
        aliases=("Overfit",),
        follows=(
            "evaluation_inputs",
            "training_in_evaluation",
            "average_from_zero",
            "rows_change",
            "data_overwritten",
        ),
        selects=_named,
        examples=(
            Example(
                [
                    {"loss": 2.0, "val_loss": 2.0},
                    {"loss": 1.0, "val_loss": 1.5},
                    {"loss": 1.0, "val_loss": 1.0625},
                    {"val_loss": 9.0},
                ],
                (2,),
                about="at the end there is no training loss to compare with",
            ),
            Example(
                [{"loss": 1.0, "val_loss": 2.0}, {"loss": 1.0, "val_loss": 2.0}],
                (2,),
                {"patience": 2},
            ),
            Example([{"loss": 1.0, "val_loss": 2.0}], (), {"start_step": 5}),
        ),
    ),
    Rule(
        "overtraining",
        "training or validation losses no longer improve",
        per_value(_overtraining),
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("patience_train", 5, "training losses without improvement", unit="steps", low=1),
            count(
                "patience_validation",
                10,
                "validation losses without improvement",
                unit="steps",
                low=1,
            ),
            number("delta", 0.1, "an improvement must be larger than this", low=0),
            _VALIDATION,
        ),
        origin="SageMaker",
        aliases=("Overtraining",),
        selects=_named,
        examples=(
            Example([3.0, 2.0, 2.0, 1.95, 1.0, 1.0], (4,), {"patience_train": 2}),
            Example(
                [{"loss": 9.0 - i, "val_loss": 1.0} for i in range(4)],
                (3, 4),
                {"patience_validation": 2},
            ),
            Example(
                [{"loss": 9.0 - i, "other": 1.0 - i} for i in range(4)],
                (),
                {"patience_train": 1},
                about="both fall, one below the other",
            ),
        ),
    ),
)
