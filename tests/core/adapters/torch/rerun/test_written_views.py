"""The value of a tensor after writes through other views, from their places in its memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope.adapters.torch.rerun.written_views import sources, updated
from nodescope.errors import ReplayError

BASE = np.arange(12.0).reshape(3, 4)
WHOLE = (0, (3, 4), (4, 1))
ROW = (4, (4,), (1,))
COLUMN = (2, (3,), (4,))


def attrs(*places: Any, place: Any = WHOLE) -> dict[str, Any]:
    return {"places": places, "place": place}


def test_later_writes_cover_earlier_ones() -> None:
    row, column = np.full(4, -1.0), np.full(3, -2.0)
    result = updated([BASE, row, column], attrs(WHOLE, ROW, COLUMN))
    expected = BASE.copy()
    expected[1] = -1
    expected[:, 2] = -2
    np.testing.assert_array_equal(result, expected)


def test_another_view_of_the_memory() -> None:
    result = updated([BASE, np.full(3, -2.0)], attrs(WHOLE, COLUMN, place=ROW))
    assert result.tolist() == [4, 5, -2, 7]


def test_each_element_has_one_source() -> None:
    port, element = sources([BASE, np.full(3, -2.0)], attrs(WHOLE, COLUMN))
    assert port.reshape(3, 4).tolist() == [[0, 0, 1, 0]] * 3
    assert element.reshape(3, 4)[:, 2].tolist() == [0, 1, 2]
    assert element.reshape(3, 4)[2].tolist() == [8, 9, 2, 11]


@pytest.mark.parametrize(
    ("arrays", "places"),
    [
        ([np.zeros(4)], attrs(ROW)),  # The other elements of the whole array are unknown.
        ([np.zeros(3)], attrs(ROW, place=ROW)),  # Another size.
        ([BASE], {}),
        ([BASE], attrs((0, (3, 4), (4, -1)))),
        ([BASE], attrs((0, (3, 4), (4,)))),
        ([BASE], attrs("whole")),
        ([], attrs()),
        ([np.zeros(1), np.zeros(1, np.int8)], attrs(*[(0, (1,), (1,))] * 2, place=(0, (1,), (1,)))),
        ([BASE], attrs(WHOLE, place=(0, (1 << 40,), (0,)))),
    ],
)
def test_what_does_not_fit_is_refused(arrays: list[Any], places: dict[str, Any]) -> None:
    with pytest.raises(ReplayError):
        updated(arrays, places)
