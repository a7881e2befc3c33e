"""Outputs of any layout are noted, and their elements gathered in C order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import (
    IN_ORDER,
    ORDER,
    START,
    TURNED,
    NotedLot,
    NotedStatistics,
    statistics_of,
)
from tests.depth import some

NODE = Node(1, "n1", "copy", "elementwise", outputs=(1,))
DTYPES = ("?", "i1", "u2", "f2", "i4", "f4", "i8", "f8")
Array = np.ndarray[Any, Any]


def lot_of(*arrays: Array) -> NotedLot:
    """Executions with one output each."""
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(256, 1 << 20, lambda: None, lambda: None, False)
    for array in arrays:
        assert sink(NODE, 1, 1, 7, 10, 30, (), (array,))
    *taken, _ = sink.take()
    return NotedLot(*taken)


def gathered(lot: NotedLot, noted: NotedStatistics) -> tuple[bytes, list[int]]:
    """The elements of all outputs, and where each output has its own."""
    assert native.place_elements is not None
    assert native.gather_elements is not None
    outputs, shapes = noted.outputs, noted.shapes
    nbytes, starts = native.place_elements((lot.piece,), outputs, shapes)
    elements, _ = native.gather_elements((lot.piece,), outputs, shapes, starts, nbytes)
    return bytes(elements), np.frombuffer(starts, np.int64).tolist()


def laid_out(seed: int) -> Array:
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
def test_elements_are_those_of_the_array(seed: int) -> None:
    array = laid_out(seed)
    if array.nbytes >= 1 << 18 or array.ndim > 8:
        array = array[(0,) * (array.ndim - 2)]
    lot = lot_of(array)
    noted = statistics_of([lot], [5])
    assert np.array_equal(*noted.arrays([0], [lot]), array)
    assert gathered(lot, noted) == (array.tobytes(), [0])
    assert (noted.outputs[0, ORDER] == IN_ORDER) == array.flags.c_contiguous


def test_a_transposition_takes_no_copy_and_no_statistics_again() -> None:
    base = np.arange(480, dtype=np.float32).reshape(4, 6, 20)
    views = [base, base.T, base.transpose(1, 0, 2), base.reshape(24, 20), base.T, base.T[1:]]
    lot = lot_of(*views)
    noted = statistics_of([lot], [5])
    assert noted.outputs[:, ORDER].tolist() == [IN_ORDER, TURNED, TURNED, IN_ORDER, TURNED, 0]
    places = noted.outputs[:, START].tolist()
    assert len({*places[:5]}) == 1
    assert places[5] != places[0]
    elements, starts = gathered(lot, noted)
    arrays = list(noted.arrays(range(len(views)), [lot]))
    for row, view in enumerate(views):
        assert np.array_equal(arrays[row], view)
        assert elements[starts[row] : starts[row] + view.nbytes] == view.tobytes()
        assert noted.previews[row].tolist() == view.ravel()[:8].tolist()
        assert noted.moments[row, 2] == pytest.approx(view.mean())
    assert starts[0] == starts[3]
    assert starts[1] == starts[4]
    assert len({*starts}) == 4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("first", ["turned", "copied"])
def test_a_copy_of_a_transposition_is_gathered_beside_it(dtype: str, first: str) -> None:
    base = np.random.default_rng(1).integers(0, 2, (5, 6, 7)).astype(dtype)
    turned = base.transpose(1, 0, 2)
    copied, other = turned.reshape(6, 35), base.reshape(6, 35)
    lot = lot_of(*((turned, copied) if first == "turned" else (copied, turned)), other, base)
    noted = statistics_of([lot], [5], place=True)
    elements, starts = gathered(lot, noted)
    assert noted.places is not None
    assert np.frombuffer(noted.places[1], np.int64).tolist() == starts
    assert elements == 2 * turned.tobytes() + base.tobytes()
    assert starts == [0, base.nbytes, 2 * base.nbytes, 2 * base.nbytes]


def test_a_view_of_written_elements_is_copied() -> None:
    base = np.zeros((30, 40))
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(256, 1 << 20, lambda: None, lambda: None, False)
    for number in (0.0, 1.0):
        base[3, 4] = number
        assert sink(NODE, 1, 1, 7, 10, 30, (), (base.T,))
    *taken, _ = sink.take()
    lot = NotedLot(*taken)
    noted = statistics_of([lot], [5])
    assert noted.moments[:, 1].tolist() == [0, 1]
    assert [array[4, 3] for array in noted.arrays((0, 1), [lot])] == [0, 1]
