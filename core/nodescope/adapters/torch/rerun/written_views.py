"""Written views: the value of a tensor after writes through other views of its memory.

A node ``updated_view`` records the places of its inputs in the memory and its own place: offset,
sizes and strides, in elements. The inputs are written to their places in order; then the node's
place is read.

Invariant: places are checked before memory is accessed, since recordings are not trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.errors import ReplayError
from nodescope.events import Array

MOST_BYTES: Final = 1 << 31


class Place(NamedTuple):
    """The place of a tensor in a memory, in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def bytes_of(self, size: int) -> Array:
        """The offsets in bytes at which its elements begin, given their size in bytes."""
        at = np.full((), self.offset * size, np.int64)
        for length, stride in zip(self.shape, self.strides, strict=True):
            at = at[..., None] + np.arange(length, dtype=np.int64) * (stride * size)
        return np.ascontiguousarray(at).reshape(-1)


def places_of(attrs: dict[str, Any]) -> tuple[list[Place], Place]:
    """The places of the inputs, and the node's own.

    Raises:
        ReplayError: They are not recorded, or not valid.
    """
    try:
        parts = [_place(item) for item in attrs["places"]]
        return parts, _place(attrs["place"])
    except (KeyError, TypeError, ValueError):
        raise ReplayError("where the views are in their memory is not recorded") from None


def _place(item: Any) -> Place:
    offset, shape, strides = item
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or any(type(n) is not int or n < 0 for n in numbers):
        raise ValueError
    return Place(offset, tuple(shape), tuple(strides))


def sources(arrays: Sequence[Array], attrs: dict[str, Any]) -> tuple[Array, Array]:
    """For each element of the result, the input that it comes from, and the element of that input.

    Raises:
        ReplayError: The places do not fit, or an element comes from none of the inputs.
    """
    parts, own = places_of(attrs)
    if len(parts) != len(arrays) or not arrays:
        raise ReplayError("where the views are in their memory is not recorded")
    total = math.prod(own.shape) * arrays[0].dtype.itemsize
    if any(part.shape != array.shape for part, array in zip(parts, arrays, strict=True)):
        raise ReplayError("with other sizes than recorded, the views do not fit their memory")
    if total + sum(array.nbytes for array in arrays) > MOST_BYTES:
        raise ReplayError("the views are too large")
    positions = own.bytes_of(arrays[0].dtype.itemsize)
    order = np.argsort(positions, kind="stable")
    port = np.full(positions.size, -1, np.int64)
    element = np.zeros(positions.size, np.int64)
    for number, (part, array) in enumerate(zip(parts, arrays, strict=True)):
        if array.dtype.itemsize != arrays[0].dtype.itemsize:
            raise ReplayError("the views are of different dtypes")
        part_positions = part.bytes_of(array.dtype.itemsize)
        if not part_positions.size:
            continue
        by_place = np.argsort(part_positions, kind="stable")
        at = np.searchsorted(part_positions, positions[order], side="right", sorter=by_place) - 1
        hit = (at >= 0) & (part_positions[by_place[np.maximum(at, 0)]] == positions[order])
        port[order[hit]] = number
        element[order[hit]] = by_place[at[hit]]
    if (port < 0).any():
        raise ReplayError("a part of its memory was written before the recording knew it")
    return port, element


def updated(arrays: Sequence[Array], attrs: dict[str, Any]) -> Array:
    """The elements at the node's own place. Raises `ReplayError`, as `sources` does."""
    port, element = sources(arrays, attrs)
    _, own = places_of(attrs)
    result = np.empty(port.size, arrays[0].dtype)
    for number, array in enumerate(arrays):
        here = port == number
        result[here] = np.asarray(array).reshape(-1)[element[here]].view(arrays[0].dtype)
    return result.reshape(own.shape)
