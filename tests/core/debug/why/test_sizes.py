"""Sizes of operands that do not fit each other."""

from __future__ import annotations

from typing import Any

import pytest

from nodescope.debug.why.sizes import Shape, misfit

FITS: list[tuple[str, list[Shape], dict[str, Any]]] = [
    ("matmul", [(3, 4), (4, 5)], {}),
    ("matmul", [(2, 3, 4), (4, 5)], {}),
    ("addmm", [(5,), (3, 4), (4, 5)], {}),
    ("convolution", [(1, 4, 8, 8), (6, 2, 3, 3)], {"groups": 2}),
    ("convolution", [(1, 4, 8, 8), (4, 6, 3, 3)], {"transposed": True}),
    ("convolution", [(1, 4, 1, 1), (4, 4, 3, 3)], {"padding": (1, 1)}),
    ("concatenate", [(3, 4), (3, 5)], {"dim": 1}),
    ("concatenate", [(3, 4), (3, 5)], {"axis": -1}),
    ("add", [(3, 1), (4,)], {}),
    ("softmax", [(3, 4), (5,)], {}),
]
WRONG: list[tuple[str, list[Shape], dict[str, Any], str]] = [
    ("matmul", [(3, 4), (5, 6)], {}, "4 of a (3, 4) and 5 of b (5, 6)"),
    ("matmul", [(2, 3, 4), (3, 4, 6)], {}, "a is a stack of 2 matrices, and b of 3"),
    ("addmm", [(6,), (3, 4), (5, 6)], {}, "4 of b (3, 4) and 5 of c (5, 6)"),
    ("addmm", [(7,), (3, 4), (4, 6)], {}, "a has 7 columns (7,), and the product 6"),
    ("convolution", [(1, 3, 8, 8), (6, 2, 3, 3)], {}, "3 channels (1, 3, 8, 8), and b is for 2"),
    ("convolution", [(1, 2, 2, 2), (6, 2, 3, 3)], {}, "takes 3 elements along axis 2 of a"),
    ("convolution", [(8, 8), (6, 2, 3, 3)], {}, "a has 2 axes, and b is for 4"),
    ("concatenate", [(3, 4), (3, 4), (2, 4)], {"dim": 1}, "c has 2 along axis 0 (2, 4), and a"),
    ("concatenate", [(3, 4), (3,)], {}, "b has 1 axes, and a has 2"),
    ("add", [(3, 4), (5,)], {}, "along axis -1, a has 4 (3, 4), and b has 5 (5,)"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shapes", "attrs"), FITS)
def test_sizes_that_fit_have_no_message(
    op: str, shapes: list[Shape], attrs: dict[str, Any]
) -> None:
    family = "elementwise" if op == "add" else "other"
    assert misfit(op, family, shapes, "abc", attrs) == ""


@pytest.mark.parametrize(("op", "shapes", "attrs", "told"), WRONG)
def test_sizes_that_do_not_fit_are_named(
    op: str, shapes: list[Shape], attrs: dict[str, Any], told: str
) -> None:
    family = "elementwise" if op == "add" else "other"
    assert told in misfit(op, family, shapes, "abc", attrs)
