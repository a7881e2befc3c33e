"""Marking steps and scopes."""

from __future__ import annotations

import pytest

import nodescope as ns
from nodescope.errors import UsageError


@pytest.mark.parametrize(
    ("items", "hint"), [(300, r"ns\.steps\(range\(300\)\)"), (None, "give an iterable")]
)
def test_anything_but_a_sequence_is_refused_with_a_hint(items: object, hint: str) -> None:
    with pytest.raises(UsageError, match=f"cannot iterate over {items}.*{hint}"):
        for _ in ns.steps(items):  # type: ignore[arg-type]
            pass


def test_what_only_has_items_by_number_is_iterated_over() -> None:
    class Pages:
        def __getitem__(self, number: int) -> int:
            if number > 2:
                raise IndexError
            return number

    assert list(ns.steps(Pages())) == [0, 1, 2]  # type: ignore[arg-type]
