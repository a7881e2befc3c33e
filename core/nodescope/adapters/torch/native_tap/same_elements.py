"""Same elements: which outputs of a step have the elements of others, whose statistics are theirs.

A view that permutes or reshapes has those of what it is a view of. Nothing is carried from step to
step: between them, a program may write where nobody sees it.
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
    """By output: which one before it in the step has the same elements.

    Args:
        items: What happened in the step.

    Returns:
        Places among the outputs of the step, in the order of executions; ``NONE``, or ``FIRST`` for
        one that others have the elements of.
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
