"""Capture levels: how much of each node the user wants recorded."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from nodescope.errors import RecordingError
from nodescope.events import LEVELS, Level
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within

WITH_ARRAYS: Final = ("values", "summary")
"""Levels at which array elements are read."""

WITHOUT_ARRAYS: Final = ("graph", "timing")
"""Levels at which no array elements are read."""

Detail = Literal["whole", "times", "counted"]
"""How much is recorded for now: the chosen levels, the times of executions, or counts."""

Chosen = tuple[Callable[[Node], bool], Level]
"""A predicate on nodes, and their level."""


class CaptureLevels:
    """The level of each node.

    Args:
        top: The level of nodes without a chosen one.
        by_scope: Other levels for scopes or globs over node names; the first match wins.
        chosen: Levels of nodes by predicate, before ``by_scope``; the first match wins.
        value_steps: At level ``values``: the training steps after which it is ``summary``.

    Attributes:
        everything: Whether every element of every node is to be kept.
        watched: Nodes being viewed: every element of these is to be kept.
        uniform: Whether all nodes are at ``top``, so that no lookup is needed.
        detail: How much is recorded for now, of nodes that the user neither chose nor views.

    Raises:
        RecordingError: The level does not exist.
    """

    def __init__(
        self, top: Level, by_scope: Mapping[str, Level] | None, chosen: Sequence[Chosen],
        value_steps: int | None,
    ) -> None:  # fmt: skip
        self.top: Level = top
        self.everything = False
        self.watched: frozenset[int] = frozenset()
        self._by_scope = dict(by_scope or {})
        self._chosen = tuple(chosen)
        self._value_steps = value_steps
        self._known: dict[int, Level | None] = {}
        self.detail: Detail = "whole"
        self.uniform = not (self._by_scope or self._chosen)
        named = (top, *self._by_scope.values(), *(level for _, level in self._chosen))
        for level in named:
            if level not in LEVELS:
                raise RecordingError(f"unknown capture level {level!r}", hint=f"one of {LEVELS}")
        self._with_arrays = any(level in WITH_ARRAYS for level in named)

    @property
    def with_arrays(self) -> bool:
        """Whether arrays of any node may be read now."""
        if self.everything or self.watched:
            return True
        return self._with_arrays and (self.detail == "whole" or not self.uniform)

    @property
    def of_blocks(self) -> Level | None:
        """The level of all nodes, if they share one and it keeps no elements. Elements of viewed
        nodes are kept in addition.
        """
        one = not (self.everything or self._by_scope or self._chosen or self.detail != "whole")
        if not one or self.top == "values":
            return None
        return None if self.watched and self.top != "summary" else self.top

    def of(self, node: Node) -> Level:
        """The wanted level of a node."""
        if self.uniform:
            return self.top
        if self.everything or node.id in self.watched:
            return "values"
        return self.by_hand(node) or self.top

    def now(self, node: Node) -> Level:
        """The level of a node now."""
        level = self.of(node)
        return "timing" if level in WITH_ARRAYS and self.lowers(node) else level

    def lowers(self, node: Node) -> bool:
        """Whether less than wanted is recorded of a node now."""
        if self.detail == "whole" or self.uniform:
            return self.detail != "whole"
        return not (self.everything or node.id in self.watched or self.by_hand(node))

    @property
    def nodes_by_hand(self) -> int:
        """The number of nodes so far whose level the user chose."""
        known = list(self._known.values())
        return len(known) - known.count(None)

    def by_hand(self, node: Node) -> Level | None:
        """The level chosen for a node by the user, if any."""
        if node.id not in self._known:
            self._known[node.id] = self._chosen_for(node)
        return self._known[node.id]

    def _chosen_for(self, node: Node) -> Level | None:
        for covers, level in self._chosen:
            if covers(node):
                return level
        for pattern, level in self._by_scope.items():
            if is_within(node.scope, pattern) or fnmatch.fnmatchcase(node.name, pattern):
                return level
        return None

    def keep_whole(self, *, everything: bool, nodes: frozenset[int]) -> None:
        """From now on, keep every element of all nodes, of some nodes or of none."""
        self.everything, self.watched = everything, nodes
        self.uniform = not (everything or nodes or self._by_scope or self._chosen)

    def forget(self, nodes: Iterable[Node]) -> None:
        """Forget nodes that were redefined."""
        for node in nodes:
            self._known.pop(node.id, None)

    def step_begins(self, step: int) -> None:
        """A training step begins."""
        if self.top == "values" and self._value_steps is not None and step > self._value_steps:
            self.top = "summary"
