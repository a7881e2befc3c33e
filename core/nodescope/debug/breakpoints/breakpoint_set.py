"""Breakpoint set: replaces it, matches it with the graph, and reports on it.

Invariant: pure; an id names one breakpoint for the whole run and keeps its hits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from nodescope.debug.breakpoints.matching import (
    Became,
    Catalog,
    condition_of,
    covers,
    of_gradients,
    validate,
)
from nodescope.debug.breakpoints.syntax import describe
from nodescope.debug.expressions.builtins import Eval
from nodescope.errors import BreakpointError
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.protocol import Breakpoint, BreakpointStatus, When

MAX_BREAKPOINTS: Final = 1000
Statuses = tuple[BreakpointStatus, ...]


class Query(NamedTuple):
    """The test of an armed breakpoint at a node that it covers, prepared for the fast path."""

    first_step: int
    last_step: float
    scope: str | None
    condition: Eval | None
    elapsed: bool


def query_of(breakpoint: Breakpoint) -> Query:
    """The query of a breakpoint. Raises `ConditionError`."""
    last = breakpoint.last_step
    condition = condition_of(breakpoint)
    return Query(
        breakpoint.first_step,
        math.inf if last is None else last,
        breakpoint.target if breakpoint.kind == "scope" else None,
        None if condition is None else condition.bare,
        condition is not None and "elapsed" in condition.names,
    )


# A query that never counts: no step has its number.
NEVER: Final = Query(sys.maxsize, math.inf, None, None, False)


def replace_breakpoints(
    old: Statuses, breakpoints: tuple[Breakpoint, ...], next_id: int, catalog: Catalog
) -> tuple[Statuses, int]:
    """Make ``breakpoints`` the whole set; return it and the next free id.

    A breakpoint that keeps its id keeps its hits, unless its conditions have changed.

    Raises:
        BreakpointError, ConditionError: One of them is invalid; nothing is changed.
    """
    if len(breakpoints) > MAX_BREAKPOINTS:
        raise BreakpointError(
            f"{len(breakpoints)} breakpoints, at most {MAX_BREAKPOINTS} are possible"
        )
    by_id = {status.breakpoint.id: status for status in old}
    statuses: list[BreakpointStatus] = []
    for breakpoint in breakpoints:
        validate(breakpoint)
        # An unknown or repeated id makes a new breakpoint.
        previous = by_id.pop(breakpoint.id, None)
        if previous is None:
            breakpoint = msgspec.structs.replace(breakpoint, id=next_id)
            next_id += 1
        matched = catalog.matches(breakpoint)
        message = catalog.fate(breakpoint)
        if not message and not matched and catalog.nodes:
            message = catalog.near(breakpoint)
        same = previous is not None and _hit_condition(previous.breakpoint) == _hit_condition(
            breakpoint
        )
        hits = previous.hits if previous is not None and same else 0
        statuses.append(BreakpointStatus(breakpoint, verified=matched, hits=hits, message=message))
    return tuple(statuses), next_id


def _hit_condition(breakpoint: Breakpoint) -> Breakpoint:
    """The part of a breakpoint that defines its hits: everything except its enabled state and the
    effect of a hit.
    """
    return msgspec.structs.replace(breakpoint, enabled=True, log="", once=False, group="")


def mark_verified(statuses: Statuses, nodes: tuple[Node, ...]) -> Statuses:
    """Mark the breakpoints that match a new node; the same object if there are none."""
    fresh = {
        status.breakpoint.id
        for status in statuses
        if not status.verified and any(covers(status.breakpoint, node) for node in nodes)
    }
    if not fresh:
        return statuses
    return tuple(
        # The message was that there is no such node: nothing disables one that was never reached.
        msgspec.structs.replace(status, verified=True, message="")
        if status.breakpoint.id in fresh
        else status
        for status in statuses
    )


def mark_compiled(statuses: Statuses, became: tuple[Became, ...]) -> Statuses:
    """Add to each breakpoint the fate of the nodes that it covers in compiled functions."""
    if not became:
        return statuses
    catalog = Catalog()
    catalog.add((), became)
    return tuple(
        msgspec.structs.replace(
            status, verified=status.verified or catalog.matches(status.breakpoint), message=message
        )
        if (status.breakpoint.enabled or not status.verified)
        and (message := catalog.fate(status.breakpoint))
        else status
        for status in statuses
    )


def mark_unmatched(statuses: Statuses, catalog: Catalog) -> tuple[Statuses, tuple[str, ...]]:
    """Report each breakpoint without a match, once, with similar names."""
    messages: list[str] = []
    result: list[BreakpointStatus] = []
    for status in statuses:
        if not status.verified and status.breakpoint.enabled:
            message = catalog.near(status.breakpoint)
            messages.append(f"breakpoint {describe(status.breakpoint)}: {message}; it stays armed")
            status = msgspec.structs.replace(status, message=message)
        result.append(status)
    return tuple(result), tuple(messages)


def queries_by_node(
    active: tuple[Breakpoint, ...],
    when: When,
    nodes: Iterable[Node],
    stands_for: Callable[[Node], tuple[Node, ...]],
) -> dict[int, tuple[Query, ...]]:
    """Queries by node id; empty at nodes that no breakpoint covers.

    Gradient breakpoints have no queries here: they are matched by gradients. Inside the scope of a
    scope breakpoint, each node has at least `NEVER`, so that the thread's place is tracked.

    Args:
        active: The breakpoints that are armed.
        when: Selects breakpoints before or after nodes.
        nodes: The program's nodes.
        stands_for: Returns the nodes whose work a node does in addition.
    """
    chosen = [(breakpoint, query_of(breakpoint)) for breakpoint in active
              if breakpoint.when == when and not of_gradients(breakpoint)]  # fmt: skip
    scopes = [
        breakpoint.target for breakpoint in active if breakpoint.kind == "scope" and when == "after"
    ]
    by_node: dict[int, tuple[Query, ...]] = {}
    for node in nodes:
        covered = (node, *stands_for(node)) if chosen else ()
        queries = [
            query
            for breakpoint, query in chosen
            if any(covers(breakpoint, candidate) for candidate in covered)
        ]
        inside = any(is_within(node.scope, scope) for scope in scopes)
        if not queries and inside and not node.is_leaf:
            queries = [NEVER]
        by_node[node.id] = tuple(queries)
    return by_node
