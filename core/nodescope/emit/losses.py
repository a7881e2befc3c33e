"""Losses: the number that a backward pass begins with, in every training step.

It is taken where the pass begins, so it is known of steps that run unobserved, too.

Invariant: reads one number per backward pass; no value and no node depends on it.
"""

from __future__ import annotations

from types import CodeType
from typing import Any, Final

from nodescope.events import Loss

# Of a program that begins backward passes at more lines, these are its losses.
_MOST_SITES: Final = 16
# So many backward passes of one step are taken down.
_MOST_IN_STEP: Final = 65_536


Instruction = tuple[CodeType, int]
"""What begins a backward pass: its code, held so that no other gets its identity, and where."""


class Losses:
    """The losses of the step that runs; an emitter has one."""

    def __init__(self) -> None:
        self._curves: dict[tuple[int, int], tuple[int, Instruction]] = {}
        # Only appended to while a step runs: other threads begin backward passes, too.
        self._noted: list[tuple[Instruction, float, int]] = []

    def note(self, site: Instruction, data: Any, node: int) -> None:
        """Take down a loss.

        Args:
            site: Where the backward pass began.
            data: The array, of one element.
            node: What gave it; 0 in a step that is not observed.
        """
        if len(self._noted) < _MOST_IN_STEP:
            self._noted.append((site, float(data), node))

    def taken(self) -> tuple[Loss, ...]:
        """The losses since the last call. Those of one line count as one, their mean."""
        noted = self._noted
        if not noted:
            return ()
        self._noted = []
        if len(noted) == 1:
            site, number, node = noted[0]
            curve = self._curve(site)
            return (Loss(curve, number, 1, node),) if curve else ()
        totals: dict[int, tuple[float, int, int]] = {}
        for site, number, node in noted:
            total, times, _ = totals.get(curve := self._curve(site), (0.0, 0, 0))
            totals[curve] = (total + number, times + 1, node)
        return tuple(
            Loss(curve, total / times, times, node)
            for curve, (total, times, node) in totals.items()
            if curve
        )

    def _curve(self, site: Instruction) -> int:
        """The number of a line's loss in this run, from 1; 0 if there are too many."""
        key = (id(site[0]), site[1])  # to hash a code object takes long
        known = self._curves.get(key)
        if known is None:
            if len(self._curves) == _MOST_SITES:
                return 0
            known = self._curves[key] = (len(self._curves) + 1, site)
        return known[0]
