"""Same elements: which outputs of a step have the elements of others, whose statistics are theirs.

A view that permutes or reshapes has those of what it is a view of, and a parameter has in the next
step what the optimizer wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.adapters.torch.native_tap.journal import WROTE, Item
from nodescope.adapters.torch.storages import Geometry

Region = tuple[Any, ...]


def same_elements(
    items: Sequence[Item], known_before: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """By output: which one before it has the same elements, and which one in the step before.

    Args:
        items: What happened in the step.
        known_before: Storages with a number up to this one are older than the step.

    Returns:
        Places among the outputs of the step, in the order of executions, or -1.
    """
    same: list[int] = []
    first: dict[tuple[int, Region], int] = {}  # of storages that the step has not written to yet
    known: dict[int, dict[Region, int]] = {}
    written: set[int] = set()

    def add(number: int, geometry: Geometry) -> None:
        region = _region(geometry)
        regions = known.setdefault(number, {})
        other = regions.setdefault(region, len(same))
        if number <= known_before and number not in written:
            first.setdefault((number, region), len(same))
        same.append(other if other < len(same) else -1)

    for item in items:
        for number, geometry, _ in item.leaves:
            add(number, geometry)
        for change in item.changes:
            if change.kind == WROTE:
                known.pop(change.number, None)
                written.add(change.number)
        for output in item.outputs:
            if output is None:
                same.append(-1)
            elif output:
                add(*output)
    before = np.full(len(same), -1, np.int32)
    for (number, region), place in first.items():
        before[place] = known.get(number, {}).get(region, -1)
    return np.array(same, np.int32), before


def _region(geometry: Geometry) -> Region:
    """The elements of a place in a storage, whatever their order."""
    offset, shape, strides, dtype = geometry
    axes: list[tuple[int, int]] = []
    for stride, size in sorted(zip(strides, shape, strict=True), reverse=True):
        if size == 1:
            continue
        if axes and axes[-1][0] == stride * size:
            axes[-1] = stride, axes[-1][1] * size
        else:
            axes.append((stride, size))
    return (offset, dtype, *axes)
