"""Same elements: which outputs of a step have the same elements as earlier ones, and therefore the
same statistics.

A view that permutes or reshapes has the elements of its base. Each execution checks that elements
are the same, because a program may write unobserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nodescope.adapters.torch.native_tap.journal import WROTE, Item
from nodescope.adapters.torch.storages import Geometry

Region = tuple[Any, ...]
NONE: Final = -1
FIRST: Final = -2


def same_elements(items: Sequence[Item]) -> np.ndarray[Any, Any]:
    """For each output, the earlier output of the step that has the same elements.

    Args:
        items: The items of the step's journal.

    Returns:
        By output, in the order of executions: the index of the earlier output; ``FIRST`` if there
        is none but later outputs have the same elements; otherwise ``NONE``.
    """
    same: list[int] = []
    known: dict[int, dict[Region, int]] = {}

    def add(number: int, geometry: Geometry) -> None:
        region = _region(geometry)
        regions = known.setdefault(number, {})
        other = regions.setdefault(region, len(same))
        same.append(other if other < len(same) else NONE)

    for item in items:
        for leaf in item.leaves:
            add(leaf.number, leaf.geometry)
        for change in item.changes:
            if change.kind == WROTE:
                known.pop(change.number, None)
        for output in item.outputs:
            if output is None:
                same.append(NONE)
            elif output:
                add(*output)
    for other in set(same) - {NONE}:
        same[other] = FIRST
    return np.array(same, np.int32)


def _region(geometry: Geometry) -> Region:
    """A key for the elements at a geometry, independent of their order."""
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
