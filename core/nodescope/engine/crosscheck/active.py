"""The cross-check of this process, if there is one; all code that runs a graph looks it up here.

Invariant: imports nothing of the engine, so that all of the engine can import it.
"""

from __future__ import annotations

from typing import Any, Protocol


class Checks(Protocol):
    """The interface of a cross-check; see `nodescope.engine.crosscheck.checker.CrossCheck`."""

    def call(self, lowering: Any, graph: int, step: int, feeds: Any, observed: Any = None) -> None:
        """Check a call of a compiled function."""

    def failed(self, lowering: Any, step: int) -> None:
        """Note a function that could not be compiled."""

    def raised(self, lowering: Any, runner: Any, step: int, feeds: Any) -> None:
        """Check a call in which only the compiled graph raised an error."""

    def session(self, run: Any) -> None:
        """Check a session's run of a built graph."""


_active: Checks | None = None


def set_cross_check(check: Checks | None) -> None:
    """Check every observed run of a graph with ``check``; with None, check none."""
    global _active
    _active = check


def cross_check() -> Checks | None:
    """The cross-check of this process, or None."""
    return _active
