"""Omissions: per node, how many executions were recorded with less than was requested."""

from __future__ import annotations

from nodescope.events import Level
from nodescope.ir.graph import Node
from nodescope.record.capture_levels import WITH_ARRAYS
from nodescope.record.rows import LeftOut


class NodeCounts:
    """The counts of one node.

    Args:
        node: The node.
        by_hand: The level that the user chose for it, or None.
        level: The requested level.

    Attributes:
        runs: Executions in all.
        timed: Executions with only their times recorded.
        counted: Executions without a row.
        unsaid: Executions without a row since the last row.
    """

    __slots__ = ("by_hand", "counted", "level", "node", "runs", "timed", "unsaid")

    def __init__(self, node: Node, by_hand: Level | None, level: Level) -> None:
        self.node, self.by_hand, self.level = node, by_hand, level
        self.runs = self.timed = self.counted = self.unsaid = 0

    @property
    def values(self) -> int:
        """The outputs so far whose statistics were requested."""
        return len(self.node.outputs) * self.runs if self.level in WITH_ARRAYS else 0

    def left_out(self) -> LeftOut:
        """What was left out so far."""
        values = len(self.node.outputs) * (self.timed + self.counted)
        return LeftOut(
            node=self.node.id, name=self.node.name, level=self.level, runs=self.runs,
            executions=self.counted, summaries=values if self.level in WITH_ARRAYS else 0,
            arrays=values if self.level == "values" else 0,
        )  # fmt: skip
