"""Policy: decides for a recorder how much of each execution to record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodescope.events import Level, Loss, NodeFinished
from nodescope.ir.graph import Node
from nodescope.record.rows import Governed


class Policy(Protocol):
    """Decides, while a program runs, how much of it is recorded.

    Implementations measure the cost of recording and have the bus leave out whole steps. All
    methods are called on the program's threads.
    """

    limit: float
    notes: bool
    """Whether executions may be noted, at the chosen level, without a decision for each."""

    def started(self) -> None:
        """Note that the program begins."""

    def admit(self, event: NodeFinished) -> Level | None:
        """The level at which an execution is recorded; None if it is only counted."""

    def admit_together(self, many: int, outputs: int, nbytes: int = 0) -> None:
        """Note executions that are reported together, at the chosen level, without a decision for
        each; and the number of their outputs, and of the bytes of those that are copied or read.
        """

    def took(self, node: Node | None, nanoseconds: int) -> None:
        """Account for the time spent on recording an execution, or on work that belongs to no
        node.
        """

    def steps_unobserved(self, many: int) -> None:
        """Note that training steps began unobserved, without a decision for each."""

    def losses_known(self, losses: Sequence[Loss], *, observed: bool) -> None:
        """Note losses of a step, which may have ended before they were computed."""

    def demand(self) -> None:
        """Update the demand on the bus: different nodes are to be kept whole."""

    def tell_counts(self) -> None:
        """Record how many steps have been observed so far, for readers of the running program."""

    def governed(self, most_nodes: int = ...) -> Governed:
        """A report of what was left out so far."""

    def conclude(self, error: str = "") -> None:
        """Print the final report, once, because the run ends, with or without an error."""
