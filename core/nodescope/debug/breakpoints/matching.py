"""Breakpoints: what they match, their description, and the names they are matched against.

Invariant: pure functions over nodes and breakpoints; a catalog only ever grows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from heapq import nlargest
from typing import Final, get_args

import msgspec

from nodescope.debug.breakpoints import regular_expressions
from nodescope.debug.expressions.compiler import Condition, compile_condition
from nodescope.debug.expressions.logpoints import LogMessage, compile_message
from nodescope.errors import BreakpointError, ConditionError
from nodescope.events import Opens
from nodescope.ir.demands import StopsAt
from nodescope.ir.graph import Node, is_op
from nodescope.ir.scopes import ancestors, is_within
from nodescope.protocol import Breakpoint, BreakpointKind
from nodescope.registry import did_you_mean

KINDS: Final[tuple[BreakpointKind, ...]] = get_args(BreakpointKind)
_MAX_TARGET: Final = 1000
_MAX_GLOB: Final = 200
_MAX_HITS: Final = 40
_MOST_WEIGHED: Final = 200
_LINE: Final = re.compile(r"(?P<file>.+):(?P<line>\d+)")
_HITS: Final = re.compile(r"(?P<test>==|>=|%)\s*(?P<count>[1-9]\d{0,8})")


def covers(breakpoint: Breakpoint, node: Node) -> bool:
    """Whether the breakpoint covers this node (for ``scope``: whether the node lies inside)."""
    if breakpoint.phase and node.phase != breakpoint.phase:
        return False
    match breakpoint.kind:
        case "node":
            return node.name == breakpoint.target
        case "op":
            return is_op(node, breakpoint.target)
        case "scope":
            return is_within(node.scope, breakpoint.target) and not node.is_leaf
        case "glob":
            return _glob(breakpoint.target).match(node.name) is not None
        case "regex":
            return regular_expressions.matches(breakpoint.target, node.name)
        case "source":
            return node.source is not None and not node.is_leaf and _at(breakpoint.target, node)


def _at(target: str, node: Node) -> bool:
    """Whether a node was made at a line; a path may be given by its last parts."""
    file, line = line_of(target)
    assert node.source is not None
    if node.source.line != line:
        return False
    node_file, target_file = (path.replace("\\", "/") for path in (node.source.file, file))
    return node_file == target_file or node_file.endswith(f"/{target_file.removeprefix('./')}")


@lru_cache(maxsize=256)
def line_of(target: str) -> tuple[str, int]:
    """File and line of ``model.py:42``.

    Raises:
        BreakpointError: The text has another form.
    """
    match = _LINE.fullmatch(target.strip())
    if match is None:
        raise BreakpointError(f"{target!r} is not a line of a file", hint="source:model.py:42")
    return match["file"], int(match["line"])


@lru_cache(maxsize=256)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


@lru_cache(maxsize=256)
def hits_of(text: str) -> tuple[str, int] | None:
    """Test and count of ``== 3``, ``>= 3`` or ``% 5``; None for ``""``. A bare number is ``==``.

    Raises:
        BreakpointError: The text has another form.
    """
    if len(text) > _MAX_HITS:
        raise BreakpointError(f"the hit count is longer than {_MAX_HITS} characters")
    text = text.strip()
    if not text:
        return None
    match = _HITS.fullmatch(f"== {text}" if text.isdecimal() else text)
    if match is None:
        raise BreakpointError(
            f"{text!r} is not a hit count", hint="== 3, >= 3, or % 5 for every fifth"
        )
    return match["test"], int(match["count"])


def opened_by(active: tuple[Breakpoint, ...]) -> tuple[Opens, ...]:
    """Predicates that open the kernels covered by these breakpoints; see `Demand.opened`.

    Scope breakpoints need none: entering a scope is noticed at its kernels as well.
    """
    breakpoints = tuple(breakpoint for breakpoint in active if breakpoint.kind != "scope")
    if not breakpoints:
        return ()
    return (lambda node: any(covers(breakpoint, node) for breakpoint in breakpoints),)


def ops_by(active: tuple[Breakpoint, ...], nodes: Iterable[Node]) -> StopsAt:
    """The ops at which these breakpoints can stop: any, if that depends on nodes to come."""
    named = {breakpoint.target for breakpoint in active if breakpoint.kind == "node"}
    known = {node.name: node.op for node in nodes if node.name in named} if named else {}
    places: dict[str, set[str | None]] = {"before": set(), "after": set()}
    for breakpoint in active:
        op = breakpoint.target if breakpoint.kind == "op" else known.get(breakpoint.target)
        places[breakpoint.when].add(op)
    before, after = (
        None if None in ops else frozenset(op for op in ops if op is not None)
        for ops in places.values()
    )
    return StopsAt(before, after)


def counts(breakpoint: Breakpoint, hits: int) -> bool:
    """Whether the ``hits``-th hit counts."""
    comparison = hits_of(breakpoint.hits)
    if comparison is None:
        return True
    test, count = comparison
    if test == "%":
        return hits % count == 0
    return hits == count if test == "==" else hits >= count


def within(breakpoint: Breakpoint, step: int) -> bool:
    """Whether the breakpoint applies to this training step."""
    last = breakpoint.last_step
    return step >= breakpoint.first_step and (last is None or step <= last)


@lru_cache(maxsize=256)
def condition_of(breakpoint: Breakpoint) -> Condition | None:
    """Compile the breakpoint's condition; None without one.

    Raises:
        ConditionError: It cannot be parsed, or uses a value before it exists.
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
    """Check a breakpoint that a user entered.

    Raises:
        BreakpointError, ConditionError: The breakpoint is invalid; the message says why.
    """
    if breakpoint.kind not in KINDS:
        raise BreakpointError(f"unknown kind of breakpoint {breakpoint.kind!r}")
    if not breakpoint.target.strip():
        raise BreakpointError(f"a breakpoint of kind {breakpoint.kind} needs a name")
    if len(breakpoint.target) > _MAX_TARGET:
        raise BreakpointError(f"the breakpoint's name is longer than {_MAX_TARGET} characters")
    if breakpoint.kind == "regex":
        regular_expressions.check(breakpoint.target)
    if breakpoint.kind == "glob" and len(breakpoint.target) > _MAX_GLOB:
        raise BreakpointError(f"the pattern is longer than {_MAX_GLOB} characters")
    if breakpoint.kind == "source":
        line_of(breakpoint.target)
    first, last = breakpoint.first_step, breakpoint.last_step
    if first < 0 or (last is not None and last < first):
        raise BreakpointError(f"the range of steps is empty: {first} to {last}", hint="step 3..7")
    hits_of(breakpoint.hits)
    condition_of(breakpoint)
    message = message_of(breakpoint)
    if message is not None and breakpoint.when == "before" and "value" in message.names:
        raise ConditionError("value is known only after the node has run",
                             hint="log after the node, or log inputs")  # fmt: skip


