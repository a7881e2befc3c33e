"""Large outputs of nodescope's engine are noted by reference, and writes to them are found."""

from __future__ import annotations

import sys
import weakref
from array import array as array_of
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import (
    BLOCK,
    CODE,
    HELD,
    NBYTES,
    START,
    NotedLot,
    noted_outputs,
    statistics_of,
)
from nodescope.record.summary import BINS
from tests.core.native.test_strided_copies import laid_out
from tests.depth import some

Array = np.ndarray[Any, Any]


class Sink:
    """Notes one execution per call; nobody writes to its outputs."""

    def __init__(self, dialect: str = "nodescope", *, lasting: bool = True) -> None:
        self.note: Any = noted_outputs(4 << 20, lambda: None, lambda: None, keep=True)
        self.lasting, self.dialect = lasting, dialect

    def __call__(self, *outputs: Array, of: tuple[Array, ...] = ()) -> None:
        values = tuple(range(1, len(outputs) + 1))
        node = Node(1, "n", "add", "elementwise", outputs=values, dialect=self.dialect)
        assert self.note(node, 1, 1, 7, 10, 30, of, outputs, None, self.lasting)

    def lot(self) -> NotedLot:
        *taken, _ = self.note.take()
        return NotedLot(*taken, keep=True)


def lot_of(*outputs: Array) -> NotedLot:
    sink = Sink()
    for output in outputs:
        sink(output)
    return sink.lot()


def held(lot: NotedLot) -> list[bool]:
    """Whether each output is held."""
    return [bool(code & HELD) for code in statistics_of([lot], [0]).outputs[:, CODE]]


def written(*lots: NotedLot) -> tuple[list[bytes], list[bool]]:
    """The gathered elements of each output, and whether a write to them was found."""
    assert native.gather_elements is not None
    assert native.changed_elements is not None
    noted = statistics_of(lots, [0] * len(lots), place=True)
    assert noted.places is not None
    nbytes, places = noted.places
    pieces = tuple(lot.piece for lot in lots)
    of = (pieces, noted.outputs, noted.shapes, places)
    elements = bytes(native.gather_elements(*of, nbytes))
    starts = np.frombuffer(places, np.int64)
    changed = np.isin(starts, np.frombuffer(native.changed_elements(*of), np.int64)).tolist()
    sizes = noted.outputs[:, NBYTES].tolist()
    ends = zip(starts.tolist(), sizes, strict=True)
    return [elements[start : start + size] for start, size in ends], changed


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    "array",
    [numbers(64, 80), numbers(64, 80).astype(np.float16), np.arange(9000), numbers(90, 90) > 0,
     np.where(numbers(50, 50) > 2, np.nan, 1.0)],
)  # fmt: skip
def test_an_array_is_held_with_the_statistics_of_a_copy(array: Array) -> None:
    array = np.concatenate([array] * 3)
    views = [array, array.T, array.reshape(-1)]
    lot, copies = lot_of(*views), Sink(lasting=False)
    for view in views:
        copies(view)
    assert held(lot) == [True] * 3
    assert lot.piece[2] - lot.piece[1] < 2000
    assert lot.nbytes == lot.piece[2] - lot.piece[1] + array.nbytes
    of, other = (statistics_of([some_lot], [0]) for some_lot in (lot, copies.lot()))
    assert other.outputs[0, CODE] == of.outputs[0, CODE] - HELD
    assert of.outputs[:, :8].tolist() == other.outputs[:, :8].tolist()
    for name in ("moments", "histograms", "previews", "shapes"):
        assert np.array_equal(getattr(of, name), getattr(other, name), equal_nan=True)
    for view, noted in zip(views, of.arrays(range(3), [lot]), strict=True):
        assert np.array_equal(view, noted, equal_nan=array.dtype.kind == "f")
    assert written(lot) == ([view.tobytes() for view in views], [False] * 3)


