"""Sorting along an axis.

Invariant: always stable, also when descending; NaN counts as the largest.
"""

from __future__ import annotations

from nodescope.array_api.base import tensor_of, traced
from nodescope.engine.tensor import Tensor
from nodescope.ops.shapes import axes


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort along an axis."""
    tensor = tensor_of(x)
    (along,) = axes("argsort", (axis,), tensor.ndim)
    if not descending:
        return _order(tensor, along)
    # A stable sort of the flipped elements, flipped back, keeps equal elements in order.
    mirrored = traced("flip", _order(traced("flip", tensor, along), along), along)
    return (tensor.shape[along] - 1) - mirrored


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements sorted along an axis."""
    tensor = tensor_of(x)
    (along,) = axes("sort", (axis,), tensor.ndim)
    result = traced("sort", tensor, axis=along)
    return traced("flip", result, along) if descending else result


def _order(x: Tensor, axis: int) -> Tensor:
    return traced("argsort", x, axis=axis, kind="stable")
