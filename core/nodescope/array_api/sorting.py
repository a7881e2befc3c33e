"""Sorting along an axis.

Invariant: stable unless told otherwise, descending too; NaN counts as the largest.
"""

from __future__ import annotations

import numpy as np

from nodescope.array_api.base import tensor_of
from nodescope.engine.tensor import Tensor
from nodescope.ops.shapes import axes


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort along an axis."""
    found = tensor_of(x)
    (along,) = axes("argsort", (axis,), found.ndim)
    if not descending:
        return _order(found, along)
    # Sorting the mirrored elements keeps equal ones in their order once mirrored back.
    mirrored = np.flip(_order(np.flip(found, along), along), along)  # type: ignore[call-overload]
    return found.shape[along] - 1 - mirrored  # type: ignore[no-any-return]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements sorted along an axis."""
    found = tensor_of(x)
    (along,) = axes("sort", (axis,), found.ndim)
    result = np.sort(found, axis=along)  # type: ignore[call-overload]
    return np.flip(result, along) if descending else result  # type: ignore[no-any-return]


def _order(x: Tensor, axis: int) -> Tensor:
    return np.argsort(x, axis=axis, kind="stable")  # type: ignore[call-overload, no-any-return]