@pytest.mark.parametrize("seed", some(range(300), 60))
def test_a_layout_of_any_kind_is_gathered_as_it_was(seed: int) -> None:
    array = laid_out(seed)
    array = np.concatenate([array] * (1 + 16384 // array.nbytes))
    axes = np.random.default_rng(seed).permutation(array.ndim)
    views = [array, array.transpose(axes), array[:1], array[::-1]]
    fitting = [view for view in views if view.nbytes < 1 << 20 and view.ndim <= 8]
    lot = lot_of(*fitting)
    assert held(lot)[:2] == [True, True][: len(fitting)]
    assert written(lot) == ([view.tobytes() for view in fitting], [False] * len(fitting))


def test_what_may_be_written_to_or_takes_little_is_copied() -> None:
    parameter, small = numbers(64, 64), numbers(2040)
    assert held(lot_of(parameter, parameter[::2], small)) == [True, False, False]
    sink = Sink("numpy")
    sink(parameter)
    assert held(sink.lot()) == [False]
    sink = Sink(lasting=False)
    sink(parameter)
    assert held(sink.lot()) == [False]


def test_a_view_is_held_if_its_array_is_out_of_reach_or_held() -> None:
    parameter = numbers(64, 64)
    sink = Sink()
    sink(parameter.reshape(-1))
    sink(numbers(64, 64).reshape(-1))  # refers to the only reference
    sink((parameter * 2)[:, :40])  # scattered
    fresh = parameter * 3
    sink(fresh)
    sink(fresh[:40])
    sink(fresh[40:])  # less than half
    assert held(sink.lot()) == [False, True, False, True, True, False]
    sink(fresh.reshape(32, 128))  # repeats no output of its own lot
    assert held(sink.lot()) == [True]


@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f4", "f8"])
def test_a_write_to_any_element_is_found(dtype: str) -> None:
    draw = np.random.default_rng(4)
    for _ in range(20):
        array = draw.integers(0, 2, (150, 120)).astype(dtype)
        other = draw.integers(0, 2, (150, 120)).astype(dtype)
        lot = lot_of(array, array.T, other, array.reshape(120, 150))
        assert written(lot)[1] == [False] * 4
        place = tuple(draw.integers(0, (150, 120)))
        array[place] = not array[place]
        assert written(lot)[1] == [True, True, False, True]
        array[place] = not array[place]
        assert written(lot)[1] == [False] * 4


def test_an_equal_array_that_was_written_first_is_given_up_with_it() -> None:
    array = numbers(64, 64)
    equal = array.copy()
    first, second = lot_of(array), lot_of(equal)
    noted = statistics_of([first, second], [0, 1], place=True)
    array[3, 4] = 0
    assert native.changed_elements is not None
    assert noted.places is not None
    of = ((first.piece, second.piece), noted.outputs, noted.shapes, noted.places[1])
    assert np.frombuffer(native.changed_elements(*of), np.int64).tolist() == [0]
    assert np.frombuffer(noted.places[1], np.int64).tolist() == [0, 0]


def test_references_are_counted_and_let_go() -> None:
    array = numbers(64, 64)
    before, gone = sys.getrefcount(array), weakref.ref(array)
    lots = [lot_of(array), lot_of(array), lot_of(numbers(64, 64))]
    assert (sys.getrefcount(array), native.holds(array)) == (before + 2, 2)
    assert lots[0].shrinks
    lots[0].reduce()
    assert (sys.getrefcount(array), native.holds(array)) == (before + 1, 1)
    del lots[1]
    assert (sys.getrefcount(array), native.holds(array)) == (before, 0)
    del array
    assert gone() is None
    sink = Sink()
    array = numbers(64, 64)
    sink(array)
    assert native.holds(array) == 1
    del sink  # what was noted is lost
    assert native.holds(array) == 0


def test_a_lot_holds_no_more_than_it_may() -> None:
    taken: list[Any] = []
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(
        256, 1 << 20, lambda: taken.append(sink.take()), lambda: None, False,
        np.zeros((2, 3, 4), np.float32)[:, ::2], True,
    )  # fmt: skip
    node = Node(1, "n", "add", "elementwise", outputs=(1,))
    for seed in range(20):
        assert sink(node, 1, 1, 7, 10, 30, (), (numbers(64, 512, seed=seed),), None, True)
    taken.append(sink.take())
    lots = [NotedLot(*lot[:-1]) for lot in taken]
    assert [len(lot) for lot in lots] == [3] * 6 + [2]
    assert all(lot.nbytes <= 1 << 20 for lot in lots)
    arrays = [
        array for lot in lots for array in statistics_of([lot], [0]).arrays(range(len(lot)), [lot])
    ]
    assert all(np.array_equal(a, numbers(64, 512, seed=seed)) for seed, a in enumerate(arrays))


@pytest.mark.parametrize("index", [-1, 1, 2, 1 << 40, -(1 << 63)])
def test_an_array_that_is_not_held_is_refused(index: int) -> None:
    lot, more = lot_of(numbers(64, 64)), lot_of(numbers(64, 65))
    noted = statistics_of([lot], [0], place=True)
    block, begin, end, arrays = lot.piece
    content = bytearray(memoryview(block)[begin:end])
    start = int(noted.outputs[0, START]) - begin
    assert array_of("q", bytes(content[start : start + 8])).tolist() == [0]
    content[start : start + 8] = array_of("q", [index]).tobytes()
    rows = noted.outputs.copy()
    rows[0, START] = start
    assert noted.places is not None
    assert native.summarise_noted is not None
    assert native.place_elements is not None
    assert native.gather_elements is not None
    assert native.changed_elements is not None
    for piece in (
        (bytes(content), 0, end - begin, arrays),
        (block, begin, end, None),
        (block, begin, end, more.piece[3]),
        (block, begin, end, [numbers(64, 64)]),
    ):
        used = rows if piece[1] == 0 else noted.outputs
        nbytes, places = noted.places
        with pytest.raises(ValueError, match="no block of noted executions"):
            native.summarise_noted((piece,), bytes(8), 1, 1, BINS)
        for function, others in (
            (native.place_elements, ()),
            (native.gather_elements, (places, nbytes)),
            (native.changed_elements, (places,)),
        ):
            function_: Any = function
            with pytest.raises(ValueError, match="no outputs of these blocks"):
                function_((piece,), used, noted.shapes, *others)
    outside = noted.outputs.copy()
    for start in (begin - 8, end - 8, end, -8, 1 << 62):
        outside[0, START] = start
        with pytest.raises(ValueError, match="no outputs of these blocks"):
            native.place_elements((lot.piece,), outside, noted.shapes)
    outside = noted.outputs.copy()
    outside[0, BLOCK] = 1
    with pytest.raises(ValueError, match="no outputs of these blocks"):
        native.changed_elements((lot.piece,), outside, noted.shapes, noted.places[1])
    with pytest.raises(ValueError, match="no places of these outputs"):
        native.changed_elements((lot.piece,), noted.outputs, noted.shapes, b"")
    with pytest.raises(IndexError, match="no such array"):
        arrays.content(index)
