"""Losses of training steps, as they are reported.

Invariant: frozen data.
"""

from __future__ import annotations

import msgspec


class Loss(msgspec.Struct, frozen=True, gc=False):
    """The number from which backward passes of a training step began.

    Attributes:
        curve: Which of the program's losses it is: the number of its line, from 1.
        value: The loss; the mean if that line began several passes in the step.
        times: The number of these passes.
        node: The node that produced the last one, if observed; else 0.
    """

    curve: int
    value: float
    times: int = 1
    node: int = 0


class LossesKnown(msgspec.Struct, frozen=True, tag=True):
    """The losses of a step that has ended: a device had not computed them by then."""

    step: int
    losses: tuple[Loss, ...]
