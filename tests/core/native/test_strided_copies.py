"""Outputs of any layout are noted with their elements in C order, whatever their strides."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import NBYTES, ORDERED, START, NotedLot, statistics_of
from tests.depth import some

NODE = Node(1, "n1", "copy", "elementwise", outputs=(1,))
DTYPES = ("?", "i1", "u2", "f2", "i4", "f4", "i8", "f8")


def noted(array: np.ndarray[Any, Any]) -> tuple[bytes, bool]:
    """The elements as noted, and whether they were in C order."""
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(256, 1 << 20, lambda: None, lambda: None, False)
    assert sink(NODE, 1, 1, 7, 10, 30, (), (array,))
    *taken, _ = sink.take()
    lot = NotedLot(*taken)
    (row,) = statistics_of([lot], [5]).outputs.tolist()
    start = row[START]
    return bytes(memoryview(lot.piece[0])[start : start + row[NBYTES]]), bool(row[ORDERED])


def laid_out(seed: int) -> np.ndarray[Any, Any]:
    """An array whose axes are swapped, reversed, repeated, skipped, or not aligned."""
    draw = random.Random(seed)
    shape = tuple(draw.choice((1, 2, 3, 15, 16, 17, 33)) for _ in range(draw.randint(1, 3)))
    shape += tuple(draw.choice((1, 2, 3)) for _ in range(draw.randint(0, 4)))
    dtype = np.dtype(draw.choice(DTYPES))
    numbers = np.random.default_rng(seed).integers(0, 2 if dtype.kind == "?" else 100, shape)
    array = numbers.astype(dtype)
    if draw.random() < 0.3:  # elements between the addresses that their size suggests
        room = np.zeros(array.nbytes + 1, np.uint8)
        unaligned = room[1:].view(dtype).reshape(shape)
        unaligned[...] = array
        array = unaligned
    array = array.transpose(draw.sample(range(array.ndim), array.ndim))
    for axis in range(array.ndim):
        step = draw.choice((1, 1, -1, 2, -2))
        array = array[(slice(None),) * axis + (slice(None, None, step),)]
    if draw.random() < 0.3:
        array = np.broadcast_to(array, (3, *array.shape))
    return array


@pytest.mark.parametrize("seed", some(range(400), 120))
def test_elements_are_in_c_order(seed: int) -> None:
    array = laid_out(seed)
    if array.nbytes >= 1 << 18 or array.ndim > 8:
        array = array[(0,) * (array.ndim - 2)]
    elements, ordered = noted(array)
    assert elements == array.tobytes()
    assert ordered == array.flags.c_contiguous
