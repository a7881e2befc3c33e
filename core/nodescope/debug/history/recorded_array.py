"""Recorded arrays: values of which the recording has statistics, but no elements, for conditions.

Invariant: what statistics do not say exactly raises `ConditionError`.
"""

from __future__ import annotations

from nodescope.arrays.lazy import LazyArray
from nodescope.errors import ConditionError
from nodescope.events import Array
from nodescope.ir.dtypes import as_dtype
from nodescope.record.summary import TensorSummary


class RecordedArray(LazyArray):
    """An array whose elements were not kept; shape, extremes and counts are known.

    Args:
        summary: Its statistics.
        missing: Why there are no elements, as a sentence with the value's name.
    """

    __slots__ = ("_missing",)

    def __init__(self, summary: TensorSummary, missing: str) -> None:
        self.array = None
        self.shape, self.dtype = summary.spec.shape, as_dtype(summary.spec.dtype)
        self._whole: Array | None = None
        self._summary = summary
        self._missing = missing

    def _fetched(self, window: tuple[slice, ...] | None) -> Array:
        raise ConditionError(self._missing)
