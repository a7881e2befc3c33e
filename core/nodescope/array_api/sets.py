"""Sets of elements.

Invariant: unique values are sorted; every NaN is distinct, as the standard requires. These
functions need the elements, so a graph that is being built refuses them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodescope.array_api.base import made, tensor_of
from nodescope.engine.tensor import Tensor, check_known


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The unique elements, their first indices, the inverse indices, and their counts."""
    tensor = tensor_of(x)
    check_known(tensor, "unique_all")
    data = tensor.data
    _, indices, inverse, counts = np.unique(
        data, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    # The values are taken from the tensor itself, so gradients flow back to it.
    return UniqueAll(
        tensor.ravel()[indices], made(indices), made(inverse.reshape(data.shape)), made(counts)
    )


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The unique elements and their counts."""
    groups = unique_all(x)
    return UniqueCounts(groups.values, groups.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The unique elements, and for each element the index of its unique value."""
    groups = unique_all(x)
    return UniqueInverse(groups.values, groups.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The unique elements."""
    return unique_all(x).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """For each element of ``x1``, whether ``x2`` holds it (or not, with ``invert``)."""
    left, right = tensor_of(x1), tensor_of(x2)
    for operand in (left, right):
        check_known(operand, "isin")
    return made(np.isin(left.data, right.data, invert=invert))
