"""Losses: the numbers from which backward passes begin, in every training step.

A loss is read where its pass begins, so it is known for unobserved steps as well.

Invariant: one number per backward pass is read; no value or node depends on it.
"""

from __future__ import annotations

from types import CodeType
from typing import Any, Final

from nodescope.events import Loss

# If a program begins backward passes at more lines, the first of these are its losses.
_MOST_SITES: Final = 16
# The most backward passes recorded per step.
_MOST_IN_STEP: Final = 65_536


Instruction = tuple[CodeType, int]
"""The instruction that begins a backward pass: its code, held so that its identity is not reused,
and its offset.
"""


class Losses:
    """The losses of the current step; each emitter has one object."""

    def __init__(self) -> None:
        self._curves: dict[tuple[int, int], tuple[int, Instruction]] = {}
        # Only appended to during a step: other threads begin backward passes as well.
        self._noted: list[tuple[Instruction, float, int]] = []

    def note(self, site: Instruction, data: Any, node: int) -> None:
        """Record a loss.

        Args:
            site: The place where the backward pass began.
            data: The array, with one element.
            node: The node that produced it; 0 in an unobserved step.
        """
        if len(self._noted) < _MOST_IN_STEP:
            self._noted.append((site, float(data), node))

    def taken(self) -> tuple[Loss, ...]:
        """The losses since the last call. Those of the same line count as one, their mean."""
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
        key = (id(site[0]), site[1])  # hashing a code object takes long
        known = self._curves.get(key)
        if known is None:
            if len(self._curves) == _MOST_SITES:
                return 0
            known = self._curves[key] = (len(self._curves) + 1, site)
        return known[0]
