"""Errors: how much two values differ.

Invariant: pure; never raises for unusual values. Errors are computed over the elements that are
finite in both; an element that is finite in only one is a mismatch. A measure states whether arrays
or statistics were compared.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Literal

import msgspec
import numpy as np

from nodescope.console_output import shape_words
from nodescope.events import Array
from nodescope.record.summary import TensorSummary

Source = Literal["arrays", "summaries", "none"]

# Relative and absolute tolerance by dtype: those of `torch.testing.assert_close`.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
# The relative difference up to which statistics are equal: sums depend on the memory layout.
_ROUNDING = 1e-12
_WIDE: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}


class Measure(msgspec.Struct, frozen=True):
    """The difference between a value of the compiled run and that of the eager run.

    Attributes:
        source: ``arrays`` (all elements), ``summaries`` (statistics: ``max_abs`` and ``max_rel``
            are then the largest differences of minimum, maximum, mean, deviation and norm) or
            ``none``.
        equal: Whether the arrays are bit-equal (NaN equals NaN), or else the statistics equal.
        elements: The number of elements.
        max_abs, max_rel: The largest absolute and relative error, at most the largest float; None
            if no element is finite in both.
        ulp: The largest distance in units of the last place; None for integers, complex numbers and
            statistics.
        mismatched: The share of elements beyond the tolerance of the dtype, from 0 to 1; None for
            statistics.
        nan, inf: Counts in the eager and in the compiled value.
        why: Why nothing could be measured, or ``""``.
    """

    source: Source
    equal: bool = False
    elements: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    ulp: float | None = None
    mismatched: float | None = None
    nan: tuple[int, int] = (0, 0)
    inf: tuple[int, int] = (0, 0)
    why: str = ""


def measure_arrays(eager: Array, compiled: Array) -> Measure:
    """Compare elements. Arrays of different shapes or dtypes are not measured."""
    if eager.shape != compiled.shape:
        eager_shape, other = shape_words(eager.shape), shape_words(compiled.shape)
        return Measure("none", why=f"the shapes differ: {eager_shape} and {other}")
    if eager.dtype != compiled.dtype:
        return Measure("none", why=f"the dtypes differ: {eager.dtype} and {compiled.dtype}")
    kind = eager.dtype.kind
    name = eager.dtype.name
    if kind == "V" and eager.dtype.fields is None:  # bfloat16 and its like
        eager, compiled = eager.astype(np.float32), compiled.astype(np.float32)
        kind = "f"
    if kind not in "biufc":
        return Measure("none", why=f"{name} has no numbers to compare")
    a, b = np.atleast_1d(eager), np.atleast_1d(compiled)
    with np.errstate(all="ignore"):
        if a.tobytes() == b.tobytes():
            return _equal(a, kind)
        return _measured(a, b, kind, name)


def _equal(a: Array, kind: str) -> Measure:
    """The measure of bit-equal arrays, the usual case if the compiler's passes are exact."""
    if kind in "biu":
        return Measure("arrays", True, a.size, 0.0, 0.0, None, 0.0)
    finite = int(np.count_nonzero(np.isfinite(a)))
    nan = int(np.count_nonzero(np.isnan(a))) if finite < a.size else 0
    inf = int(np.count_nonzero(np.isinf(a))) if finite < a.size else 0
    error = 0.0 if finite else None
    ulp = 0.0 if kind == "f" and a.dtype.itemsize in _WIDE else None
    return Measure(
        "arrays", True, a.size, error, error, ulp, 0.0, nan=(nan, nan), inf=(inf, inf)
    )  # fmt: skip


