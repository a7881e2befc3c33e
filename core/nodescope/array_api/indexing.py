"""Selecting elements by index.

Invariant: no function here writes to its arguments.
"""

from __future__ import annotations

from typing import Any

from nodescope.array_api.base import tensor_of, traced
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError


def take(x: Tensor, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The slices along ``axis`` at ``indices``; ``axis`` may be omitted for a vector.

    Raises:
        ShapeError: ``axis`` is missing and ``x`` has more than one dimension.
        BoundsError: An index is out of range.
    """
    tensor = tensor_of(x)
    if axis is None:
        if tensor.ndim != 1:
            raise ShapeError(
                f"take: axis is required for shape {tensor.shape}",
                source=where(),
                hint="pass axis=",
            )
        axis = 0
    return traced("take", tensor, tensor_of(indices), axis=axis)


def take_along_axis(x: Tensor, indices: Any, /, *, axis: int = -1) -> Tensor:
    """The elements at ``indices`` along ``axis``, one for each index."""
    return traced("take_along_axis", tensor_of(x), tensor_of(indices), axis=axis)
