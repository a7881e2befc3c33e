"""Exceptions as text."""

from __future__ import annotations

import pytest

from nodescope.errors import error_text


class Unreadable(Exception):
    """Raises when its text is asked for."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TypeError("bad operand"), "TypeError: bad operand"),
        (AssertionError(), "AssertionError"),
        (ValueError("  "), "ValueError"),
        (Unreadable(), "Unreadable"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_an_exception_without_a_text_is_its_class(error: BaseException, text: str) -> None:
    assert error_text(error) == text
