"""Policy: what a recorder asks, execution by execution, if not all is to be recorded."""

from __future__ import annotations

from typing import Protocol

from nodescope.events import Level, NodeFinished, StepFinished
from nodescope.ir.graph import Node
from nodescope.record.rows import Governed


class Policy(Protocol):
    """Decides, while a program runs, how much of it is recorded.

    It measures what recording takes, and has whole steps left out on the bus. It is asked and told
    on the program's threads.
    """

    limit: float

    def started(self) -> None:
        """The program begins."""

    def admit(self, event: NodeFinished) -> Level | None:
        """The level at which an execution is recorded; None: it is only counted."""

    def took(self, node: Node | None, nanoseconds: int) -> None:
        """What recording an execution took, or what belongs to no node."""

    def level_of(self, node: Node) -> Level:
        """The level of a node now."""

    def step_ended(self, event: StepFinished) -> None:
        """A training step has ended, observed or not."""

    def demand(self) -> None:
        """Other nodes are wanted whole: say so on the bus."""

    def tell_counts(self) -> None:
        """Record how many steps were observed so far, since somebody looks."""

    def governed(self, most_nodes: int = ...) -> Governed:
        """What was left out so far."""

    def conclude(self, error: str = "") -> None:
        """The run ends, with an error or without; said once."""