@lru_cache(maxsize=256)
def message_of(breakpoint: Breakpoint) -> LogMessage | None:
    """Compile the breakpoint's log message; None if it stops.

    Raises:
        ConditionError: An expression in it cannot be parsed.
    """
    return compile_message(breakpoint.log) if breakpoint.log.strip() else None


def of_gradients(breakpoint: Breakpoint) -> bool:
    """Whether it stops at the gradients of its nodes' outputs rather than at the nodes."""
    return breakpoint.condition.strip() != "" and "grad" in _names(breakpoint)


def _names(breakpoint: Breakpoint) -> frozenset[str]:
    condition = condition_of(breakpoint)
    return frozenset() if condition is None else condition.names


class Became(msgspec.Struct, frozen=True):
    """The fate of a node in a compiled function.

    Attributes:
        node: The node with its name as if it ran separately.
        how: A description: ``fused into step/fused_2 (elementwise) by fuse``.
        runs: Whether its result is computed while the program runs.
    """

    node: Node
    how: str
    runs: bool


class Catalog:
    """The nodes defined so far by id, in their latest definition; and the fate of compiled ones."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.nodes: dict[int, Node] = {}
        self.became: dict[str, Became] = {}
        self.add(nodes)

    def add(self, nodes: Iterable[Node], became: Iterable[Became] = ()) -> None:
        """Add new nodes, or new definitions of known ones."""
        for node in nodes:
            self.nodes[node.id] = node
        for fate in became:
            self.became[fate.node.name] = fate

    def matches(self, breakpoint: Breakpoint) -> bool:
        """Whether the breakpoint covers a node defined so far, or one whose work another node
        does.
        """
        return any(covers(breakpoint, node) for node in list(self.nodes.values())) or any(
            fate.runs and covers(breakpoint, fate.node) for fate in list(self.became.values())
        )

    def has_scopes(self) -> bool:
        """Whether any node so far is in a scope."""
        return any(node.scope for node in list(self.nodes.values()))

    def has_twin(self, node: int) -> bool:
        """Whether it has a backward node so far."""
        return any(other.forward == node for other in list(self.nodes.values()))

    def fate(self, breakpoint: Breakpoint) -> str:
        """The fate of the nodes that a breakpoint covers in compiled functions, or ``""``."""
        fates = [fate for fate in list(self.became.values()) if covers(breakpoint, fate.node)]
        if not fates:
            return ""
        first = next((fate for fate in fates if fate.runs), fates[0])
        suffix = f", and {len(fates) - 1} more" if len(fates) > 1 else ""
        return f"{first.node.name} was {first.how}{suffix}"

    def near(self, breakpoint: Breakpoint) -> str:
        """``no node named 'x' so far; did you mean 'y'?`` for a breakpoint that matches nothing."""
        if fate := self.fate(breakpoint):
            return fate
        nodes = list(self.nodes.values())
        names: set[str] = set()
        match breakpoint.kind:
            case "node" | "glob" | "regex":
                names = {node.name for node in nodes}
            case "op":
                names = {node.op for node in nodes}
            case "scope":
                names = {path for node in nodes if not node.is_leaf
                         for path in ancestors(node.scope)}  # fmt: skip
            case "source":
                names = {f"{os.path.basename(node.source.file)}:{node.source.line}"
                         for node in nodes if node.source is not None}  # fmt: skip
                file = os.path.basename(breakpoint.target).rpartition(":")[0]
                if any(place.rpartition(":")[0] == file for place in names):
                    names = set()  # the file is right, and its line may still be reached
        noun = {
            "glob": "node like",
            "regex": "node like",
            "scope": "scope",
            "op": "op",
            "source": "node made at",
        }.get(breakpoint.kind, "node")
        if breakpoint.kind == "node" and any(
            breakpoint.target in ancestors(node.scope) for node in nodes
        ):
            path = breakpoint.target
            return f"no node {path!r} so far, but a scope: scope:{path} stops on entering it"
        hint = did_you_mean(breakpoint.target, _likely(breakpoint.target, names)) or _by_last_part(
            breakpoint.target, names
        )
        return f"no {noun} {breakpoint.target!r} so far{'; ' + hint if hint else ''}"


def _likely(target: str, names: set[str]) -> Iterable[str]:
    """The names with the most similar beginnings and ends; comparing all would take a second."""
    if len(names) <= _MOST_WEIGHED:
        return names

    def alike(name: str) -> int:
        return _common(target, name) + _common(target[::-1], name[::-1])

    return nlargest(_MOST_WEIGHED, names, key=alike)


def _common(text: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(text), len(other)))


def _by_last_part(target: str, names: set[str]) -> str:
    """A hint by the last part of a name: ``loss`` for ``train/step/loss_2``."""
    last = target.rpartition("/")[2].strip("*?")
    close = sorted(name for name in names if last and last in name.rpartition("/")[2])[:3]
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""
