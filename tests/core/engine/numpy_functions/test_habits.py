"""Habits from other libraries: errors say what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

import nodescope as ns
from nodescope.errors import MissingError, UnsupportedError

X = ns.tensor([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"dim": 1}, "say axis="),
        ({"axis": 1, "keepdim": True}, "say keepdims="),
        ({"dim": 1, "keepdim": True}, "say axis=, keepdims="),
        ({"along": 1}, r"it takes NumPy's arguments: see help\(np.sum\)"),
    ],
)
def test_arguments_that_numpy_lacks_are_refused_with_a_hint(
    arguments: dict[str, Any], hint: str
) -> None:
    with pytest.raises(UnsupportedError, match=hint) as caught:
        X.sum(**arguments)
    assert "test_habits.py" in caught.value.source
    assert "_bind" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("add_", r"write x \+= y"),
        ("exp", r"np\.exp"),
        ("masked_fill", r"np\.where"),
        ("t", r"x\.T"),
    ],
)
def test_methods_that_are_functions_here(name: str, hint: str) -> None:
    with pytest.raises(MissingError, match=hint):
        getattr(X, name)
