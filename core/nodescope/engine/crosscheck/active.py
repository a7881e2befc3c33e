"""The cross-check of this process, if there is one; all code that runs a graph checks here.

Invariant: imports nothing of the engine, so that everything in it may ask.
"""

from __future__ import annotations

from typing import Any, Protocol


class Checks(Protocol):
    """The interface of a cross-check; see `nodescope.engine.crosscheck.checker.CrossCheck`."""

    def call(self, lowering: Any, graph: int, step: int, feeds: Any, observed: Any = None) -> None:
        """A call of a compiled function."""

    def failed(self, lowering: Any, step: int) -> None:
        """A function that could not be compiled."""

    def raised(self, lowering: Any, runner: Any, step: int, feeds: Any) -> None:
        """A call of which only the compiled graph raised an error."""

    def session(self, run: Any) -> None:
        """A run of a graph that was built by hand."""


_active: Checks | None = None


def set_cross_check(check: Checks | None) -> None:
    """Let every observed run of a graph be checked, or none."""
    global _active
    _active = check


def cross_check() -> Checks | None:
    """What checks runs of graphs in this process."""
    return _active
