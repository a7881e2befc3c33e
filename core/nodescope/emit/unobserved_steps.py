"""Unobserved steps: notes short unobserved steps, which are then emitted together.

Two events for each step would take longer than the step itself.
"""

from __future__ import annotations

from nodescope.events import Loss, StepsUnobserved


class UnobservedSteps:
    """Consecutive unobserved steps, including the running one.

    Attributes:
        running: Whether the last step is still running.
    """

    def __init__(self) -> None:
        self.running = False
        self._first = 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._losses: list[tuple[Loss, ...]] = []

    def begin(self, step: int, time_ns: int) -> None:
        """Note that a step begins."""
        if not self._starts:
            self._first = step
        self._starts.append(time_ns)
        self.running = True

    def end(self, time_ns: int, losses: tuple[Loss, ...]) -> None:
        """Note that the running step has ended."""
        self._ends.append(time_ns)
        self._losses.append(losses)
        self.running = False

    def take(self) -> StepsUnobserved | None:
        """The event for the noted steps; None if there are none."""
        if not self._starts:
            return None
        event = StepsUnobserved(
            self._first, tuple(self._starts), tuple(self._ends), tuple(self._losses)
        )
        self._starts, self._ends, self._losses = [], [], []
        self.running = False
        return event
