"""Losses: the numbers from which backward passes begin, in every training step.

A loss is read where its pass begins, so it is known for unobserved steps as well. One that a device
still has to compute is read later, without waiting.

Invariant: one number per backward pass is read; no value or node depends on it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

import numpy as np

from nodescope.errors import NodescopeError
from nodescope.events import Loss

# If a program begins backward passes at more lines, the first of these are its losses.
_MOST_SITES: Final = 16
# The most backward passes recorded per step.
_MOST_IN_STEP: Final = 65_536


Instruction = tuple[CodeType, int]
"""The instruction that begins a backward pass: its code, held so that its identity is not reused,
and its offset.
"""

_Noted = tuple[int, Any, int]  # the curve, the number or what a device computes, the node


class Losses:
    """The losses of the current step; each emitter has one object."""

    def __init__(self) -> None:
        self._curves: dict[tuple[int, int], tuple[int, Instruction]] = {}
        # Only appended to during a step: other threads begin backward passes as well.
        self._noted: list[_Noted] = []
        self._owed: deque[tuple[int, list[_Noted]]] = deque()
        self._waits = False
        self._later = False  # whether a device ever computed a loss later

    def note(self, site: Instruction, data: Any, node: int) -> None:
        """Record a loss.

        Args:
            site: The place where the backward pass began.
            data: The array, with one element; for a device, an object with ``is_done`` for which
                ``float`` waits.
            node: The node that produced it; 0 in an unobserved step.
        """
        if len(self._noted) < _MOST_IN_STEP:
            known = self._curves.get((id(site[0]), site[1]))  # hashing a code object takes long
            curve = self._new_curve(site) if known is None else known[0]
            if data.__class__ is not np.ndarray and hasattr(data, "is_done"):
                self._later = True
            else:
                data = float(data)
            self._noted.append((curve, data, node))

    def taken(self, step: int = 0) -> tuple[Loss, ...]:
        """The losses since the last call. Losses of the same line are averaged to one.

        Args:
            step: The step of the losses; `known` yields losses that a device computes later.
        """
        noted = self._noted
        if not noted:
            return ()
        self._noted = []
        if self._later and not self._waits and not _are_done(noted):
            self._owed.append((step, noted))
            return ()
        if len(noted) == 1 and not self._later:
            curve, number, node = noted[0]
            return (Loss(curve, number, 1, node),) if curve else ()
        return _told(noted)

    @property
    def owes(self) -> bool:
        """Whether losses of ended steps are not known yet."""
        return bool(self._owed)

    def known(self) -> Iterator[tuple[int, tuple[Loss, ...]]]:
        """Steps whose losses were unknown when the steps ended, but are known now."""
        while self._owed and (self._waits or _are_done(self._owed[0][1])):
            step, noted = self._owed.popleft()
            yield step, _told(noted)

    def wait(self) -> None:
        """From now on, wait for unknown losses, because the program has ended."""
        self._waits = True

    def _new_curve(self, site: Instruction) -> int:
        """The number of a line's loss in this run, from 1; 0 if there are too many."""
        if len(self._curves) == _MOST_SITES:
            return 0
        number = len(self._curves) + 1
        self._curves[id(site[0]), site[1]] = (number, site)
        return number


def _told(noted: list[_Noted]) -> tuple[Loss, ...]:
    """One loss for each curve: the mean."""
    totals: dict[int, tuple[float, int, int]] = {}
    for curve, data, node in noted:
        total, times, _ = totals.get(curve, (0.0, 0, 0))
        totals[curve] = (total + _number(data), times + 1, node)
    return tuple(
        Loss(curve, total / times, times, node)
        for curve, (total, times, node) in totals.items()
        if curve
    )


def _are_done(noted: list[_Noted]) -> bool:
    return all(getattr(data, "is_done", True) for _, data, _ in noted)


def _number(data: Any) -> float:
    """The loss; NaN if the device has failed."""
    try:
        return float(data)
    except NodescopeError:
        return math.nan
