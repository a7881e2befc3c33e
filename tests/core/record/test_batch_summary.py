"""Statistics of many small tensors compared with each alone; copies in reused memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.record import batch_summary
from nodescope.record.buffers import LARGE, Buffers
from nodescope.record.schema import summary_row
from nodescope.record.summary import PREVIEW, summarise

DTYPES = ["?", "i1", "u8", "f4", "f8", "f2", "c8", ">f4"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 4), (0, 2), (90, 60)]


@pytest.fixture(scope="module", autouse=True, params=["native", "python"])
def _road(request: pytest.FixtureRequest) -> Iterator[None]:
    """The native core and the Python code keep the same promises."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(native, "_core", None)
        yield


def check(arrays: list[np.ndarray[Any, Any]]) -> None:
    items = [(number, 10 + number, 3, array) for number, array in enumerate(arrays)]
    result = sorted(batch_summary.summary_rows(items), key=lambda row: row[0])
    expected = [summary_row(value, seq, step, summarise(a)) for value, seq, step, a in items]
    assert len(result) == len(expected)
    for batch_row, alone in zip(result, expected, strict=True):
        assert batch_row[:8] == alone[:8]  # The fields up to min and max.
        for first, other in zip(batch_row[8:11], alone[8:11], strict=True):
            assert first == (
                other if other is None else pytest.approx(other, rel=1e-12, abs=1e-300)
            )
        assert batch_row[11:] == alone[11:]  # The counts, the histogram and the preview.


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_gives_the_statistics_of_single_arrays(dtype: str) -> None:
    rng = np.random.default_rng(0)
    check([np.asarray(rng.integers(0, 100, shape)).astype(dtype) for shape in SHAPES * 9])


def test_what_is_not_finite_or_hardly_a_number_is_taken_alone() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(6) for _ in range(12)]
    arrays[1][2] = np.nan
    arrays[3][0] = -np.inf
    arrays[4][:] = 0.0
    arrays[5][:] = [0.0, 0.0, 5e-324, 0.0, 0.0, 0.0]
    arrays[6][:] = 1e200
    arrays[7][:] = 2.5
    arrays[8][:] = [1.0, 1.0 + 2**-52, 1.0, 1.0, 1.0, 1.0]
    arrays[9][:] = 1e-200
    check(arrays)
    check([np.full(4, np.nan)] * 5)


def test_stacks_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_summary, "_STACK", 40)
    rng = np.random.default_rng(2)
    check([rng.standard_normal(7) for _ in range(23)])
    assert PREVIEW > 7


def test_a_copy_is_a_copy_in_memory_used_again() -> None:
    buffers = Buffers(LARGE * 8)
    array = np.arange(LARGE, dtype=np.float32).reshape(2, -1).T
    first = buffers.copy(array)
    assert first.flags.c_contiguous
    assert not np.shares_memory(first, array)
    np.testing.assert_array_equal(first, array)
    buffers.give_back(first)
    second = buffers.copy(array.astype(np.int32))  # As many bytes, of another dtype.
    assert np.shares_memory(first, second)
    third = buffers.copy(array)
    assert not np.shares_memory(second, third)


def test_free_memory_is_bounded_and_another_size_takes_its_place() -> None:
    buffers = Buffers(4 * LARGE)
    copies = [buffers.copy(np.zeros(LARGE, np.int8)) for _ in range(6)]
    for copy in copies:
        buffers.give_back(copy)
    again = [buffers.copy(np.zeros(LARGE, np.int8)) for _ in range(6)]
    shared = [any(np.shares_memory(new, old) for old in copies) for new in again]
    assert sum(shared) == 4
    for item in again:
        buffers.give_back(item)
    larger = buffers.copy(np.zeros(3 * LARGE, np.int8))
    buffers.give_back(larger)
    assert np.shares_memory(larger, buffers.copy(np.zeros(3 * LARGE, np.int8)))


def test_small_and_foreign_arrays_are_left_alone() -> None:
    buffers = Buffers(LARGE)
    small = buffers.copy(np.zeros(3))
    assert small.base is None
    buffers.give_back(small)
    buffers.give_back(np.zeros(LARGE, np.int8))
    np.testing.assert_array_equal(buffers.copy(np.ones(3)), np.ones(3))
