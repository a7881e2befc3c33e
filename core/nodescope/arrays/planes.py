"""Planes: the part of an array that a page shows, a window of a two-dimensional slice of it.

Invariant: a plane's position depends on the shape only, not on where the elements are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from nodescope.arrays import Window
from nodescope.events import Array


class Plane(msgspec.Struct, frozen=True):
    """A requested part of an array.

    Attributes:
        index: The index on each axis but the last two; missing indices are 0, others are clamped.
        row, col: First row and column, from 0.
        rows, cols: The largest number of rows and columns.
    """

    index: tuple[int, ...]
    row: int
    col: int
    rows: int
    cols: int


class PlacedPlane(NamedTuple):
    """The position of a plane in an array of known shape.

    Attributes:
        window: The slices that select it, one per axis.
        grid: Rows and columns of the whole slice; a vector is one row, a scalar is 1×1.
        fixed: The leading indices used.
        shape: The window's shape in rows and columns.
    """

    window: Window
    grid: tuple[int, int]
    fixed: tuple[int, ...]
    shape: tuple[int, int]

    def flat(self, part: Array) -> Array:
        """The window as rows and columns, from a part selected with the array's own axes."""
        rows, cols = self.shape  # a scalar has no axis to slice, so it is cut here
        return np.asarray(part).reshape(-1)[: rows * cols].reshape(self.shape)


def placed(shape: tuple[int, ...], plane: Plane) -> PlacedPlane:
    """The position of a plane in an array whose sizes are all known."""
    leading = shape[:-2]
    positions = (*plane.index, *(0 for _ in leading))[: len(leading)]
    pairs = zip(positions, leading, strict=True)
    fixed = tuple(max(0, min(position, size - 1)) for position, size in pairs)
    if not all(leading):  # an axis of length 0 has no index to fix: the slice is empty
        return PlacedPlane(tuple(slice(0, 0) for _ in shape), (0, 0), fixed, (0, 0))
    grid: Any = (*(1 for _ in range(2 - len(shape))), *shape[-2:])
    starts = (min(plane.row, grid[0]), min(plane.col, grid[1]))
    counts = (min(plane.rows, grid[0] - starts[0]), min(plane.cols, grid[1] - starts[1]))
    ends = [slice(start, start + count) for start, count in zip(starts, counts, strict=True)]
    window = (*(slice(at, at + 1) for at in fixed), *ends[2 - min(len(shape), 2) :])
    return PlacedPlane(window, grid, fixed, counts)
