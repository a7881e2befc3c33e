"""Losses that do not fall: SageMaker's LossNotDecreasing, and no new minimum for many steps."""

from __future__ import annotations

import math
from collections import deque

from nodescope.debug.watch import register
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
)
from nodescope.debug.watch.sight import Sight


def loss_of(sight: Sight) -> float | None:
    """The loss as one number, NaN where it is not finite; None without elements."""
    if not sight.size:
        return None
    summary = sight.summary
    if summary.mean is None or summary.nan_count or summary.inf_count:
        return math.nan
    return summary.mean


def broken(sight: Sight) -> Finding | None:
    """That a loss is not finite, if it is not: whatever it was to do, it has failed."""
    summary = sight.summary
    if not (summary.nan_count or summary.inf_count):
        overflown = sight.size and (summary.mean is None or not math.isfinite(summary.mean))
        return Finding("its mean is not finite") if overflown else None
    kind = "NaN" if summary.nan_count else "Inf"
    if sight.size == 1:
        return Finding(f"it is {kind}")
    many = summary.nan_count or summary.inf_count
    return Finding(f"{many} of {sight.size} elements are {kind}")


def _fall(then: float, now: float) -> float:
    """By how many percent of its magnitude a number fell."""
    if then:
        return 100 * (then - now) / abs(then)
    return 0.0 if now == then else math.copysign(math.inf, then - now)


def _not_decreasing(settings: Settings) -> Look:
    every, least = settings["num_steps"], settings["diff_percent"]
    most = settings["increase_threshold_percent"]
    losses: deque[float] = deque(maxlen=every + 1)
    seen = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal seen
        loss = loss_of(sight)
        if loss is None:
            return None
        seen += 1
        failed = broken(sight)
        if failed is not None:
            losses.clear()
            return failed
        losses.append(loss)
        if seen <= every:
            raise needs_steps(every + 1, seen)
        if len(losses) <= every:
            return None
        then = losses[0]
        losses.clear()
        losses.append(loss)
        fall = _fall(then, loss)
        if fall >= least:
            return None
        if -fall > most:
            return Finding(
                f"it rose by {-fall:.6g}% in {every} steps, from {then:.6g} to {loss:.6g}, "
                f"more than {most:g}%",
                {"increase_threshold_percent": -fall},
            )
        return Finding(
            f"from {then:.6g} to {loss:.6g} in {every} steps: it has not fallen by {least:g}%",
            {"diff_percent": fall},
        )

    return look


def _not_falling(settings: Settings) -> Look:
    limit, least = settings["num_steps"], settings["min_delta"]
    best, waited, best_step, seen = math.inf, 0, 0, 0

    def look(sight: Sight) -> Finding | None:
        nonlocal best, waited, best_step, seen
        loss = loss_of(sight)
        if loss is None:
            return None
        seen += 1
        failed = broken(sight)
        if failed is not None:
            waited += 1
            return failed
        if loss < best - least or (math.isinf(best) and math.isfinite(loss)):
            best, waited, best_step = loss, 0, sight.step
        else:
            waited += 1
        if seen <= limit:
            raise needs_steps(limit + 1, seen)
        if waited < limit:
            return None
        return Finding(
            f"it has not fallen below {best:.6g} (step {best_step}) in {waited} steps: {loss:.6g}",
            {"num_steps": waited},
        )  # fmt: skip

    return look


register(
    Rule(
        "loss_not_decreasing",
        "a loss has not fallen by a share of itself over a span of steps, or is not finite",
        per_value(_not_decreasing),
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 10, "the span", unit="steps", low=1),
            number("diff_percent", 0.1, "what it must fall by", unit="%", low=0),
            number("increase_threshold_percent", 5.0, "a larger rise is named", unit="%", low=0),
        ),
        origin="SageMaker",
        aliases=("LossNotDecreasing",),
        examples=(
            Example([4.0, 3.0, 4.0, 3.0, 3.0, 3.0], (3,), {"num_steps": 2, "diff_percent": 1}),
            Example([4.0, 3.0, 2.5], (3,), {"num_steps": 1, "diff_percent": 25}),
            Example([1.0, float("nan"), 2.0, 1.0], (2,), {"num_steps": 1}),
            Example([0.0, 0.0], (2,), {"num_steps": 1}),
        ),
    ),
    Rule(
        "loss_not_falling",
        "a loss has found no new minimum for many steps, or is not finite",
        per_value(_not_falling),
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 20, "so many steps", unit="steps", low=1),
            number("min_delta", 0.0, "a new minimum is lower by more than this", low=0),
        ),
        examples=(
            Example([3.0, 2.0, 2.5, 2.0, 1.0, 1.0], (4,), {"num_steps": 2}),
            Example([3.0, float("nan"), float("nan"), 2.0], (2, 3), {"num_steps": 2}),
            Example([2.0, 1.75, 1.5], (2,), {"num_steps": 1, "min_delta": 0.25}),
        ),
    ),
)  # fmt: skip
