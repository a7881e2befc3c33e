"""TensorSummary: what is kept of a tensor when the tensor itself is not.

Invariant: nan_count, inf_count and zero_count are exact for every dtype and layout. min, max, mean,
std, norm and the histogram are over the finite elements.
"""

from __future__ import annotations

import msgspec

from nodescope.ir.graph import TensorSpec


class TensorSummary(msgspec.Struct, frozen=True):
    """Statistics of one tensor at one moment.

    Attributes:
        spec: Shape and dtype of this very tensor.
        nbytes: Size of its elements in bytes.
        min, max, mean, std, norm: Over finite elements, as float64; None without any. ``std`` is
            the population's (ddof 0), ``norm`` the Euclidean norm. For complex tensors they are of
            the magnitude; for bool of 0 and 1.
        nan_count, inf_count, zero_count: Exact counts of elements.
        histogram: Counts of finite elements in equal bins from ``min`` to ``max``; empty if none.
        preview: The first elements in C order, at most 8, as float64 (or the magnitude).
        blob: Whether the full array is kept in the recording.
    """

    spec: TensorSpec
    nbytes: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    norm: float | None = None
    nan_count: int = 0
    inf_count: int = 0
    zero_count: int = 0
    histogram: tuple[int, ...] = ()
    preview: tuple[float, ...] = ()
    blob: bool = False
