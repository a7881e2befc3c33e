"""Selections: which nodes are recorded at which level, in their text form.

Invariant: whether a selection covers a node depends on the node alone, so it is evaluated once per
node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodescope.debug.breakpoints.matching import covers
from nodescope.debug.breakpoints.syntax import MAX_LENGTH, parse_breakpoint
from nodescope.errors import UsageError
from nodescope.events import LEVELS, Level
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.protocol import Breakpoint
from nodescope.registry import did_you_mean

Selection = tuple[Callable[[Node], bool], Level]


class SelectionUse:
    """Tracks which selections have covered a node.

    Args:
        specs: The selections in their text form.

    Raises:
        UsageError, BreakpointError: As in `parse_selection`.
    """

    def __init__(self, specs: Sequence[str]) -> None:
        self._unused = dict.fromkeys(specs)
        self._scopes: set[str] = set()
        self._ops: set[str] = set()
        self.selections: tuple[Selection, ...] = tuple(map(self._noticed, specs))

    def complaints(self) -> list[str]:
        """A line for each selection that covered no node."""
        return [
            f"the selection {spec!r} covered no node{self._near(spec)}" for spec in self._unused
        ]

    def _noticed(self, spec: str) -> Selection:
        covers, level = parse_selection(spec)

        def noticing(node: Node) -> bool:
            self._ops.add(node.op)
            self._scopes.add(node.scope)
            covered = covers(node)
            if covered:
                self._unused.pop(spec, None)
            return covered

        return noticing, level

    def _near(self, spec: str) -> str:
        kind, colon, name = spec.rpartition("=")[0].strip().partition(":")
        names = self._ops if colon and kind == "op" else self._scopes
        near = did_you_mean(name if colon else kind, names)
        return f"; {near}" if near else ""


def parse_selection(spec: str) -> Selection:
    """Parse ``scope:encoder=values``; nodes are named as in breakpoints.

    A scope includes its parameters. ``[backward]`` after the name selects nodes of that phase.

    Raises:
        UsageError: The level is missing, or the text before it specifies more than nodes.
        BreakpointError: The name cannot be understood.
    """
    if len(spec) > MAX_LENGTH:
        raise UsageError(f"the selection is longer than {MAX_LENGTH} characters")
    head, equals, level = spec.rpartition("=")
    level = level.strip()
    if not equals or not head.strip():
        raise UsageError(
            f"{spec!r} does not give a level", hint=f"{spec.strip() or 'scope:encoder'}=values"
        )
    known_level = next((candidate for candidate in LEVELS if candidate == level), None)
    if known_level is None:
        near = did_you_mean(level, LEVELS) or f"one of {', '.join(LEVELS)}"
        raise UsageError(f"{spec!r}: unknown capture level {level!r}", hint=near)
    breakpoint = parse_breakpoint(head.strip())
    plain = Breakpoint(kind=breakpoint.kind, target=breakpoint.target, phase=breakpoint.phase)
    if breakpoint != plain:
        raise UsageError(
            f"{spec!r}: a level always applies, so it takes no condition or options, only nodes",
            hint="scope:encoder=values",
        )
    return lambda node: _about(plain, node), known_level


def _about(breakpoint: Breakpoint, node: Node) -> bool:
    if breakpoint.kind != "scope":
        return covers(breakpoint, node)
    return is_within(node.scope, breakpoint.target) and breakpoint.phase in ("", node.phase)
