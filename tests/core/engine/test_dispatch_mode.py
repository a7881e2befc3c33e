"""Tapes that are switched off for a while: nested, and by decorators."""

from __future__ import annotations

from pathlib import Path

import nodescope as ns


def taped() -> bool:
    return (ns.parameter([1.0]) * 2.0).requires_grad


def test_a_decorated_function_that_calls_itself_leaves_the_tape_as_it_was() -> None:
    seen = []

    @ns.no_grad()
    def countdown(number: int) -> None:
        seen.append(taped())
        if number:
            countdown(number - 1)
            seen.append(taped())

    for _ in range(2):
        countdown(2)
        assert taped()
    assert seen == [False] * 10


def test_a_tape_that_is_off_stays_off_while_observed_and_afterwards(tmp_path: Path) -> None:
    with ns.no_grad():
        with ns.record(tmp_path / "run.nscope", level="timing"):
            with ns.no_grad():
                assert not taped()
            assert not taped()
        assert not taped()
    assert taped()
