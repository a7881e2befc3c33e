"""Targets, as typed by a user."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.debug.why import Target, parse_target
from nodescope.debug.why.target import positions
from nodescope.errors import ReplayError


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("loss", Target("loss")),
        ("loss[0]", Target("loss", (0,))),
        ("hidden/tanh[4, 17]@12", Target("hidden/tanh", (4, 17), 12)),
        (" a/b:1 @3", Target("a/b:1", None, 3)),
        ("w[-1, 1:3, ::2]", Target("w", (-1, slice(1, 3), slice(None, None, 2)))),
        ("x[NaN]", Target("x", "nan")),
        ("x[max]@0", Target("x", "max", 0)),
        ("x[(4, 17)]", Target("x", (4, 17))),
        ("x[]", Target("x", ())),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize("text", ["", "loss[", "loss]0[", "a@b", "[0]", "loss[0][1]", "loss@-1"])
def test_targets_without_an_element(text: str) -> None:
    with pytest.raises(ReplayError, match="does not name an element"):
        parse_target(text)


@pytest.mark.parametrize("text", ["loss[a]", "loss[1.5]", "loss[1:2:3:4]", "loss[__import__]"])
def test_invalid_indices(text: str) -> None:
    with pytest.raises(ReplayError, match="is not an index"):
        parse_target(text)


@given(st.text(max_size=30))
def test_any_text_is_a_target_or_an_error_of_ours(text: str) -> None:
    try:
        assert isinstance(parse_target(text), Target)
    except ReplayError:
        pass


def test_positions() -> None:
    x = np.array([[1.0, np.nan, -7.0], [np.inf, 0.0, np.nan]])
    assert positions(x, None, "x") == [1]
    assert positions(x, "nan", "x") == [1, 5]
    assert positions(x, "inf", "x") == [3]
    assert positions(x, "nonfinite", "x") == [1, 3, 5]
    assert positions(x, "zero", "x") == [4]
    assert positions(x, (1, slice(None)), "x") == [3, 4, 5]
    assert positions(x, -1, "x") == [3, 4, 5]
    assert positions(x, x == 0, "x") == [4]
    assert positions(np.array([1.0, -7.0]), None, "x") == [1]
    assert positions(np.array(3.0), (0,), "x") == [0]
    assert positions(np.array([1.0, 4.0, 2.0]), "max", "x") == [1]
    assert positions(np.array([True, False]), None, "x") == [0]


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ((5, 0), "out of bounds"),
        ((0, 0, 0), "too many indices"),
        ("nan", "no nan element"),
        (np.zeros((2, 2), bool), "does not match the shape"),
        (np.ones(3, bool), "does not match the shape"),
        ((slice(0, 0),), "does not name an element"),
    ],
)
def test_positions_outside_the_array_are_refused(index: object, said: str) -> None:
    with pytest.raises(ReplayError, match=said):
        positions(np.zeros((2, 2)), index, "x")


def test_an_empty_array_has_no_element() -> None:
    with pytest.raises(ReplayError, match=r"x has no elements; its shape is \(0, 3\)"):
        positions(np.zeros((0, 3)), None, "x")
