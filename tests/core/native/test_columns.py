"""Columns of integers: the core encodes what Python encodes, byte for byte."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.record.measured.packing import _packed_floats
from nodescope.record.timed.packing import column, distinct

EDGES = [
    edge + by
    for edge in (0, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 62)
    for by in (-1, 0, 1)
]


def drawn(seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Numbers of any width and with any runs, in memory of any stride."""
    draw = random.Random(seed)
    pool = [draw.choice(EDGES) * draw.choice((1, 1, -1)) for _ in range(draw.choice((1, 2, 9)))]
    if draw.random() < 0.2:
        pool += [-(1 << 63), (1 << 63) - 1]
    numbers: list[int] = []
    for _ in range(draw.choice((1, 2, 30))):
        numbers += [draw.choice(pool)] * draw.choice((1, 1, 2, 40))
    table = np.zeros((len(numbers), 3), np.int64)
    table[:, 1] = numbers
    return draw.choice((table[:, 1], table[:, 1].copy(), table[::-1, 1]))


@pytest.mark.parametrize("seed", range(300))
def test_the_core_encodes_the_same_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = drawn(seed)
    assert native.column(numbers, 0) is not None, "no native core"
    ways = [{"runs": runs, "differences": by} for runs in (True, False) for by in (True, False)]
    encoded = [column(numbers, **way) for way in ways]
    parts = [part.tolist() for part in distinct(numbers)]
    monkeypatch.setattr(native, "column", lambda numbers, mode: None)
    monkeypatch.setattr(native, "distinct", lambda numbers: None)
    assert [column(numbers, **way) for way in ways] == encoded
    assert [part.tolist() for part in distinct(numbers)] == parts


@pytest.mark.parametrize(
    "numbers",
    [np.zeros(0, np.int64), np.zeros(4, np.uint64), np.zeros(4, np.int32), np.zeros((2, 2), int)],
)
def test_other_numbers_are_left_to_python(numbers: np.ndarray[Any, Any]) -> None:
    assert native.column(numbers, 2) is None
    assert native.distinct(numbers) is None


def test_what_is_no_buffer_is_refused() -> None:
    assert native.in_use()
    for call in (lambda: native.column([1], 0), lambda: native.distinct([1])):
        with pytest.raises((TypeError, BufferError)):
            call()


@pytest.mark.parametrize(
    "row",
    [
        [0.0, -0.0, 1.5, np.nan, np.inf, -np.inf], [0.1], [1e300], [-1e300], [1e-300],
        [3.4028234663852886e38], [3.5e38], [1e-45], [16777216.0], [16777217.0],
    ],
)  # fmt: skip
def test_floats_are_narrowed_where_that_is_exact(
    row: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = np.array([row, row])
    packed = _packed_floats(numbers)
    monkeypatch.setattr(native, "in_use", lambda: False)
    assert packed == _packed_floats(numbers)
    assert _packed_floats(np.asfortranarray(numbers)) == packed
