"""Selectors: which elements of an index or a mask select an output element.

Invariant: where that is not known, all elements are listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.ops.reading import Read, stretched


def index_ports(attrs: Mapping[str, Any]) -> tuple[int, ...]:
    """The input ports of the index tensors of ``index`` and ``index_put``."""
    indices = attrs.get("indices", 0)
    count = indices if isinstance(indices, int) else sum(map(bool, indices))
    return tuple(range(1, 1 + count))


def selecting(
    name: str, attrs: Mapping[str, Any], inputs: Sequence[Any], selectors: Sequence[int],
    shape: tuple[int, ...], position: int, moved: Read | None,
) -> tuple[list[Read], bool]:  # fmt: skip
    """The reads of the inputs that select, and whether they are certain.

    Args:
        name: The operator's plain name.
        attrs: Its arguments.
        inputs: Its inputs.
        selectors: The ports of the inputs that select.
        shape, position: The output's shape, and the element.
        moved: The input element that the output element is.
    """
    if not selectors:
        return [], True
    at = _own(name, attrs, inputs, shape, position)
    if at is not None:
        return [Read(selectors[0], np.array([at], np.int64), True)], True
    if name == "index":
        return [_of_index(attrs, inputs, port, shape, position) for port in selectors], True
    # All elements decide whether this position was written to.
    every = [Read(port, np.arange(np.size(inputs[port])), True) for port in selectors]
    return every, name in ("masked_select", "repeat_interleave")


def _own(
    name: str, attrs: Mapping[str, Any], inputs: Sequence[Any], shape: tuple[int, ...],
    position: int,
) -> int | None:  # fmt: skip
    """The element of the only selector that selects; None if more elements may."""
    if name in ("gather", "take"):
        return position
    if name == "embedding":
        return position // max(shape[-1], 1)
    if name == "index_select" and shape:
        coordinates = np.unravel_index(position, shape)
        return int(coordinates[attrs.get("dim", 0)])
    return None


def _of_index(
    attrs: Mapping[str, Any], inputs: Sequence[Any], port: int, shape: tuple[int, ...],
    position: int,
) -> Read:  # fmt: skip
    """The element of one index tensor of ``index``; all elements if any index is a mask."""
    indices = attrs.get("indices", 0)
    present = [True] * indices if isinstance(indices, int) else [bool(item) for item in indices]
    arrays = [np.asarray(inputs[1 + number]) for number in range(sum(present))]
    array = np.asarray(inputs[port])
    every = Read(port, np.arange(array.size), True)
    if any(item.dtype.kind == "b" or item.dtype == np.uint8 for item in arrays):
        return every
    block = np.broadcast_shapes(*(item.shape for item in arrays))
    axes = [axis for axis, there in enumerate(present) if there]
    together = axes == list(range(axes[0], axes[-1] + 1))
    first = axes[0] if together else 0
    coordinates = np.unravel_index(position, shape) if shape else ()
    own = coordinates[first : first + len(block)]
    place = int(np.ravel_multi_index(own, block)) if block else 0
    at = stretched(array.shape, block, place)
    return every if at is None else Read(port, np.array([at], np.int64), True)
