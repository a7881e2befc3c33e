"""Sets of elements.

Invariant: sorted; every NaN is different from every other, as the standard wants. How many elements
there are depends on values, so a graph that is being built refuses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodescope.array_api.base import made, tensor_of
from nodescope.engine.tensor import Tensor, check_known


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements, where each stands first, where they go, how often each stands."""
    tensor = tensor_of(x)
    check_known(tensor, "unique_all")
    data = tensor.data
    _, indices, inverse, counts = np.unique(
        data, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    # The values are taken out of the tensor itself, so that their gradient goes back there.
    return UniqueAll(
        tensor.ravel()[indices], made(indices), made(inverse.reshape(data.shape)), made(counts)
    )


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements, and how often each stands."""
    groups = unique_all(x)
    return UniqueCounts(groups.values, groups.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements, and which of them stands at each place."""
    groups = unique_all(x)
    return UniqueInverse(groups.values, groups.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements."""
    return unique_all(x).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """For each element of ``x1``, whether ``x2`` holds it (or not, with ``invert``)."""
    left, right = tensor_of(x1), tensor_of(x2)
    for operand in (left, right):
        check_known(operand, "isin")
    return made(np.isin(left.data, right.data, invert=invert))
