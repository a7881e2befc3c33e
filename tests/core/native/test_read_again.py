"""Elements that an execution read and returned where they lie are not summarised again."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.ir.capabilities import OWN
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import NotedLot, noted_outputs, statistics_of

Array = np.ndarray[Any, Any]


class Sink:
    """Notes one execution per call, of which only statistics are kept."""

    def __init__(self, room: int = 1 << 20) -> None:
        self.lots: list[NotedLot] = []
        self.note: Any = noted_outputs(room, self.take, lambda: None, keep=False)

    def __call__(
        self, *outputs: Array, of: tuple[Array, ...] = (), step: int = 1, dialect: str = OWN
    ) -> bool:
        values = tuple(range(1, len(outputs) + 1))
        node = Node(1, "n", "add", "elementwise", outputs=values, dialect=dialect)
        return bool(self.note(node, 1, step, 7, 10, 30, of, outputs))

    def take(self) -> None:
        *taken, _ = self.note.take()
        self.lots.append(NotedLot(*taken))

    def statistics(self) -> Any:
        self.take()
        return statistics_of(self.lots, [0] * len(self.lots))


def most(noted: Any) -> list[float]:
    return noted.moments[:, 1].tolist()  # type: ignore[no-any-return]


def base() -> Array:
    return np.arange(600.0)


VIEWS: dict[str, Any] = {
    "reshape": lambda array: array.reshape(20, 30),
    "transposed": lambda array: array.reshape(20, 30).T,
    "axes of one": lambda array: array.reshape(1, 600, 1),
    "itself": lambda array: array,
}


@pytest.mark.parametrize("name", VIEWS)
def test_few_changed_elements_are_not_noticed_as_nothing_is_read(name: str) -> None:
    """Which shows that the statistics are those of before."""
    sink, array = Sink(), base()
    sink(array)
    array[301] = 1e6  # what programs are told not to do
    sink(VIEWS[name](array), of=(array,))
    assert most(sink.statistics()) == [599.0, 599.0]


def test_a_view_of_a_view_is_found() -> None:
    sink, array = Sink(), base()
    sink(array)
    rows = array.reshape(20, 30)
    sink(rows, of=(array,))
    array[301] = 1e6
    sink(rows.T, of=(rows,))
    sink(array.reshape(30, 20), of=(array,))
    assert most(sink.statistics()) == [599.0] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array.__imul__(2.0),
        lambda array: array.__setitem__(0, 1e6),
        lambda array: array.__setitem__(599, 1e6),
        lambda array: array.__setitem__(slice(200, 300), 1e6),
    ],
    ids=["all", "first", "last", "a sixth"],
)
def test_changes_of_many_elements_are_noticed(change: Any) -> None:
    sink, array = Sink(), base()
    sink(array)
    change(array)
    sink(array.reshape(20, 30), of=(array,))
    assert most(sink.statistics()) == [599.0, array.max()]


@pytest.mark.parametrize(
    "again",
    [
        lambda sink, array: sink(array),  # it read nothing, as operations that own a buffer
        lambda sink, array: sink(array.reshape(20, 30), of=(array.copy(),)),
        lambda sink, array: sink(array.reshape(20, 30), of=(array,), step=2),
        lambda sink, array: sink(array.reshape(20, 30), of=(array,), dialect="other"),
        lambda sink, array: sink(array[1:], of=(array,)),
        lambda sink, array: sink(array[::-1], of=(array,)),
        lambda sink, array: sink(array.view(np.int64), of=(array,)),
        lambda sink, array: (sink.take(), sink(array.reshape(20, 30), of=(array,))),
        lambda sink, array: (sink(array[:599], array), sink(array.reshape(20, 30), of=(array,))),
    ],
    ids=["no input", "other input", "other step", "other library", "part", "reversed",
         "other type", "taken", "start"],
)  # fmt: skip
def test_otherwise_statistics_are_computed_again(again: Any) -> None:
    sink, array = Sink(), base()
    sink(array)
    array[301] = 1e6
    again(sink, array)
    assert most(sink.statistics())[-1] > 1e6 - 1


def test_the_memory_of_an_array_that_is_gone_is_read_again() -> None:
    sink, owner = Sink(), np.arange(100.0)  # NumPy keeps memory of this size for the next array
    address = owner.__array_interface__["data"][0]
    sink(owner)
    del owner
    other = np.arange(100.0)
    assert other.__array_interface__["data"][0] == address
    other[3] = 1e6  # not among the sampled elements
    sink(other.reshape(20, 5), of=(other,))
    assert most(sink.statistics()) == [99.0, 1e6]


def test_an_output_is_found_after_another_one_of_its_execution() -> None:
    pairs = [(base(), base() + 1) for _ in range(8)]

    def both_found(first: Array, second: Array) -> bool:
        sink = Sink()
        sink(first, second)
        first[301] = second[301] = 1e6
        sink(second.reshape(20, 30), first.reshape(20, 30), of=(first, second))
        return most(sink.statistics()) == [599.0, 600.0, 600.0, 599.0]

    assert any(both_found(*pair) for pair in pairs)  # two addresses may have the same place


def test_a_finalizer_may_reshape_an_output_meanwhile() -> None:
    """In a garbage collection that noting an output begins, before Python 3.12."""
    sink, threshold, refused = Sink(), gc.get_threshold(), 0

    class Cycle:
        def __init__(self, array: Array) -> None:
            self.itself, self.array = self, array

        def __del__(self) -> None:
            self.array.shape = (2, 12, 1)  # which frees the axes that it had before
            self.others = [np.zeros((999, 999), np.int8) for _ in range(9)]

    try:
        for more in range(40):
            array = np.arange(48.0).reshape(2, 24)[:, ::2]
            expected = array.tobytes()
            gc.collect()
            gc.disable()
            Cycle(array)
            gc.set_threshold(gc.get_count()[0] + more % 12)
            gc.enable()
            noted = sink(array, base())
            gc.set_threshold(*threshold)
            refused += not noted
            if noted:
                (content, _) = sink.statistics().arrays(range(2), sink.lots[-1:])
                assert content.tobytes() == expected
            sink.lots.clear()
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    assert refused < 40
    assert refused or sys.version_info >= (3, 12), "no collection came in time"


def test_memory_of_others_is_read_again() -> None:
    sink, memory = Sink(), bytearray(base().tobytes())
    array = np.frombuffer(memory)
    sink(array)
    np.frombuffer(memory)[301] = 1e6
    sink(array.reshape(20, 30), of=(array,))
    assert most(sink.statistics()) == [599.0, 1e6]


def test_statistics_that_float64_cannot_hold_are_not_repeated() -> None:
    sink, array = Sink(), base()
    sink(array)
    array *= 1e300
    sink(array.reshape(20, 30), of=(array,))
    noted = sink.statistics()
    assert most(noted)[0] == 599.0
    assert most(noted)[1] == array.max()


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(sorted(VIEWS))), max_size=60))
def test_statistics_are_those_of_copies(turns: list[tuple[int, str]]) -> None:
    arrays = [base(), np.full(600, np.nan), np.arange(600, dtype=np.float32)]
    sink, alone = Sink(4000), Sink(4000)  # a few digests per lot
    for which, name in [*enumerate([*VIEWS][:3]), *turns]:
        array = arrays[which]
        view = VIEWS[name](array)
        sink(view, of=(array,))
        alone(view.copy("K"), of=(array.copy(),))
    repeated, expected = sink.statistics(), alone.statistics()
    assert np.array_equal(repeated.outputs, expected.outputs)
    assert np.array_equal(repeated.shapes, expected.shapes)
    for name in ("moments", "histograms", "previews"):  # bit by bit
        assert getattr(repeated, name).tobytes() == getattr(expected, name).tobytes()
