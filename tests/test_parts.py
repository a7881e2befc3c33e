"""Cases in parts: each runs once, and each failure is named."""

from __future__ import annotations

import contextlib

import pytest

from tests import parts


def of(count, *marks):
    """The tests that `in_parts` makes of a marked test, and the arguments of its cases."""
    ran = []

    def test(letter, number, fixture):
        ran.append((letter, number, fixture))
        if number == 3:
            pytest.skip("three")
        assert number != 2, "two"

    for mark in marks:
        test = mark(test)
    return parts.in_parts(count)(test), ran


LETTERS = pytest.mark.parametrize("letter", ["a", "b"])
NUMBERS = pytest.mark.parametrize("number", [1, 2, 3])


@pytest.fixture(autouse=True)
def _divided(monkeypatch):
    monkeypatch.setattr(parts, "_case_by_case", False)


def test_each_case_is_run_once_in_one_part():
    test, ran = of(4, LETTERS, NUMBERS, pytest.mark.deep)
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    assert [mark.name for mark in test.pytestmark if mark.name != "parametrize"] == ["deep"]
    for part in mark.args[1]:
        with contextlib.suppress(AssertionError, pytest.skip.Exception):
            test(part=part, fixture="f")
    assert sorted(ran) == [(letter, number, "f") for letter in "ab" for number in (1, 2, 3)]
    assert list(mark.args[1]) == [0, 1, 2, 3]


def test_a_case_that_fails_is_named_and_the_others_run():
    test, ran = of(1, LETTERS, NUMBERS)
    with pytest.raises(ExceptionGroup, match="2 of 6 cases") as caught:
        test(part=0, fixture=None)
    assert len(ran) == 6
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in the case a-2"], ["in the case b-2"],
    ]  # fmt: skip
    alone, _ = of(1, pytest.mark.parametrize(("letter", "number"), [("a", 1), ("a", 2)]))
    with pytest.raises(AssertionError, match="two") as single:
        alone(part=0, fixture=None)
    assert single.value.__notes__ == ["in the case a-2"]
    named, _ = of(1, LETTERS, pytest.mark.parametrize("number", [1, pytest.param(2, id="odd")]))
    with pytest.raises(ExceptionGroup) as caught:
        named(part=0, fixture=None)
    assert caught.value.exceptions[1].__notes__ == ["in the case b-odd"]


def test_cases_of_one_name_are_all_run():
    numbers = [object(), object()]
    same = pytest.mark.parametrize("number", numbers, ids=["x", "x"])
    test, ran = of(9, LETTERS, same)
    assert [mark.args[1] for mark in test.pytestmark] == [range(4)]
    for part in range(4):
        test(part=part, fixture=None)
    assert len({(letter, id(number)) for letter, number, _ in ran}) == 4


def test_what_cannot_be_divided_is_refused():
    with pytest.raises(ValueError, match="nothing to divide"):
        of(2)
    marked = pytest.param(1, marks=pytest.mark.deep)
    with pytest.raises(ValueError, match="marks of their own"):
        of(2, LETTERS, pytest.mark.parametrize("number", [marked]))
    with pytest.raises(ValueError, match="nothing to divide"):
        of(2, LETTERS, pytest.mark.parametrize("number", []))


def test_a_part_is_skipped_if_all_of_it_is():
    test, _ = of(1, LETTERS, pytest.mark.parametrize("number", [3]))
    with pytest.raises(pytest.skip.Exception, match="three"):
        test(part=0, fixture=None)


def test_each_case_may_be_a_test_again(monkeypatch):
    monkeypatch.setattr(parts, "_case_by_case", True)
    test, _ = of(2, LETTERS, NUMBERS)
    assert len(test.pytestmark) == 2
    assert parts.every(2, "abc") == ["a", "b", "c"]


def test_items_are_dealt_to_parts():
    assert parts.every(2, "abc") == ["ac", "b"]
    assert parts.every(9, "abc") == ["a", "b", "c"]