def _measured(a: Array, b: Array, kind: str, name: str) -> Measure:
    if kind in "biu":
        same = a == b
        wide = np.float64
        error = np.abs(a.astype(wide) - b.astype(wide))
        largest = float(error.max()) if error.size else 0.0
        scale = np.abs(a.astype(wide))
        relative = np.divide(error, scale, out=np.where(error > 0, 1.0, 0.0), where=scale > 0)
        share = float(np.count_nonzero(~same)) / same.size if same.size else 0.0
        worst = float(relative.max()) if error.size else 0.0
        return Measure("arrays", bool(same.all()), a.size, largest, worst, None, share)
    nans = np.isnan(a), np.isnan(b)
    infs = np.isinf(a), np.isinf(b)
    same = (a == b) | (nans[0] & nans[1])
    finite = np.isfinite(a) & np.isfinite(b)
    high = np.complex128 if kind == "c" else np.longdouble if a.itemsize > 8 else np.float64
    error = np.abs(a.astype(high) - b.astype(high))[finite]
    scale = np.abs(a.astype(high))[finite]
    counts = tuple(int(np.count_nonzero(mask)) for mask in (*nans, *infs))
    relative_tolerance, absolute = TOLERANCES.get(name, (1e-7, 1e-7))
    beyond = np.count_nonzero(error > absolute + relative_tolerance * scale)
    beyond += np.count_nonzero(~finite & ~same)
    relative = np.divide(error, scale, out=np.where(error > 0, 1.0, 0.0), where=scale > 0)
    # -0.0 == 0.0, so compare the signs as well.
    signs = kind != "f" or bool((np.signbit(a) == np.signbit(b))[same & ~nans[0]].all())
    return Measure(
        "arrays",
        bool(same.all()) and signs,
        a.size,
        _largest(error),
        _largest(relative),
        _ulp(a[finite], b[finite]) if kind == "f" else None,
        float(beyond) / a.size if a.size else 0.0,
        (counts[0], counts[1]),
        (counts[2], counts[3]),
    )


def _largest(errors: Array) -> float | None:
    """The largest error, limited to the largest float because JSON has no infinity."""
    return min(float(errors.max()), sys.float_info.max) if errors.size else None


def _ulp(a: Array, b: Array) -> float | None:
    """The largest distance between corresponding finite elements, in representable numbers."""
    wide = _WIDE.get(a.dtype.itemsize)
    if wide is None:
        return None
    if not a.size:
        return 0.0
    order_numbers = [_ordered(array, wide) for array in (a, b)]
    distance = np.where(
        order_numbers[0] > order_numbers[1],
        order_numbers[0] - order_numbers[1],
        order_numbers[1] - order_numbers[0],
    )
    return float(distance.max())


def _ordered(array: Array, wide: Any) -> Array:
    """Unsigned integers in the same order as the numbers; both zeros map to one integer."""
    bits: Array = np.ascontiguousarray(array).reshape(-1).view(wide)
    top = wide(1 << (array.dtype.itemsize * 8 - 1))
    result: Array = np.where(bits & top, top - (bits & ~top), top + bits)
    return result


def measure_summaries(eager: TensorSummary, compiled: TensorSummary) -> Measure:
    """Compare statistics, for values whose elements were not kept."""
    if eager.spec != compiled.spec:
        return Measure("none", why=f"one is {eager.spec}, the other {compiled.spec}")
    largest: float | None = None
    worst: float | None = None
    for name in ("min", "max", "mean", "std", "norm"):
        a, b = getattr(eager, name), getattr(compiled, name)
        if a is None or b is None:
            continue
        error = 0.0 if a == b else min(abs(a - b), sys.float_info.max)
        if error <= _ROUNDING * max(abs(a), abs(b)):
            error = 0.0
        largest = max(largest or 0.0, error)
        part = error / abs(a) if a else float(error > 0)
        worst = max(worst or 0.0, min(part, sys.float_info.max))
    counts = ("nan_count", "inf_count", "zero_count")
    same = not largest and all(
        getattr(eager, count) == getattr(compiled, count) for count in counts
    )
    return Measure(
        "summaries",
        same and eager.histogram == compiled.histogram and _same_begin(eager, compiled),
        math.prod(eager.spec.shape),
        largest,
        worst,
        nan=(eager.nan_count, compiled.nan_count),
        inf=(eager.inf_count, compiled.inf_count),
    )


def _same_begin(eager: TensorSummary, compiled: TensorSummary) -> bool:
    """Whether the first elements, which the statistics contain, are equal."""
    return np.array_equal(np.array(eager.preview), np.array(compiled.preview), equal_nan=True)


def worst_of(measures: list[Measure]) -> Measure | None:
    """The measure with the largest error; an unmeasured one only if there is no other."""
    known = [measure for measure in measures if measure.source != "none"]
    if not known:
        return measures[-1] if measures else None

    def badness(measure: Measure) -> tuple[bool, float, float]:
        odd = measure.nan[0] != measure.nan[1] or measure.inf[0] != measure.inf[1]
        return odd, measure.mismatched or 0.0, measure.max_abs or 0.0

    return max(known, key=badness)
