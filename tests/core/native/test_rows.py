"""Rows of statistics from memory of another library: those of `native.statistics`."""

from __future__ import annotations

from array import array as array_of
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.record.blocks import STATISTICS
from nodescope.record.summary import BINS


class _Table:
    """Some rows, and what they are of."""

    def __init__(self, rows: int) -> None:
        self.rows = np.zeros(rows, STATISTICS)
        self.origins = array_of("q", [-1] * (2 * rows))

    def fill(
        self, place: int, array: np.ndarray[Any, Any], *, same: int = -1, version: int = 0,
        copy: int = 0, layout: bytes | None = None,
    ) -> Any:  # fmt: skip
        assert native.fill_row is not None
        if layout is None:
            numbers = (ord(array.dtype.char), array.itemsize, array.ndim)
            layout = array_of("q", [*numbers, *array.shape, *array.strides]).tobytes()
        return native.fill_row(
            self.rows.ctypes.data, place, same, self.origins.buffer_info()[0], version,
            array.ctypes.data, layout, copy,
        )  # fmt: skip

    def check(self, place: int, array: np.ndarray[Any, Any]) -> None:
        row, statistics = self.rows[place], native.statistics(array, BINS)
        assert statistics is not None
        low, high, mean, std, norm, nan, inf, zero, histogram, preview = statistics
        assert row["moments"].tolist() == [low, high, mean, std, norm]
        assert [row[name] for name in ("nan", "inf", "zero")] == [nan, inf, zero]
        assert row["finite"] == array.size - nan - inf
        assert tuple(row["histogram"]) == histogram
        assert tuple(row["preview"][: row["previewed"]]) == preview


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "?"])
@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (40, 3, 9)])
def test_a_row_is_the_statistics_of_the_array(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    table = _Table(2)
    for view in (array, array.T, array[::-1] if shape else array):
        assert table.fill(1, view)
        table.check(1, view)
    assert not table.rows[0].tobytes().strip(b"\0")


def test_nothing_finite_and_nothing_at_all() -> None:
    table = _Table(2)
    assert table.fill(0, np.array([np.nan, np.inf, -np.inf]))
    assert [table.rows[0][name] for name in ("finite", "nan", "inf")] == [0, 1, 2]
    assert table.fill(1, np.zeros((0, 3)))
    assert not table.rows[1].tobytes().strip(b"\0")
    assert table.fill(0, np.array([1e200])) is False


def test_the_same_elements_are_counted_once_unless_they_have_changed() -> None:
    array, table = np.arange(12.0).reshape(3, 4), _Table(3)
    assert table.fill(0, array, same=-2, version=4)
    table.rows[0]["zero"] = 77  # A mark that shows whether the row is copied.
    assert table.fill(1, array.T, same=0, version=4)
    assert table.rows[1]["zero"] == 77
    assert table.rows[1]["preview"].tolist() == array.T.ravel()[:8].tolist()
    assert table.fill(2, array.T, same=0, version=5)
    table.check(2, array.T)
    array[1, 1] = 100.0  # The version does not count this write.
    assert table.fill(1, array.T, same=0, version=4)
    table.check(1, array.T)


def test_a_row_whose_elements_have_not_changed_is_kept() -> None:
    array, table = np.arange(12.0), _Table(2)
    assert table.fill(0, array, same=-2, version=4)
    table.rows[0]["zero"] = 77  # A mark that shows whether the row is kept.
    copy = np.zeros(12)
    assert table.fill(0, array, same=-2, version=4, copy=copy.ctypes.data)
    assert table.rows[0]["zero"] == 77
    assert copy.tolist() == array.tolist()
    for version in (4, 5):
        array[3] += 1.0  # Noticed, whether the version counts it or not.
        assert table.fill(0, array, same=-2, version=version)
        table.check(0, array)
    array[0] = 1e200
    for _ in range(2):
        assert table.fill(0, array, same=-2, version=6) is False
    table.rows[1]["zero"] = 77
    assert table.fill(1, np.arange(12.0), version=4)
    table.check(1, np.arange(12.0))  # Alone: no checksum tells whether its elements have changed.


@pytest.mark.parametrize("at", [0, 5, 1000, 4098])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1"])
def test_a_write_without_a_new_version_is_noticed_at_any_place(at: int, dtype: str) -> None:
    array, table = np.zeros(4099, dtype), _Table(2)
    assert table.fill(0, array, same=-2, version=4)
    array[at] = 1
    assert table.fill(1, array, same=0, version=4)
    table.check(1, array)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("columns", [slice(64, 128), slice(0, 50), slice(170, 192)])
def test_views_of_a_part_are_compared_by_the_elements_of_the_part(
    columns: slice, turned: bool
) -> None:
    whole, table = np.random.default_rng(0).standard_normal((8, 6, 192)).astype("f4"), _Table(2)
    part = whole[:, :, columns]
    heads = part.reshape(8, 6, 2, -1).transpose(0, 2, 1, 3)
    assert np.shares_memory(heads, whole)
    heads = heads[::-1, :, ::-1] if turned else heads
    assert table.fill(0, part, same=-2, version=4)
    table.rows[0]["zero"] = 77
    whole[:, :, columns.stop % 192] += 1.0  # Beside the part.
    assert table.fill(1, heads, same=0, version=4)
    assert table.rows[1]["zero"] == 77
    for at in ((0, 0, 0, 0), (7, 1, 5, -1)):
        heads[at] += 1.0
        assert table.fill(1, heads, same=0, version=4)
        table.check(1, heads)


def test_elements_with_gaps_are_counted_again() -> None:
    array, table = np.arange(128.0), _Table(2)
    assert table.fill(0, array[::8], same=-2, version=4)
    table.rows[0]["zero"] = 77
    assert table.fill(1, array[::8], same=0, version=4)
    table.check(1, array[::8])


@pytest.mark.parametrize("turned", [False, True])
def test_elements_are_copied_in_the_order_of_their_indices(turned: bool) -> None:
    array = np.arange(24, dtype="f4").reshape(4, 6)
    array = array.T if turned else array
    copy = np.zeros(array.size, "f4")
    assert _Table(1).fill(0, array, copy=copy.ctypes.data)
    assert copy.tolist() == array.ravel().tolist()


@pytest.mark.parametrize("layout", [b"", bytes(24), array_of("q", [ord("f"), 4, 1, 3]).tobytes()])
def test_an_invalid_layout_is_refused(layout: bytes) -> None:
    with pytest.raises(ValueError, match="layout"):
        _Table(1).fill(0, np.zeros(3, "f4"), layout=layout)
