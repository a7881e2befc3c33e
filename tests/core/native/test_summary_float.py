"""Statistics of float32 in rows: the same bits on all processors, whatever their vectors."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from nodescope import native
from nodescope.record.summary import BINS, summarise

FIRST = 1024
PARTS = 16
# Around the borders of what is counted in vectors, in wide vectors, and before counts are read.
SIZES = (95, 96, 111, 112, 511, 512, 527, 1023, 1025, 16_367, 16_368, 16_385, 33_333, 100_003)


def mean_of(array: np.ndarray) -> float:
    """The mean, added in sixteen parts, of the differences from the first block's mean."""

    def total(numbers: np.ndarray) -> float:
        whole = len(numbers) - len(numbers) % PARTS
        parts = np.zeros(PARTS)
        for row in numbers[:whole].reshape(-1, PARTS):
            parts += row
        four = (parts[:4] + parts[4:8]) + (parts[8:12] + parts[12:])
        sum_ = ((four[0] + four[1]) + four[2]) + four[3]
        for number in numbers[whole:]:
            sum_ += number
        return float(sum_)

    first = array[:FIRST].astype(np.float64)
    shift = total(first) / len(first)
    return shift + total(array.astype(np.float64) - shift) / len(array)


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
