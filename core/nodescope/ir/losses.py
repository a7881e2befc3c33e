"""Losses of training steps, as they are reported.

Invariant: frozen data.
"""

from __future__ import annotations

import msgspec


class Loss(msgspec.Struct, frozen=True, gc=False):
    """The number from which backward passes of a training step began.

    Attributes:
        curve: The number of the program's line that began the passes, from 1.
        value: The loss; the mean if that line began several passes in the step.
        times: The number of these passes.
        node: The node that produced the last one, if observed; else 0.
    """

    curve: int
    value: float
    times: int = 1
    node: int = 0


class LossesKnown(msgspec.Struct, frozen=True, tag=True):
    """The losses of a step that had ended before a device had computed them."""

    step: int
    losses: tuple[Loss, ...]
