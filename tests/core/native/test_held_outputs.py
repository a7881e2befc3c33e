"""Large outputs of nodescope's engine are noted by reference, and writes to them are found."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from array import array as array_of
from collections import Counter
from collections.abc import Sequence
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
    NotedStatistics,
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
    return gathered(lots, statistics_of(lots, [0] * len(lots), place=True))


def gathered(lots: Sequence[NotedLot], noted: NotedStatistics) -> tuple[list[bytes], list[bool]]:
    """`written` of elements that were placed before."""
    assert native.gather_elements is not None
    assert noted.places is not None
    nbytes, places = noted.places
    pieces = tuple(lot.piece for lot in lots)
    memory, rows = native.gather_elements(pieces, noted.outputs, noted.shapes, places, nbytes)
    elements, starts = bytes(memory), np.frombuffer(places, np.int64)
    changed = np.isin(np.arange(len(starts)), np.frombuffer(rows, np.int64)).tolist()
    sizes = noted.outputs[:, NBYTES].tolist()
    ends = zip(starts.tolist(), sizes, strict=True)
    arrays = [*noted.gathered(memory, starts)]
    parts = [elements[start : start + size] for start, size in ends]
    assert [array.tobytes() for array in arrays] == parts
    return parts, changed


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


def test_a_view_is_held_by_its_array_if_that_is_out_of_reach() -> None:
    parameter = numbers(64, 64)
    sink = Sink()
    sink(parameter.reshape(-1))
    view = numbers(64, 64).reshape(-1)  # refers to the only reference
    sink(view)
    sink((parameter * 2)[:, :40])  # scattered
    fresh = parameter * 3
    sink(fresh)
    sink(fresh[:40])
    assert (native.holds(view), native.holds(view.base)) == (0, 1)
    assert (native.holds(fresh), native.holds(parameter)) == (1, 0)
    expected = view.tobytes()
    del view
    lot = sink.lot()
    assert held(lot) == [False, True, False, True, False]
    assert written(lot)[0][1] == expected
    sink(fresh.reshape(32, 128))  # repeats no output of its own lot
    assert held(sink.lot()) == [False]


@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f4", "f8"])
def test_a_write_to_any_element_is_found(dtype: str) -> None:
    draw = np.random.default_rng(4)
    for _ in range(20):
        array = draw.integers(0, 2, (150, 120)).astype(dtype)
        other = draw.integers(0, 2, (150, 120)).astype(dtype)
        lot = lot_of(array, array.T, other, array.reshape(120, 150))
        assert written(lot)[1] == [False] * 4
        again = held(lot)[3]  # unless the address of `other` took its place
        place = tuple(draw.integers(0, (150, 120)))
        array[place] = not array[place]
        assert written(lot)[1] == [True, True, False, again]
        array[place] = not array[place]
        assert written(lot)[1] == [False] * 4


PATTERNS = [
    [1, 0, 0, 1] * 64,
    [1] * 128 + [0] * 128,
    [bin(i).count("1") % 2 for i in range(256)],  # of Thue and Morse
]


@pytest.mark.parametrize("dtype", ["?", "u1", "f2", "i4", "f4", "f8"])
def test_the_same_elements_in_another_order_are_others(dtype: str) -> None:
    """Also if sums of elements and of their places are the same."""
    for rows in (2, 4, 16, 64):  # of one column
        for start in range(0, 136, 8):
            column = np.ones((200, 256), dtype)
            other = column.copy()
            other[start : start + rows, 3] = 0 if dtype == "?" else np.array(255).astype(dtype)
            assert_found(column, other)
    for pattern in PATTERNS:
        rows = np.tile(np.array(pattern, dtype), (256, 1))
        for array in (rows, np.ascontiguousarray(rows.T)):
            assert_found(array, 1 - array if dtype != "?" else ~array)
    draw = np.random.default_rng(5)
    array = draw.integers(0, 3, (256, 256)).astype(dtype)
    for other in (array[::-1], array[:, ::-1], array.T, np.roll(array, 1), np.roll(array, 128, 0)):
        assert_found(array, other)
    shuffled = array.reshape(-1).copy()
    draw.shuffle(shuffled)
    assert_found(array, shuffled.reshape(array.shape))


def assert_found(before: Array, now: Array) -> None:
    array = before.copy()
    lot = lot_of(array)
    assert held(lot) == [True]
    array[...] = now
    assert written(lot)[1] == [True]
    array[...] = before
    assert written(lot) == ([before.tobytes()], [False])


def test_an_array_that_becomes_equal_to_another_one_is_missing_alone() -> None:
    """Before it is placed, so that both are at the same place."""
    for order_in_memory in ("C", "F"):
        outputs = [np.array(numbers(64, 65, seed=i), order=order_in_memory) for i in (0, 1)]
        array, equal = outputs
        expected = [output.tobytes() for output in outputs]
        for order in ((0, 1), (1, 0)):
            lots = [lot_of(outputs[place]) for place in order]
            before = equal.copy()
            equal[...] = array
            elements, changed = written(*lots)
            assert changed == [place == 1 for place in order]
            assert elements[order.index(0)] == expected[0]
            equal[...] = before
            assert written(*lots) == ([expected[place] for place in order], [False, False])


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_shares_the_place_of_a_written_array_takes_it_over(order: Any) -> None:
    array = np.array(numbers(64, 65), order=order)
    copied, equal, expected = Sink("numpy"), array.copy("K"), array.tobytes()
    copied(equal)
    for lots, lost in (
        ([lot_of(array), copied.lot(), lot_of(array)], [True, False, False]),
        ([*map(lot_of, (array, array, equal, equal.copy("K")))], [True, True, False, False]),
    ):
        noted = statistics_of(lots, [*range(len(lots))], place=True)
        assert noted.places is not None
        assert {*np.frombuffer(noted.places[1], np.int64).tolist()} == {0}
        before = array[3, 4]
        array[3, 4] += 1
        elements, changed = gathered(lots, noted)
        assert changed == lost
        assert elements[-1] == expected
        array[3, 4] = before
        assert gathered(lots, noted)[1] == [False] * len(lots)


def test_a_copy_that_comes_first_has_the_elements_of_a_written_array() -> None:
    for order in ("C", "F"):
        array = np.array(numbers(64, 65), order=order)
        sink = Sink("numpy")
        sink(array.copy("K"))
        lots = [sink.lot(), lot_of(array)]
        noted = statistics_of(lots, [0, 1], place=True)
        before = array.tobytes()
        array[0, 0] += 1
        assert gathered(lots, noted) == ([before, before], [False, False])
        assert written(*lots)[1] == [False, True]


@pytest.mark.parametrize("order", ["C", "F"])
def test_elements_are_those_that_were_noted_whenever_the_program_writes(order: Any) -> None:
    array = np.zeros((300, 400), order=order)
    lots = [lot_of(array), lot_of(array.copy("K"))]
    expected, go_on = bytes(array.nbytes), True

    def writes() -> None:
        while go_on:
            for number in (1.0, 0.0):
                array[...] = number

    thread = threading.Thread(target=writes)
    thread.start()
    try:
        found = [written(*lots) for _ in range(60)]
    finally:
        go_on = False
        thread.join()
    for elements, changed in found:
        for content, lost in zip(elements, changed, strict=True):
            assert lost or content == expected
    array[...] = 0.0
    assert written(*lots) == ([expected, expected], [False, False])


def test_statistics_of_a_view_are_those_of_its_time() -> None:
    """Its first elements are others than those of the array."""
    array = numbers(64, 65)
    lot, expected = lot_of(array, array.T, array.reshape(65, 64)), array.T.ravel()[:8].tolist()
    first = array.ravel()[:8].tolist()
    array[...] = -7.0
    previews = statistics_of([lot], [0]).previews.tolist()
    assert previews == [first, expected, first]


def test_a_view_of_a_written_array_has_its_own_statistics() -> None:
    array = numbers(64, 64)
    sink = Sink()
    sink(array)
    sink(array.T)
    array[...] = 7.0
    sink(array.T)
    lot = sink.lot()
    noted = statistics_of([lot], [0])
    assert held(lot) == [True, True, False]  # refers to memory that others refer to
    assert noted.moments[0].tolist() == noted.moments[1].tolist()
    assert noted.moments[2, :3].tolist() == [7.0] * 3
    elements, changed = written(lot)
    assert changed == [True, True, False]
    assert elements[2] == np.full((64, 64), 7.0).tobytes()


def test_a_resized_array_is_missing() -> None:
    for size in (9_999, 2):
        array = np.arange(1e4)
        lot = lot_of(array)
        array.resize(size, refcheck=False)  # perhaps in place
        assert written(lot)[1] == [True]
    array = np.arange(1e4)
    lot = lot_of(array, numbers(64, 64))
    array.resize(3_000_000, refcheck=False)
    assert array[9999] == 9999.0
    for _ in range(2):
        assert written(lot)[1] == [True, False]
    array.resize(10, refcheck=False)
    assert written(lot)[1] == [True, False]


def test_what_follows_the_end_of_an_array_keeps_nobody_waiting() -> None:
    """It has a thread of its own: others may own locks that it needs, or have others wait."""
    told: list[int] = []
    lock = threading.Lock()

    def ended(_: object) -> None:
        with lock:
            told.append(threading.get_ident())

    array, other = numbers(64, 64), numbers(64, 65)
    lots = [lot_of(array), lot_of(other)]
    watching = [weakref.ref(array, ended), weakref.ref(other, ended)]
    assert held(lot_of(array)) == [False]  # somebody waits for its end
    del array, other
    with lock:
        lots.clear()
        assert told == []
    while len(told) < 2:
        time.sleep(0)
    assert threading.get_ident() not in told
    assert [reference() for reference in watching] == [None, None]


@pytest.mark.parametrize("seed", some(range(60), 6))
def test_references_to_any_number_of_arrays_are_counted(seed: int) -> None:
    draw = np.random.default_rng(seed)
    arrays = [np.full(2048, float(i)) for i in range(draw.integers(1, 900))]
    lots: list[list[int]] = []
    kept: list[NotedLot] = []
    for _ in range(40):
        if draw.random() < 0.6 or not lots:
            lots.append([*{*draw.integers(0, len(arrays), draw.integers(1, 120)).tolist()}])
            kept.append(lot_of(*[arrays[i] for i in lots[-1]]))
        else:
            place = int(draw.integers(len(lots)))
            del kept[place], lots[place]
        counts = Counter(i for lot in lots for i in lot)
        if draw.random() < 0.2:
            assert [native.holds(array) for array in arrays] == [
                counts[i] for i in range(len(arrays))
            ]
    kept.clear()
    assert not any(native.holds(array) for array in arrays)


def test_references_are_counted_and_let_go() -> None:
    array = numbers(64, 64)
    before = sys.getrefcount(array)
    lots = [lot_of(array), lot_of(array), lot_of(numbers(64, 64))]
    gone = weakref.ref(array)
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
    elements, changed = written(*lots)
    assert not any(changed)
    assert elements == [numbers(64, 512, seed=seed).tobytes() for seed in range(20)]


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
        native.place_elements((lot.piece,), outside, noted.shapes)


def test_strides_that_leave_the_array_are_refused() -> None:
    assert native.summarise_noted is not None
    lot = lot_of(numbers(64, 64))
    block, begin, end, arrays = lot.piece
    content = bytearray(memoryview(block)[begin:end])
    strides = int(statistics_of([lot], [0]).outputs[0, START]) - begin - 16
    assert array_of("q", bytes(content[strides : strides + 16])).tolist() == [512, 8]
    for wrong in ([1 << 40, 8], [512, -8], [8, 8], [0, 0]):
        content[strides : strides + 16] = array_of("q", wrong).tobytes()
        with pytest.raises(ValueError, match="no block of noted executions"):
            native.summarise_noted(
                ((bytes(content), 0, end - begin, arrays),), bytes(8), 1, 1, BINS
            )
