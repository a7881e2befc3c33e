"""Alignment: which node of an eager run corresponds to which node of a traced graph.

In the eager run, a traced node has the same scope path below the scope in which the function is
called. So nodes are matched by scope path, op, phase and ordinal, preferring the same source line
and shape, and skipping the nodes of earlier calls. Other nodes are matched by the sequence of ops
and shapes, and leaves by the nodes that read them. The reason for each match is kept.

Invariant: pure; a node is matched at most once, and never with a node of another op unless both are
leaves.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from nodescope.ir.graph import Graph, Node, Spec
from nodescope.ir.scopes import base_of, join, placed

Reason = Literal["", "name", "order", "inputs"]
_MOST_BASES = 64

Key = tuple[str, str, str]
Line = tuple[str, int] | None
Sign = tuple[Key, Line, tuple[Spec | None, ...] | None]


class Match(msgspec.Struct, frozen=True):
    """A traced node and the eager node that corresponds to it.

    Attributes:
        traced, eager: Node ids.
        reason: ``name`` (scope path, op, phase and ordinal), ``order`` (sequence of ops and shapes)
            or ``inputs`` (a leaf that feeds matched nodes).
    """

    traced: int
    eager: int
    reason: Reason


class Alignment(msgspec.Struct, frozen=True):
    """All matches by traced node id, and the scope in which the function was called."""

    base: str
    matches: dict[int, Match]


class Called(NamedTuple):
    """A call in the compared step: the traced graph, and the scope around the call."""

    traced: Graph
    base: str | None


def align(
    traced: Graph,
    eager: Sequence[Node],
    specs: Mapping[int, Spec] | None = None,
    *,
    base: str | None = None,
    before: Sequence[Called] = (),
) -> Alignment:
    """Match the nodes of a traced graph with those of an eager run.

    Args:
        traced: The graph before the first pass.
        eager: The nodes that ran in one step, in the order of their first execution.
        specs: The specs of the eager run's values by id; without them, shapes are ignored.
        base: The scope in which the function was called, if known.
        before: The calls of compiled functions before this one in the step. Where several calls
            have similar nodes, those of earlier calls are skipped.
    """
    inner = [node for node in traced.nodes if not node.is_leaf]
    outer = [node for node in eager if not node.is_leaf]
    by_key: dict[Key, list[Node]] = defaultdict(list)
    for node in outer:
        by_key[_key(node)].append(node)
    if base is None:
        base = _likeliest_base(inner, outer, by_key)
    matches: dict[int, Match] = {}
    _by_name(traced, by_key, specs or {}, base, before, matches)
    _by_order(traced, inner, outer, specs or {}, matches)
    _leaves(traced, eager, specs or {}, base, matches)
    return Alignment(base, matches)


def _by_name(
    traced: Graph,
    by_key: Mapping[Key, Sequence[Node]],
    specs: Mapping[int, Spec],
    base: str,
    before: Sequence[Called],
    matches: dict[int, Match],
) -> None:
    """Match nodes by key, line and shapes; then the rest by key and line; then by key alone.

    The eager run records the shapes of a value's first execution, so they need not fit.
    """
    matched: set[int] = set()
    for level in (2, 1, 0):
        earlier: Counter[Sign] = Counter()
        for call in before:
            signs_there = _signs(call.traced, base if call.base is None else call.base, level)
            earlier.update(sign for sign, _ in signs_there)
        groups: dict[Sign, list[Node]] = defaultdict(list)
        for sign, node in _signs(traced, base, level):
            if node.id not in matches:
                groups[sign].append(node)
        for sign, nodes in groups.items():
            candidates = [
                other
                for other in by_key.get(sign[0], ())
                if other.id not in matched and _fits(other, sign, specs)
            ]
            skip = earlier[sign]
            start = skip if skip + len(nodes) <= len(candidates) else 0
            # If the function was called several times in the step, match the first call.
            if len(candidates) >= len(nodes) and (start or len(candidates) % len(nodes) == 0):
                for node, other in zip(nodes, candidates[start:], strict=False):
                    matches[node.id] = Match(node.id, other.id, "name")
                    matched.add(other.id)


def _signs(traced: Graph, base: str, level: int) -> list[tuple[Sign, Node]]:
    """The signs of all nodes except leaves: the key; from level 1 the line; from 2 the shapes."""
    specs = {value.id: value.spec for value in traced.values}
    return [
        (
            (
                _placed(node, base),
                _line(node) if level > 0 else None,
                tuple(specs.get(value) for value in node.outputs) if level > 1 else None,
            ),
            node,
        )
        for node in traced.nodes
        if not node.is_leaf
    ]


def _fits(node: Node, sign: Sign, specs: Mapping[int, Spec]) -> bool:
    _, line, results = sign
    if line is not None and _line(node) != line:
        return False
    if results is None:
        return True
    known = tuple(specs.get(value) for value in node.outputs)
    return len(known) == len(results) and all(
        first is None or other is None or first == other
        for first, other in zip(known, results, strict=True)
    )


def _line(node: Node) -> Line:
    return (node.source.file, node.source.line) if node.source is not None else None


def _placed(node: Node, base: str) -> Key:
    """Scope, op and phase of a traced node if its function is called in scope ``base``."""
    return placed(node.scope, node.phase, base), node.op, node.phase


def _key(node: Node) -> Key:
    return node.scope, node.op, node.phase


def _likeliest_base(
    inner: Iterable[Node], outer: Iterable[Node], by_key: Mapping[Key, list[Node]]
) -> str:
    """The base scope with the most matching traced nodes."""
    counts = Counter(node.op for node in outer)
    inner_nodes = list(inner)
    forward = [node for node in inner_nodes if node.phase == "forward" and counts[node.op]]
    candidates: dict[str, None] = {"": None}
    for node in sorted(forward, key=lambda node: counts[node.op])[:3]:
        for other in outer:
            if other.op != node.op or other.phase != "forward":
                continue
            candidate = base_of(other.scope, node.scope, node.phase)
            if candidate is not None:
                candidates.setdefault(candidate)

    def matches(base: str) -> int:
        keys = Counter(_placed(node, base) for node in inner_nodes)
        return sum(min(count, len(by_key.get(key, ()))) for key, count in keys.items())

    return max(list(candidates)[:_MOST_BASES], key=matches)


def _by_order(
    traced: Graph,
    inner: Sequence[Node],
    outer: Sequence[Node],
    specs: Mapping[int, Spec],
    matches: dict[int, Match],
) -> None:
    matched = {match.eager for match in matches.values()}
    ours = {value.id: value.spec for value in traced.values}

    def sign(node: Node, known: Mapping[int, Spec]) -> tuple[object, ...]:
        shapes = tuple(known[value].shape for value in node.outputs if value in known)
        return (node.op, node.phase, shapes if specs else ())

    left = [node for node in inner if node.id not in matches]
    right = [node for node in outer if node.id not in matched]
    if not left or not right:
        return
    blocks = difflib.SequenceMatcher(
        None,
        [sign(node, ours) for node in left],
        [sign(node, specs) for node in right],
        autojunk=False,
    )
    for start, other, size in blocks.get_matching_blocks():
        for k in range(size):
            node = left[start + k]
            matches[node.id] = Match(node.id, right[other + k].id, "order")


def _leaves(
    traced: Graph,
    eager: Sequence[Node],
    specs: Mapping[int, Spec],
    base: str,
    matches: dict[int, Match],
) -> None:
    """Match leaves that feed the same port of matched nodes, then leaves of the same name."""
    makers = {value: node for node in eager for value in node.outputs}
    by_id = {node.id: node for node in eager}
    ours = {value: node for node in traced.nodes for value in node.outputs}
    matched = {m.eager for m in matches.values()}
    for node in traced.nodes:
        match = matches.get(node.id)
        if match is None:
            continue
        for value, other in zip(node.inputs, by_id[match.eager].inputs, strict=False):
            leaf, counterpart = ours.get(value), makers.get(other)
            if leaf is None or counterpart is None or not leaf.is_leaf or not counterpart.is_leaf:
                continue
            if leaf.id not in matches and counterpart.id not in matched:
                matches[leaf.id] = Match(leaf.id, counterpart.id, "inputs")
                matched.add(counterpart.id)
    names = {node.name: node for node in eager if node.is_leaf}
    shapes = {value.id: value.spec for value in traced.values}
    for node in traced.nodes:
        if not node.is_leaf or node.id in matches:
            continue
        namesake = names.get(join(base, node.name)) or names.get(node.name)
        results = tuple(shapes.get(value) for value in node.outputs)
        alike = namesake is not None and _fits(namesake, (_key(node), None, results), specs)
        if namesake is not None and alike and namesake.id not in matched:
            matches[node.id] = Match(node.id, namesake.id, "name")
            matched.add(namesake.id)
