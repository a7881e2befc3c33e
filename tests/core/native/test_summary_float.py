"""Statistics of float32 in rows: the same bits on all processors, whatever their vectors."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from nodescope import native
from nodescope.record.summary import BINS, summarise

AT_ONCE = 65_536
# Around the borders of what is counted in vectors, in wide vectors, before counts are read, and
# added up in the same parts.
SIZES = (
    95, 96, 111, 112, 127, 129, 511, 512, 527, 1023, 1025, 16_367, 16_368, 16_385, 33_333, 65_535,
    65_537, 100_003, 131_105,
)  # fmt: skip


def total(numbers: np.ndarray) -> float:
    """The sum, in sixteen parts of pairs of numbers."""
    sum_ = 0.0
    for at in range(0, len(numbers), AT_ONCE):
        some = numbers[at : at + AT_ONCE]
        whole = len(some) - len(some) % 32
        parts = np.zeros(16)
        for row in some[:whole].reshape(-1, 2, 16):
            parts += row[0] + row[1]
        four = (parts[:4] + parts[4:8]) + (parts[8:12] + parts[12:])
        sum_ += float(((four[0] + four[1]) + four[2]) + four[3])
        for number in some[whole:]:
            sum_ += float(number)
    return sum_


def mean_of(array: np.ndarray) -> float:
    """The mean; if it is large beside the spread, by the differences from a first one."""
    numbers = array.astype(np.float64)
    mean = total(numbers) / len(numbers)
    if mean**2 > 0.8 * (numbers**2).mean():
        return mean + total(numbers - mean) / len(numbers)
    return mean


@pytest.mark.parametrize("size", SIZES)
def test_vectors_of_any_width_give_the_same(size: int) -> None:
    assert native.summarise_noted is not None
    rng = np.random.default_rng(size)
    for array in (
        rng.standard_normal(size).astype(np.float32) * np.float32(3) + np.float32(0.25),
        np.maximum(rng.standard_normal(size), 0).astype(np.float32),
        np.round(rng.standard_normal(size) * 8).astype(np.float32),  # on the borders of bins
        (rng.standard_normal(size) * 1e-3 + 100).astype(np.float32),
    ):
        summary = summarise(array)
        exact = array.astype(np.float64)
        low, high = exact.min(), exact.max()
        places = ((exact - low) * (BINS / (high - low))).astype(np.int64)
        counts = np.bincount(np.minimum(places, BINS - 1), minlength=BINS)
        assert summary.histogram == tuple(counts.tolist())
        assert (summary.min, summary.max) == (low, high)
        assert summary.zero_count == (array == 0).sum()
        if platform.machine() == "x86_64":  # Elsewhere the sums are added in another order.
            assert summary.mean == mean_of(array)
        assert summary.mean == pytest.approx(exact.mean(), rel=1e-9)
        assert summary.std == pytest.approx(exact.std(), rel=1e-12)
