"""An output with the elements of an earlier one, in the same memory, is noted without a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodescope as ns
from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import (
    BLOCK,
    OUTPUT,
    START,
    NotedLot,
    noted_outputs,
    statistics_of,
)
from nodescope.record.recording import Recording
from nodescope.record.summary import BINS

Array = np.ndarray[Any, Any]
BASE = np.arange(600.0)


class Sink:
    """Notes one execution per call."""

    def __init__(self) -> None:
        self.note: Any = noted_outputs(1 << 20, lambda: None, lambda: None, keep=True)

    def __call__(self, *outputs: Array) -> None:
        node = Node(1, "n", "add", "elementwise", outputs=tuple(range(1, len(outputs) + 1)))
        assert self.note(node, 1, 1, 7, 10, 30, (), outputs)

    def lot(self) -> NotedLot:
        *taken, _ = self.note.take()
        return NotedLot(*taken)


def lot_of(*outputs: Array) -> NotedLot:
    sink = Sink()
    for output in outputs:
        sink(output)
    return sink.lot()


def elements(lot: NotedLot) -> list[bytes]:
    noted = statistics_of([lot], [0])
    return [array.tobytes() for array in noted.arrays(range(lot.outputs), [lot])]


@pytest.mark.parametrize(
    ("second", "repeats"),
    [
        (BASE.reshape(20, 30), True),
        (BASE.reshape(1, 600, 1), True),
        (BASE, True),
        (BASE.copy(), False),  # other memory
        (BASE[:599], False),
        (BASE[1:], False),
        (BASE[::-1], False),
        (BASE.reshape(20, 30).T, True),
        (BASE.reshape(20, 30)[:, :15], False),
        (BASE.view(np.int64), False),
        (BASE.view(np.float32), False),
    ],
    ids=["reshape", "axes of one", "itself", "copy", "start", "end", "reversed", "transpose",
         "columns", "other type", "other size of elements"],
)  # fmt: skip
def test_only_the_same_elements_are_repeated(second: Array, repeats: bool) -> None:
    lot = lot_of(BASE, second)
    assert (lot.copied < 1.5 * BASE.nbytes) == repeats
    assert elements(lot) == [BASE.tobytes(), second.tobytes()]


@pytest.mark.parametrize(
    "outputs",
    [
        (BASE[:300], BASE),
        (BASE.view(np.int64), BASE),
        (BASE, BASE[:300], BASE),
        (BASE.copy(), BASE, BASE.reshape(6, 100), BASE[::2]),
    ],
    ids=["start first", "other type first", "start between", "copy first"],
)
def test_an_output_is_repeated_after_another_one_of_its_execution(
    outputs: tuple[Array, ...],
) -> None:
    sink = Sink()
    sink(BASE)
    sink(*outputs)
    assert elements(sink.lot()) == [array.tobytes() for array in (BASE, *outputs)]


def test_outputs_of_an_execution_do_not_take_each_other_s_places() -> None:
    memory = np.arange(2400.0)
    for half in range(100, 1200, 4):  # some pairs share a place among the recent outputs
        sink, expected = Sink(), []
        for _ in range(2):
            memory[0] += 1
            outputs = memory[:half], memory[half : 2 * half]
            sink(*outputs)
            expected += [output.tobytes() for output in outputs]
        assert elements(sink.lot()) == expected


def test_small_outputs_are_not_compared() -> None:
    small = np.arange(7.0)
    rows = statistics_of([lot_of(small, small)], [0]).outputs
    assert rows[0, START] != rows[1, START]


def test_an_output_that_was_changed_meanwhile_is_copied() -> None:
    sink, array = Sink(), BASE.copy()
    sink(array)
    array[599] = np.nan
    sink(array)
    array[599] = 599.0
    sink(array.reshape(30, 20))  # like the first, but the second is the latest in this memory
    before, changed, after = elements(sink.lot())
    assert before == after == BASE.tobytes()
    assert np.isnan(np.frombuffer(changed)[599])


def test_a_lot_does_not_repeat_outputs_of_an_earlier_one() -> None:
    sink = Sink()
    sink(BASE)
    first = sink.lot()
    sink(BASE)
    assert elements(first) == elements(sink.lot())


def test_a_full_lot_is_taken_before_an_output_is_repeated() -> None:
    lots: list[NotedLot] = []

    def take() -> None:
        *taken, _ = sink.take()
        lots.append(NotedLot(*taken))

    sink: Any = noted_outputs(20_000, take, lambda: None, keep=True)
    node = Node(1, "n", "add", "elementwise", outputs=(1, 2))
    arrays = [BASE + turn for turn in range(40)]
    for array in arrays:
        assert sink(node, 1, 1, 7, 10, 30, (), (array, array))
        assert sink(node, 1, 1, 7, 10, 30, (), (array.reshape(2, 300), array + 1))
    take()
    assert len(lots) > 20
    told = [content for lot in lots for content in elements(lot)]
    expected = [[array, array, array, array + 1] for array in arrays]
    assert told == [array.tobytes() for four in expected for array in four]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=30))
def test_statistics_are_those_of_copies(turns: list[tuple[int, int]]) -> None:
    arrays = [BASE[:96].copy(), np.full(96, np.nan), np.arange(96, dtype=np.float32)]
    shapes = [(96,), (4, 24), (2, 3, 16), (96, 1)]
    outputs = [arrays[which].reshape(shapes[shape]) for which, shape in turns]
    repeated = statistics_of([lot_of(*outputs)], [3])
    alone = statistics_of([lot_of(*(output.copy() for output in outputs))], [3])
    places = [column for column in range(OUTPUT) if column != START]
    assert np.array_equal(repeated.outputs[:, places], alone.outputs[:, places])
    assert np.array_equal(repeated.shapes, alone.shapes)
    for name in ("moments", "histograms", "previews"):  # bit by bit
        assert getattr(repeated, name).tobytes() == getattr(alone, name).tobytes()
    assert repeated[7:] == alone[7:]


# Of the second output: its type, the length of its axis, its size and the number that it repeats.
@pytest.mark.parametrize(
    ("word", "content"),
    [
        *((6, number) for number in (-1, 1, 2, 1 << 40)),
        (1, 512 | ord("q")),
        (1, 512 | ord("f")),
        (1, 512 | ord("Z")),
        (1, ord("d")),
        (4, 599),
        (4, 601),
        (4, -600),
        (4, 1 << 62),
        (3, 16),
        (3, 4800),
    ],
)
def test_a_lot_with_a_damaged_repeated_output_is_refused(word: int, content: int) -> None:
    lot = lot_of(BASE, BASE)
    block, begin, end, _ = lot.piece
    words = np.frombuffer(bytearray(memoryview(block)[begin:end]), np.int64)
    second = words[-7:]
    assert (second[0], second[1], second[-1]) == (1, 512 | ord("d"), 0)
    second[word] = content
    assert native.summarise_noted is not None
    with pytest.raises(ValueError, match="no block of noted executions"):
        native.summarise_noted(((words.tobytes(), 0, end - begin),), bytes(8), 2, 2, BINS)


def test_outputs_of_several_lots_repeat_those_of_their_own() -> None:
    lots = [lot_of(BASE + turn, (BASE + turn).copy(), BASE) for turn in range(3)]
    rows = statistics_of(lots, [0, 3, 6]).outputs
    assert rows[:, BLOCK].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_recording_has_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level="values"):
        for step in ns.steps(range(20)):
            x = ns.tensor(BASE[:400]) * float(step)
            ns.reshape(ns.reshape(x, (20, 20)), (4, 100))
    shapes = {"multiply": (400,), "reshape": (20, 20), "reshape_1": (4, 100)}
    with Recording.open(path) as recording:
        ids = {row.node.name: (row.node.id, row.node.outputs[0]) for row in recording.nodes()}
        for name, shape in shapes.items():
            node, value = ids[name]
            runs = [row for row in recording.executions() if row.node == node]
            for step, run in enumerate(runs):
                array = recording.array(value, run.seq)
                assert array is not None
                assert array.shape == shape
                assert np.array_equal(array.ravel(), BASE[:400] * step)
            assert len(runs) == 20
