"""Array differences: where two arrays of one value differ, element by element.

Invariant: pure; odd values cause neither errors nor warnings.
"""

from __future__ import annotations

import numpy as np

from nodescope.debug.why.nonfinite_origins import distinct_texts
from nodescope.events import Array


def elements(first: Array, other: Array, at: tuple[int, ...]) -> tuple[str, str]:
    """One element of both arrays as text, precise enough to differ; ``""`` if ``at`` is invalid."""
    if first.shape != other.shape or len(at) != first.ndim or not first.size:
        return "", ""
    return distinct_texts(first[at].item(), other[at].item())


def farthest(first: Array, other: Array) -> tuple[tuple[int, ...] | None, float | None]:
    """The element with the largest finite difference, and the difference."""
    if first.shape != other.shape or first.dtype.kind not in "fciub" or not first.size:
        return None, None
    wide = np.complex128 if first.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        gaps = np.abs(np.subtract(first, other, dtype=wide, casting="unsafe"))
    finite = np.isfinite(gaps)
    if not finite.any():
        return None, None
    position = int(np.argmax(np.where(finite, gaps, -1.0)))
    at = tuple(int(coordinate) for coordinate in np.unravel_index(position, first.shape))
    largest = float(gaps[at])
    return (at, largest) if largest > 0 else (None, None)


def subtracted(first: Array, other: Array) -> Array | None:
    """``other`` minus ``first`` in float64; None if there is nothing to subtract.

    For complex numbers, the magnitude of the difference. Where both are equal, it is 0, also for
    NaN and Inf.
    """
    if first.shape != other.shape or first.dtype != other.dtype:
        return None
    if first.dtype.kind == "V" and first.dtype.fields is None:  # bfloat16 and its like
        first, other = first.astype(np.float32), other.astype(np.float32)
    if first.dtype.kind not in "fciub":
        return None
    wide = np.complex128 if first.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        gap: Array = np.subtract(other, first, dtype=wide, casting="unsafe")
        gap = np.abs(gap) if wide is np.complex128 else gap
        equal = (first == other) | ((first != first) & (other != other))
    return np.where(equal, 0.0, gap)
