"""Where two arrays of one value differ, element by element.

Invariant: pure; never raises for odd values, and warns of none.
"""

from __future__ import annotations

import numpy as np

from nodescope.debug.why.births import told_apart
from nodescope.events import Array


def elements(one: Array, other: Array, at: tuple[int, ...]) -> tuple[str, str]:
    """An element of both, read out so that they differ; ``""`` if the place is none."""
    if one.shape != other.shape or len(at) != one.ndim or not one.size:
        return "", ""
    return told_apart(one[at].item(), other[at].item())


def farthest(one: Array, other: Array) -> tuple[tuple[int, ...] | None, float | None]:
    """The element with the largest finite difference, and that."""
    if one.shape != other.shape or one.dtype.kind not in "fciub" or not one.size:
        return None, None
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        gaps = np.abs(np.subtract(one, other, dtype=wide, casting="unsafe"))
    finite = np.isfinite(gaps)
    if not finite.any():
        return None, None
    position = int(np.argmax(np.where(finite, gaps, -1.0)))
    at = tuple(int(each) for each in np.unravel_index(position, one.shape))
    largest = float(gaps[at])
    return (at, largest) if largest > 0 else (None, None)


def subtracted(one: Array, other: Array) -> Array | None:
    """The other minus the one in float64; None if there is nothing to subtract.

    Of complex numbers the magnitude of the difference. Where both are the same, it is 0, also of
    NaN and Inf.
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return None
    if one.dtype.kind == "V" and one.dtype.fields is None:  # bfloat16 and its like
        one, other = one.astype(np.float32), other.astype(np.float32)
    if one.dtype.kind not in "fciub":
        return None
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        found: Array = np.subtract(other, one, dtype=wide, casting="unsafe")
        found = np.abs(found) if wide is np.complex128 else found
        same = (one == other) | ((one != one) & (other != other))
    return np.where(same, 0.0, found)
