"""First step: a probe that reports the end of the first step, when watches can be recommended.

Invariant: reports once, and ignores everything after that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nodescope.events import Event, RunFinished, StepFinished, StepsUnobserved

WORD: Final = "recommended"
"""The word that stands for all recommended watches."""


class FirstStepProbe:
    """A probe that waits for the end of the first step, or of the run.

    Args:
        on_known: Called once at that point, with whether a step ended.
    """

    def __init__(self, on_known: Callable[[bool], None]) -> None:
        self._on_known = on_known
        self._over = False

    def emit(self, event: Event) -> None:
        """Take one event."""
        kind = type(event)
        if kind in (StepFinished, StepsUnobserved, RunFinished) and not self._over:
            self._over = True
            self._on_known(kind is not RunFinished)
