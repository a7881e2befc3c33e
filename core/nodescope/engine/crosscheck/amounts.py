"""Amounts: how much arrays differ, as cross-checks report it.

Invariant: pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.engine.crosscheck.values import quiet, same
from nodescope.ir.differences import Amount
from nodescope.ir.graph import TensorSpec


def amount_of(expected: Any, actual: Any) -> Amount | None:
    """How much of an array differs; None if one is missing."""
    if expected is None or actual is None:
        return None
    expected, actual = np.asarray(expected), np.asarray(actual)
    if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
        then, now = (str(TensorSpec(a.shape, a.dtype.name)) for a in (expected, actual))
        return Amount(expected.size, expected.size, None, then, now)
    a, b = np.atleast_1d(expected), np.atleast_1d(actual)
    with quiet():
        other = (a != b) & ~((a != a) & (b != b))
        if a.dtype.kind in "fc" and a.dtype == b.dtype:
            other |= (a == b) & (np.signbit(a.real) != np.signbit(b.real))
        if not other.any():
            return Amount(a.size, 0)
        largest = None
        if a.dtype.kind in "biufc":
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            error = np.abs(a.astype(wide) - b.astype(wide))
            finite = error[np.isfinite(error) & other]
            largest = min(float(finite.max()), np.finfo(np.float64).max) if finite.size else None
        at = tuple(int(axis[0]) for axis in np.nonzero(other))
    index = at if expected.shape else ()
    return Amount(a.size, int(other.sum()), largest, str(a[at]), str(b[at]), index)


def others(results: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether any result differs from the expected one in its bits."""
    return any(
        not same(np.asarray(now), np.asarray(then))
        for now, then in zip(results, expected, strict=False)
    )


def first_pair(results: Sequence[Any], expected: Sequence[Any]) -> tuple[Any, Any]:
    """The first result that differs in its bits, after the expected one; (None, None) if there is
    none.
    """
    for now, then in zip(results, expected, strict=False):
        if not same(np.asarray(now), np.asarray(then)):
            return then, now
    return None, None


def far(results: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether results differ by more than another order of sums is likely to cause."""
    for now, then in zip(results, expected, strict=False):
        a, b = np.asarray(then), np.asarray(now)
        if a.shape != b.shape or a.dtype != b.dtype:
            return True
        if a.dtype.kind not in "fc":
            if not np.array_equal(a, b):
                return True
            continue
        tolerance = 64 * float(np.finfo(a.dtype).eps)
        scale = float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0))
        with quiet():
            if not np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
                return True
    return False
