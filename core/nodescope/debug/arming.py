"""Arming: a set of breakpoints is replaced, meets the graph, and is reported on.

Invariant: pure; an id names one breakpoint for the whole run, and its hits go with it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from nodescope.debug.breakpoints import Became, Catalog, covers, is_leaf, of_gradients, validate
from nodescope.debug.spelling import describe
from nodescope.debug.verdicts import Asked, asked_of
from nodescope.errors import BreakpointError
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.protocol import Breakpoint, BreakpointStatus, When

MAX_BREAKPOINTS: Final = 1000
# What is asked where nothing is: the step is none that comes.
NEVER: Final = Asked(sys.maxsize, math.inf, None, None, False)

Statuses = tuple[BreakpointStatus, ...]


def replaced(
    old: Statuses, wanted: tuple[Breakpoint, ...], next_id: int, catalog: Catalog
) -> tuple[Statuses, int]:
    """Make ``wanted`` the whole set; returns it and the next free id.

    Raises:
        BreakpointError, ConditionError: One of them makes no sense; nothing is changed.
    """
    if len(wanted) > MAX_BREAKPOINTS:
        raise BreakpointError(f"{len(wanted)} breakpoints, at most {MAX_BREAKPOINTS} are possible")
    by_id = {status.breakpoint.id: status for status in old}
    statuses: list[BreakpointStatus] = []
    for each in wanted:
        validate(each)
        # An id that was never given out, or is asked for twice, names something new.
        known = by_id.pop(each.id, None)
        if known is None:
            each = msgspec.structs.replace(each, id=next_id)
            next_id += 1
        seen = catalog.matches(each)
        message = catalog.fate(each)
        if not message and not seen and catalog.nodes:
            message = catalog.near(each)
        hits = known.hits if known is not None else 0
        statuses.append(BreakpointStatus(each, verified=seen, hits=hits, message=message))
    return tuple(statuses), next_id


def verified(statuses: Statuses, nodes: tuple[Node, ...]) -> Statuses:
    """Mark those that one of the new nodes matches; the same object if there are none."""
    fresh = {
        status.breakpoint.id
        for status in statuses
        if not status.verified and any(covers(status.breakpoint, node) for node in nodes)
    }
    if not fresh:
        return statuses
    return tuple(
        msgspec.structs.replace(
            status, verified=True, message="" if status.breakpoint.enabled else status.message
        )
        if status.breakpoint.id in fresh
        else status
        for status in statuses
    )


def replaced_by(statuses: Statuses, became: tuple[Became, ...]) -> Statuses:
    """Say of each what a compiler made of the nodes that it is about."""
    if not became:
        return statuses
    catalog = Catalog()
    catalog.add((), became)
    return tuple(
        msgspec.structs.replace(
            status, verified=status.verified or catalog.matches(status.breakpoint), message=message
        )
        if status.breakpoint.enabled and (message := catalog.fate(status.breakpoint))
        else status
        for status in statuses
    )


def settled(statuses: Statuses, catalog: Catalog) -> tuple[Statuses, tuple[str, ...]]:
    """Say of each that nothing has matched so far, once, with near names."""
    messages: list[str] = []
    result: list[BreakpointStatus] = []
    for status in statuses:
        if not status.verified and status.breakpoint.enabled:
            message = catalog.near(status.breakpoint)
            messages.append(f"breakpoint {describe(status.breakpoint)}: {message}; it stays armed")
            status = msgspec.structs.replace(status, message=message)
        result.append(status)
    return tuple(result), tuple(messages)


def asked_at(
    active: tuple[Breakpoint, ...],
    when: When,
    nodes: Iterable[Node],
    stands_for: Callable[[Node], tuple[Node, ...]],
) -> dict[int, tuple[Asked, ...]]:
    """By node id, what breakpoints ask there: nothing at nodes that none is about.

    Those that wait for gradients are about none: they are met by these. Inside of a scope that is
    waited for something is asked after each node, if only `NEVER`: the thread is inside now.

    Args:
        active: The breakpoints that are armed.
        when: Which of them.
        nodes: Of the program.
        stands_for: Gives the nodes whose work a node does besides.
    """
    chosen = [(each, asked_of(each)) for each in active
              if each.when == when and not of_gradients(each)]  # fmt: skip
    scopes = [each.target for each in active if each.kind == "scope" and when == "after"]
    found: dict[int, tuple[Asked, ...]] = {}
    for node in nodes:
        about = (node, *stands_for(node)) if chosen else ()
        asked = [asked for each, asked in chosen if any(covers(each, one) for one in about)]
        if not asked and any(is_within(node.scope, each) for each in scopes) and not is_leaf(node):
            asked = [NEVER]
        found[node.id] = tuple(asked)
    return found
