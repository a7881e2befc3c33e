"""Selections: which nodes are recorded at which level, as people write it.

Invariant: what a selection covers depends on the node alone, so it is asked once per node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodescope.debug.breakpoints import covers
from nodescope.debug.spelling import MAX_LENGTH, parse_breakpoint
from nodescope.errors import UsageError
from nodescope.events import LEVELS, Level
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.protocol import Breakpoint
from nodescope.registry import did_you_mean

Selection = tuple[Callable[[Node], bool], Level]


class Used:
    """Whether what selections cover was ever there.

    Args:
        specs: The selections, as they are written.

    Raises:
        UsageError, BreakpointError: As of `parse_selection`.
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
            found = covers(node)
            if found:
                self._unused.pop(spec, None)
            return found

        return noticing, level

    def _near(self, spec: str) -> str:
        kind, colon, name = spec.rpartition("=")[0].strip().partition(":")
        there = self._ops if colon and kind == "op" else self._scopes
        near = did_you_mean(name if colon else kind, there)
        return f"; {near}" if near else ""


def parse_selection(spec: str) -> Selection:
    """Read ``scope:encoder=values``; the nodes are named as those of breakpoints are.

    A scope takes its parameters along. ``[backward]`` after the name means nodes of that phase.

    Raises:
        UsageError: There is no level, or what stands before it says more than which nodes.
        BreakpointError: The name cannot be understood.
    """
    if len(spec) > MAX_LENGTH:
        raise UsageError(f"the selection is longer than {MAX_LENGTH} characters")
    head, equals, level = spec.rpartition("=")
    level = level.strip()
    if not equals or not head.strip():
        raise UsageError(
            f"{spec!r} names no level", hint=f"{spec.strip() or 'scope:encoder'}=values"
        )
    found = next((each for each in LEVELS if each == level), None)
    if found is None:
        near = did_you_mean(level, LEVELS) or f"one of {', '.join(LEVELS)}"
        raise UsageError(f"{spec!r}: unknown capture level {level!r}", hint=near)
    which = parse_breakpoint(head.strip())
    plain = Breakpoint(kind=which.kind, target=which.target, phase=which.phase)
    if which != plain:
        raise UsageError(
            f"{spec!r}: a level applies always, so only nodes can be selected",
            hint="scope:encoder=values",
        )
    return lambda node: _about(plain, node), found


def _about(which: Breakpoint, node: Node) -> bool:
    if which.kind != "scope":
        return covers(which, node)
    return is_within(node.scope, which.target) and which.phase in ("", node.phase)
