"""Searching: indices of elements.

Invariant: results are indices or counts, through which no gradient flows; `where` differs.
"""

from __future__ import annotations

from typing import Any, Literal

from nodescope.array_api.base import tensor_of, traced
from nodescope.engine.source import where as _line
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element."""
    return tensor_of(x).argmax(axis=axis, keepdims=keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element."""
    return tensor_of(x).argmin(axis=axis, keepdims=keepdims)


def count_nonzero(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """The number of nonzero elements."""
    nonzero_mask: Any = tensor_of(x) != 0
    counts: Tensor = nonzero_mask.sum(axis=axis, keepdims=keepdims)
    return counts


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of nonzero elements, one tensor per dimension.

    Raises:
        ShapeError: ``x`` is a scalar.
    """
    tensor = tensor_of(x)
    if not tensor.ndim:
        raise ShapeError(
            "nonzero: a scalar has no indices", source=_line(), hint="reshape it to (1,) first"
        )
    return tensor.nonzero()


def searchsorted(
    x1: Tensor,
    x2: Any,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Any = None,
) -> Tensor:
    """The positions of the elements of ``x2`` in the sorted vector ``x1``.

    Args:
        x1: One-dimensional, and sorted, possibly by ``sorter``.
        x2: Of any shape; the result has the same shape.
        side: Whether to insert before or after equal elements.
        sorter: Indices that sort ``x1``.
    """
    sorted_values = tensor_of(x1)
    if sorter is not None:
        sorted_values = sorted_values[tensor_of(sorter)]
    return traced("searchsorted", sorted_values, tensor_of(x2), side=side)


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """Elements of ``x1`` where the condition is true, else of ``x2``; either may be a scalar."""
    return traced("where", tensor_of(condition), x1, x2)
