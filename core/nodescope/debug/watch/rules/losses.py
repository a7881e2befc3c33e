"""Losses that do not fall: SageMaker's LossNotDecreasing, and no new minimum for many steps."""

from __future__ import annotations

import math
from collections import deque

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
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


def loss_of(sight: Sight) -> float | None:
    """The loss as one number, NaN where it is not finite; None without elements."""
    if not sight.size:
        return None
    summary = sight.summary
    if summary.mean is None or summary.nan_count or summary.inf_count:
        return math.nan
    return summary.mean


def broken(sight: Sight) -> Finding | None:
    """A finding if the loss is not finite, which fails any expectation of a watch."""
    summary = sight.summary
    if not (summary.nan_count or summary.inf_count):
        overflown = sight.size and (summary.mean is None or not math.isfinite(summary.mean))
        return Finding("its mean is not finite") if overflown else None
    kind = "NaN" if summary.nan_count else "Inf"
    if sight.size == 1:
        return Finding(f"it is {kind}")
    broken_count = summary.nan_count or summary.inf_count
    return Finding(f"{broken_count} of {sight.size} elements are {kind}")


def _fall(earlier: float, now: float) -> float:
    """The fall of a number, in percent of its magnitude."""
    if earlier:
        return 100 * (earlier - now) / abs(earlier)
    return 0.0 if now == earlier else math.copysign(math.inf, earlier - now)


def _not_decreasing(settings: Settings) -> Look:
    interval, least = settings["num_steps"], settings["diff_percent"]
    largest_rise = settings["increase_threshold_percent"]
    losses: deque[float] = deque(maxlen=interval + 1)
    steps_seen = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal steps_seen
        loss = loss_of(sight)
        if loss is None:
            return None
        steps_seen += 1
        failed = broken(sight)
        if failed is not None:
            losses.clear()
            return failed
        losses.append(loss)
        if steps_seen <= interval:
            raise needs_steps(interval + 1, steps_seen)
        if len(losses) <= interval:
            return None
        earlier = losses[0]
        losses.clear()
        losses.append(loss)
        fall = _fall(earlier, loss)
        if fall >= least:
            return None
        if -fall > largest_rise:
            return Finding(
                f"it rose by {-fall:.6g}% in {interval} steps, from {earlier:.6g} to {loss:.6g}, "
                f"more than {largest_rise:g}%",
                {"increase_threshold_percent": -fall},
            )
        return Finding(
            f"from {earlier:.6g} to {loss:.6g} in {interval} steps: it did not fall by {least:g}%",
            {"diff_percent": fall},
        )

    return look


def _not_falling(settings: Settings) -> Look:
    limit, least = settings["num_steps"], settings["min_delta"]
    best, waited, best_step, steps_seen = math.inf, 0, 0, 0

    def look(sight: Sight) -> Finding | None:
        nonlocal best, waited, best_step, steps_seen
        loss = loss_of(sight)
        if loss is None:
            return None
        steps_seen += 1
        failed = broken(sight)
        if failed is not None:
            waited += 1
            return failed
        if loss < best - least or (math.isinf(best) and math.isfinite(loss)):
            best, waited, best_step = loss, 0, sight.step
        else:
            waited += 1
        if steps_seen <= limit:
            raise needs_steps(limit + 1, steps_seen)
        if waited < limit:
            return None
        return Finding(
            f"no new minimum in {waited} steps: it is {loss:.6g}, "
            f"best {best:.6g} (step {best_step})",
            {"num_steps": waited},
        )  # fmt: skip

    return look


register(
    Rule(
        "loss_not_decreasing",
        "a loss does not fall by a given percentage over a number of steps, or is not finite",
        per_value(_not_decreasing),
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 10, "number of steps to compare over", unit="steps", low=1),
            number("diff_percent", 0.1, "required decrease", unit="%", low=0),
            number("increase_threshold_percent", 5.0, "a larger rise is reported", unit="%", low=0),
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
        "a loss reaches no new minimum for many steps, or is not finite",
        per_value(_not_falling),
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 20, "steps without a new minimum", unit="steps", low=1),
            number("min_delta", 0.0, "a new minimum must be lower by more than this", low=0),
        ),
        examples=(
            Example([3.0, 2.0, 2.5, 2.0, 1.0, 1.0], (4,), {"num_steps": 2}),
            Example([3.0, float("nan"), float("nan"), 2.0], (2, 3), {"num_steps": 2}),
            Example([2.0, 1.75, 1.5], (2,), {"num_steps": 1, "min_delta": 0.25}),
        ),
    ),
)  # fmt: skip
