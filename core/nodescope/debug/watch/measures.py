"""Arithmetic shared by rules: named statistics, shares, changes, and their descriptions.

Statistics are over the finite elements (magnitudes of complex ones), as in `TensorSummary`.

Invariant: exact, or decided by conclusive bounds, or `MissingData`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.console_output import index_text
from nodescope.debug.watch.observation import MissingData, ObservedContent, Sight, blocks
from nodescope.debug.watch.rule import Finding, Parameter, Settings, needs_steps, number, percent
from nodescope.events import Array

# The relative rounding error allowed for a bound computed from rounded statistics.
_SLACK: Final = 1e-6

COMPARISONS: Final[dict[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "gt": ("above", operator.gt),
    "lt": ("below", operator.lt),
    "ge": ("at least", operator.ge),
    "le": ("at most", operator.le),
}


def abs_mean(value: ObservedContent) -> float | None:
    """The mean magnitude; None without finite elements. Raises `MissingData`."""

    def make() -> float | None:
        summary = value.summary
        if summary.mean is None or summary.min is None or summary.max is None:
            return None
        if summary.min >= 0:
            return summary.mean
        if summary.max <= 0:
            return -summary.mean
        finite_count = value.size - summary.nan_count - summary.inf_count
        return sum(
            _part_of_mean(np.abs(block[np.isfinite(block)]), finite_count)
            for (block,) in blocks(value.array)
        )

    return value.measure("abs_mean", make)


def _part_of_mean(magnitudes: Array, total_count: int) -> float:
    """Contribution of some elements to the mean of ``total_count``."""
    total = float(np.add.reduce(magnitudes))
    # The sum may overflow although the mean does not.
    return (
        total / total_count
        if math.isfinite(total)
        else float(np.add.reduce(magnitudes / total_count))
    )


def _abs_mean_bounds(value: ObservedContent) -> tuple[float, float]:
    """Bounds of the mean magnitude, from the summary alone."""
    summary = value.summary
    finite_count = value.size - summary.nan_count - summary.inf_count
    if summary.norm is None or summary.mean is None or summary.min is None or summary.max is None:
        return 0.0, math.inf
    largest = max(abs(summary.min), abs(summary.max))
    low = abs(summary.mean)
    if largest and math.isfinite(summary.norm):
        low = max(low, summary.norm * (summary.norm / (finite_count * largest)))
    return low * (1 - _SLACK), summary.norm / math.sqrt(finite_count) * (1 + _SLACK)


def zero_percentage(value: ObservedContent) -> float | None:
    """Zeros among all elements, in percent; None without elements."""
    return 100 * value.summary.zero_count / value.size if value.size else None


def _range(value: ObservedContent) -> float | None:
    summary = value.summary
    if summary.min is None or summary.max is None:
        return None
    return summary.max - summary.min


def _variance(value: ObservedContent) -> float | None:
    std = value.summary.std
    return None if std is None else std * std


STATISTICS: Final[dict[str, tuple[str, Callable[[ObservedContent], float | None]]]] = {
    "abs_mean": ("the mean magnitude", abs_mean),
    "max": ("the maximum", lambda value: value.summary.max),
    "min": ("the minimum", lambda value: value.summary.min),
    "mean": ("the mean", lambda value: value.summary.mean),
    "std": ("the standard deviation", lambda value: value.summary.std),
    "norm": ("the norm", lambda value: value.summary.norm),
    "max_min": ("the difference between maximum and minimum", _range),
    "variance": ("the variance", _variance),
    "zero_percentage": ("the share of zeros", zero_percentage),
}


def compared(value: ObservedContent, name: str, threshold: float) -> tuple[bool, float | None]:
    """Whether a statistic crosses the threshold of a parameter such as ``abs_mean_gt``; its number.

    False if there are no finite elements. Raises `MissingData`.
    """
    statistic, _, comparison = name.rpartition("_")
    measure, test = STATISTICS[statistic][1], COMPARISONS[comparison][1]
    try:
        actual = measure(value)
    except MissingData:
        if statistic != "abs_mean":
            raise
        # Bounds from the summary may be conclusive.
        low, high = _abs_mean_bounds(value)
        if test(low, threshold) and test(high, threshold):
            return True, high if comparison in ("lt", "le") else low
        if not test(low, threshold) and not test(high, threshold):
            return False, None
        raise
    return actual is not None and bool(test(actual, threshold)), actual


def threshold_finding(sight: Sight, settings: Settings, names: tuple[str, ...]) -> Finding | None:
    """A finding if any of the thresholds ``names`` is set and crossed."""
    parts: list[str] = []
    actual: dict[str, Any] = {}
    unasked: MissingData | None = None
    for name in names:
        threshold = settings[name]
        if threshold is None:
            continue
        try:
            true, measured = compared(sight, name, threshold)
        except MissingData as error:
            unasked = error
            continue
        if true and measured is not None:
            statistic, _, comparison = name.rpartition("_")
            unit = "%" if statistic == "zero_percentage" else ""
            words, relation = STATISTICS[statistic][0], COMPARISONS[comparison][0]
            parts.append(f"{words} is {measured:.6g}{unit}, {relation} {threshold:g}{unit}")
            actual[name] = measured
    if parts:
        return Finding("; ".join(parts), actual)
    if unasked is not None:
        raise unasked
    return None


def threshold_parameter(name: str, default: float | None = None) -> Parameter:
    """The parameter of a threshold such as ``abs_mean_gt``."""
    statistic, _, comparison = name.rpartition("_")
    description = f"hit if {STATISTICS[statistic][0]} is {COMPARISONS[comparison][0]} this"
    make = percent if statistic == "zero_percentage" else number
    return make(name, default, description)


def nonfinite(
    sight: Sight, *, nan: bool = True, inf: bool = True, before: str = ""
) -> Finding | None:
    """A finding for NaN and Inf: their counts and, if the array is kept, the first index."""
    summary = sight.summary
    counts = (summary.nan_count if nan else 0, summary.inf_count if inf else 0)
    if not sum(counts):
        return None
    words = " and ".join(
        f"{count} {name}" for count, name in zip(counts, ("NaN", "Inf"), strict=True) if count
    )
    array = sight.array_or_none
    place = ""
    if array is not None and array.ndim:
        bad = np.zeros(array.shape, bool)
        if nan:
            bad |= np.isnan(array)
        if inf:
            # As in the summary, a complex number with a NaN part counts as NaN, not as Inf.
            bad |= np.isinf(array) & ~np.isnan(array)
        place = f", first at {index_text(first_true(bad))}"
    of = f" in {sight.size} elements" if sight.size > 1 else ""
    actual = {"nan_count": counts[0], "inf_count": counts[1]}
    return Finding(f"{before}{words}{of}{place}", {k: v for k, v in actual.items() if v})


def first_true(mask: Array) -> tuple[int, ...]:
    """The index of the first true element in C order; there must be one."""
    flat = int(np.argmax(mask.reshape(-1)))
    return tuple(int(coordinate) for coordinate in np.unravel_index(flat, mask.shape))


def change(sight: Sight, epsilon: float) -> float | None:
    """Mean |w − w₋₁| / (mean |w₋₁| + ε); None if the shape has changed.

    Elements that are not finite in both steps are left out; None if all are. Raises `MissingData`,
    in the first step `NotYet`.
    """
    before = sight.before
    if before is None:
        raise needs_steps(2, 1)

    def make() -> float | None:
        now, earlier = pair(sight)
        if now.shape != earlier.shape or not now.size:
            return None
        apart = level = 0.0
        finite_count = 0
        for new, old in blocks(now, earlier):
            finite = np.isfinite(new) & np.isfinite(old)
            apart += _part_of_mean(np.abs(new[finite] - old[finite]), now.size)
            level += _part_of_mean(np.abs(old[finite]), now.size)
            finite_count += int(np.count_nonzero(finite))
        if not finite_count:
            return None
        apart, level = apart * (now.size / finite_count), level * (now.size / finite_count)
        return apart / (level + epsilon) if level + epsilon else None

    return sight.measure(f"change:{epsilon!r}", make)


def pair(sight: Sight) -> tuple[Array, Array]:
    """The arrays of the value now and in the previous step. Raises `MissingData`."""
    before = sight.before
    assert before is not None
    now, earlier = sight.array, before.array_or_none
    if earlier is None:
        raise MissingData("the full array of the previous step was not kept")
    return now, earlier


def close(sight: Sight, rtol: float, atol: float, equal_nan: bool) -> bool:
    """Whether all elements are within tolerance of those in the previous step.

    Raises `MissingData`, in the first step `NotYet`.
    """
    if sight.before is None:
        raise needs_steps(2, 1)
    now, earlier = pair(sight)
    if now.shape != earlier.shape:
        return False
    if not rtol and not atol:  # float64 cannot represent all integers and long doubles
        equal = now == earlier
        if equal_nan:
            equal |= np.isnan(now) & np.isnan(earlier)
        return bool(np.all(equal))
    return all(
        bool(np.all(np.isclose(new, old, rtol=rtol, atol=atol, equal_nan=equal_nan)))
        for new, old in blocks(now, earlier)
    )


def share_within(sight: Sight, low: float, high: float) -> float | None:
    """The share of elements in ``[low, high]``, in percent; None if there are no elements.

    Raises:
        MissingData: The elements are not kept, and the statistics do not suffice.
    """
    summary, size = sight.summary, sight.size
    if not size:
        return None
    if summary.min is None or summary.max is None or summary.min > high or summary.max < low:
        if summary.inf_count == 0 or (low > -math.inf and high < math.inf):
            return 0.0
    elif low <= summary.min and summary.max <= high and not summary.inf_count:
        return 100 * (size - summary.nan_count) / size

    def make() -> float | None:
        inside = 0
        for (block,) in blocks(sight.array):
            real = np.abs(block) if block.dtype.kind == "c" else block
            # As in the summary: an element with a NaN part is NaN, whatever its other part is.
            inside += int(np.count_nonzero((real >= low) & (real <= high) & ~np.isnan(block)))
        return 100 * inside / size

    return sight.measure(f"within:{low!r}:{high!r}", make)
