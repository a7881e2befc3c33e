"""Finds the input elements that an element depends on by changing each: slow, but certain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from nodescope.adapters.torch.rerun.arguments import call_of
from nodescope.adapters.torch.tensors import host_array
from nodescope.events import Array
from nodescope.ops.reading import ElementDependence

_CHANGES = (0.37, -0.61, 2.3, -7.7)


class Compared(NamedTuple):
    """The reads of one element, compared.

    Attributes:
        missing: Elements, as port and position, that matter but are not listed.
        needless: Elements that are listed but do not matter at these values.
    """

    missing: set[tuple[int, int]]
    needless: set[tuple[int, int]]


def compared(
    native: str, attrs: dict[str, Any], arrays: Sequence[Array], port: int, position: int,
    told: ElementDependence, *, small: bool = False,
) -> Compared:  # fmt: skip
    """Compare the listed elements with those that matter; only inputs of floats are changed.

    ``small`` changes do not alter the winner of a comparison.
    """
    matter: set[tuple[int, int]] = set()
    before = _element(native, attrs, arrays, port, position)
    for number, array in enumerate(arrays):
        if array.dtype.kind not in "f" or array.dtype.itemsize < 4:
            continue
        for at in range(array.size):
            for change in (1e-4, -1e-4) if small else _CHANGES:
                other = np.array(array)
                other[np.unravel_index(at, array.shape)] += change
                after = _element(
                    native, attrs, [*arrays[:number], other, *arrays[number + 1 :]], port, position
                )
                if not np.array_equal(before, after, equal_nan=True):
                    matter.add((number, at))
                    break
    floats = {
        number
        for number, array in enumerate(arrays)
        if array.dtype.kind == "f" and array.dtype.itemsize >= 4
    }
    listed = {(read.port, int(at)) for read in told.reads for at in read.at if read.port in floats}
    return Compared(matter - listed, listed - matter)


def _element(
    native: str, attrs: dict[str, Any], arrays: Sequence[Array], port: int, position: int
) -> Array:
    tensors = [torch.from_numpy(np.array(array)) for array in arrays]
    with torch.inference_mode():
        output = host_array(call_of(native, attrs, tensors).run()[port])
    return np.array(output.reshape(-1)[position])
