"""Arrays: restored to their memory layout, and compared bit for bit.

Invariant: no argument is written to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nodescope.console_output import index_text, shape_words
from nodescope.events import Array

# A slice of a larger array gets its original strides, unless its memory extent would exceed
# ``_SPREAD`` times its size plus ``_SMALL`` bytes.
_SPREAD = 8
_SMALL = 1 << 16


def relaid(array: Array, strides: tuple[int, ...] | None) -> Array:
    """The array with its original strides: the rounding of a NumPy sum depends on memory order."""
    if strides is None or len(strides) != array.ndim or not array.size:
        return array
    steps = [(n - 1) * step for n, step in zip(array.shape, strides, strict=True)]
    below = -sum(step for step in steps if step < 0)
    extent = below + sum(step for step in steps if step > 0) + array.itemsize
    if extent > _SPREAD * array.nbytes + _SMALL:
        return array
    copy: Array = np.ndarray(
        array.shape, array.dtype, np.empty(extent, np.uint8).data, below, strides
    )
    copy[...] = array  # elements that share memory are equal
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True, slots=True)
class Difference:
    """The bitwise difference between two arrays of one value.

    Attributes:
        node: The node's name.
        value, seq: Value id, and the seq of the execution that wrote it.
        count, size: The number of elements that differ, and the total number.
        at: The index of the first differing element.
        one, other: That element in each array, as Python numbers.
        largest: The largest finite absolute difference; None if there is none, if the dtype is not
            numeric, or if dtypes or shapes differ.
        note: The two shapes and dtypes if these differ, else ``""``.
    """

    node: str
    value: int
    seq: int
    count: int
    size: int
    at: tuple[int, ...] = ()
    one: object = None
    other: object = None
    largest: float | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.note:
            return f"{self.node}: {self.note}"
        place = f" at {index_text(self.at)}" if self.at else ""
        return (
            f"{self.node}: {self.count:,} of {self.size:,} elements differ, first{place}: "
            f"{self.one} and {self.other}"
        )


def difference(first: Array, other: Array, node: str, value: int, seq: int) -> Difference | None:
    """The difference between two arrays; None if they are bit-identical."""
    first, other = np.asarray(first), np.asarray(other)
    if first.shape != other.shape or first.dtype != other.dtype:
        specs = [f"{array.dtype} {shape_words(array.shape)}" for array in (first, other)]
        note = f"{specs[0]} and {specs[1]}"
        return Difference(node, value, seq, max(first.size, other.size), first.size, note=note)
    differ = differing(first, other)
    places = np.flatnonzero(differ)
    if not places.size:
        return None
    at = tuple(int(i) for i in np.unravel_index(int(places[0]), first.shape))
    largest = None
    if first.dtype.kind in "fciu":
        sizes = gaps(first.reshape(-1)[places], other.reshape(-1)[places])
        finite = sizes[np.isfinite(sizes)]
        largest = float(finite.max()) if finite.size else None
    return Difference(
        node,
        value,
        seq,
        int(places.size),
        first.size,
        at,
        first[at].item(),
        other[at].item(),
        largest,
    )


def gaps(first: Array, other: Array) -> Array:
    """The elementwise absolute differences; exact uint64 for integers."""
    if first.dtype.kind in "iu":
        wide = np.int64 if first.dtype.kind == "i" else np.uint64
        return np.maximum(first, other).astype(wide).view(np.uint64) - np.minimum(
            first, other
        ).astype(wide).view(np.uint64)
    with np.errstate(all="ignore"):
        kind = np.complex128 if first.dtype.kind == "c" else np.float64
        gaps: Array = np.abs(first.astype(kind) - other.astype(kind))
    return gaps


def alike(first: Array, other: Array) -> bool:
    """Whether two arrays are equal up to the rounding of different kernels."""
    if first.shape != other.shape or first.dtype != other.dtype:
        return False
    if first.dtype.kind not in "fc":
        return first.tobytes() == other.tobytes()
    with np.errstate(all="ignore"):
        return bool(np.allclose(first, other, rtol=1e-3, atol=1e-6, equal_nan=True))


def differing(first: Array, other: Array) -> Array:
    """A flat mask, in C order, of elements whose bits differ; shapes and dtypes must be equal."""
    width = first.dtype.itemsize
    if not first.size or not width:
        return np.zeros(math.prod(first.shape), bool)
    raw = [
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, width)
        for array in (first, other)
    ]
    mask: Array = (raw[0] != raw[1]).any(axis=1)
    return mask
