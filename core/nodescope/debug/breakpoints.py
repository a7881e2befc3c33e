"""Breakpoints: what they match, how they are written, and the names they are matched against.

Invariant: pure functions over nodes and breakpoints; a catalog only ever grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Final

import msgspec

from nodescope.debug.conditions import Condition, compile_condition
from nodescope.errors import BreakpointError, ConditionError
from nodescope.ir.graph import Node
from nodescope.ir.scopes import ancestors, is_within
from nodescope.protocol import Breakpoint, BreakpointKind
from nodescope.registry import did_you_mean

# Ops that hold data rather than compute: stepping passes over them.
LEAF_OPS: Final = frozenset({"parameter", "tensor", "constant"})

_KINDS: Final[tuple[BreakpointKind, ...]] = ("node", "glob", "op", "scope")
_CONDITION: Final = re.compile(r"(?:^|\s+)if\s+")
_MAX_TARGET: Final = 1000


def is_leaf(node: Node) -> bool:
    """Whether the node only holds data."""
    return node.op in LEAF_OPS


def covers(breakpoint: Breakpoint, node: Node) -> bool:
    """Whether the breakpoint is about this node (for ``scope``: whether it lies inside)."""
    match breakpoint.kind:
        case "node":
            return node.name == breakpoint.target
        case "op":
            return node.op == breakpoint.target
        case "scope":
            return is_within(node.scope, breakpoint.target) and not is_leaf(node)
        case "glob":
            return _glob(breakpoint.target).match(node.name) is not None


@lru_cache(maxsize=256)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


@lru_cache(maxsize=256)
def condition_of(breakpoint: Breakpoint) -> Condition | None:
    """Compile the breakpoint's condition; None without one.

    Raises:
        ConditionError: It cannot be parsed, or asks for a value before there is one.
    """
    if not breakpoint.condition.strip():
        return None
    condition = compile_condition(breakpoint.condition)
    for name in ("value", "grad"):
        if breakpoint.when == "before" and name in condition.names:
            raise ConditionError(
                f"{name} is known only after the node has run",
                column=max(0, breakpoint.condition.find(name)),
                hint="stop after the node, or use inputs",
            )
    return condition


def validate(breakpoint: Breakpoint) -> None:
    """Check a breakpoint as it comes from a person.

    Raises:
        BreakpointError, ConditionError: It makes no sense; the message says why.
    """
    if breakpoint.kind not in _KINDS:
        raise BreakpointError(f"unknown kind of breakpoint {breakpoint.kind!r}")
    if not breakpoint.target.strip():
        raise BreakpointError(f"a {breakpoint.kind} breakpoint needs a name")
    if len(breakpoint.target) > _MAX_TARGET:
        raise BreakpointError(f"the breakpoint's name is longer than {_MAX_TARGET} characters")
    condition_of(breakpoint)


def parse_breakpoint(spec: str) -> Breakpoint:
    """Read ``[node:|op:|scope:|glob:]NAME [if CONDITION]`` as the command line takes it.

    A bare name is an exact node, or a glob if it has one of ``*?[``.

    Raises:
        BreakpointError, ConditionError: It cannot be understood.
    """
    parts = _CONDITION.split(spec.strip(), maxsplit=1)
    head, condition = parts[0].strip(), parts[1].strip() if len(parts) == 2 else ""
    if head.endswith(" if") or head == "if":
        raise BreakpointError(f"{spec!r} has no condition after 'if'", hint="op:log if step > 3")
    kind, colon, target = head.partition(":")
    kind = kind.strip()
    if not colon:
        kind, target = ("glob" if any(char in head for char in "*?[") else "node"), head
    elif kind not in _KINDS:
        near = did_you_mean(kind, _KINDS) or f"known are {', '.join(_KINDS)}"
        raise BreakpointError(f"{spec!r}: no kind of breakpoint is named {kind!r}", hint=near)
    target = target.strip()
    if kind == "scope":
        target = target.strip("/")
    breakpoint = Breakpoint(
        kind=msgspec.convert(kind, BreakpointKind), target=target, condition=condition
    )
    validate(breakpoint)
    return breakpoint


def describe(breakpoint: Breakpoint) -> str:
    """The breakpoint as a person writes it: ``op:log if step > 3``."""
    head = (
        breakpoint.target
        if breakpoint.kind == "node"
        else (f"{breakpoint.kind}:{breakpoint.target}")
    )
    return f"{head} if {breakpoint.condition}" if breakpoint.condition else head


class Catalog:
    """The nodes met so far, by id; the latest definition of each."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.nodes: dict[int, Node] = {}
        self.add(nodes)

    def add(self, nodes: Iterable[Node]) -> None:
        """Take in new nodes, or new definitions of known ones."""
        for node in nodes:
            self.nodes[node.id] = node

    def matches(self, breakpoint: Breakpoint) -> bool:
        """Whether any node met so far is covered."""
        return any(covers(breakpoint, node) for node in list(self.nodes.values()))

    def near(self, breakpoint: Breakpoint) -> str:
        """``no node named 'x' so far; did you mean 'y'?`` for a breakpoint that matches nothing."""
        nodes = list(self.nodes.values())
        names: set[str] = set()
        match breakpoint.kind:
            case "node" | "glob":
                names = {node.name for node in nodes}
            case "op":
                names = {node.op for node in nodes}
            case "scope":
                names = {path for node in nodes for path in ancestors(node.scope)}
        noun = {"glob": "node like", "scope": "scope", "op": "op"}.get(breakpoint.kind, "node")
        hint = did_you_mean(breakpoint.target, names) or _by_last_part(breakpoint.target, names)
        return f"no {noun} {breakpoint.target!r} so far{'; ' + hint if hint else ''}"


def _by_last_part(target: str, names: set[str]) -> str:
    """``loss`` is far from ``train/step/loss_2`` in letters, yet that is what was meant."""
    last = target.rpartition("/")[2].strip("*?")
    close = sorted(name for name in names if last and last in name.rpartition("/")[2])[:3]
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""
