"""Same elements: which outputs of a step have the elements of others, whose statistics are theirs.

A view that permutes or reshapes has those of what it is a view of. Nothing is carried from step to
step: between them, a program may write where nobody sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.adapters.torch.native_tap.journal import WROTE, Item
from nodescope.adapters.torch.storages import Geometry

Region = tuple[Any, ...]


def same_elements(items: Sequence[Item]) -> np.ndarray[Any, Any]:
    """By output: which one before it in the step has the same elements.

    Args:
        items: What happened in the step.

    Returns:
        Places among the outputs of the step, in the order of executions, or -1.
    """
    same: list[int] = []
    known: dict[int, dict[Region, int]] = {}

    def add(number: int, geometry: Geometry) -> None:
        region = _region(geometry)
        regions = known.setdefault(number, {})
        other = regions.setdefault(region, len(same))
        same.append(other if other < len(same) else -1)

    for item in items:
        for number, geometry, _ in item.leaves:
            add(number, geometry)
        for change in item.changes:
            if change.kind == WROTE:
                known.pop(change.number, None)
        for output in item.outputs:
            if output is None:
                same.append(-1)
            elif output:
                add(*output)
    return np.array(same, np.int32)


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
