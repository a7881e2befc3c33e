"""Calls: which compiled functions ran in a step, in which order and in which scope.

Invariant: pure; uses only the nodes of the compiled run, whose scopes begin with the call's scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nodescope.ir.graph import Graph, Node
from nodescope.ir.scopes import base_of


class CapturedCall(NamedTuple):
    """One call: the id of the captured graph that ran, and the scope around it, if known."""

    graph: int
    base: str | None


def calls(ran: Iterable[Node], finals: Mapping[int, Graph]) -> list[CapturedCall]:
    """The calls that executed nodes of a compiled run, in order.

    Args:
        ran: The executed nodes, in order; each call has its own nodes.
        finals: The final graphs of compiled functions, by id.
    """
    calls_made: list[CapturedCall] = []
    latest: dict[int, int] = {}
    openers: dict[int, object] = {}
    seen: Counter[int] = Counter()
    scopes = {
        graph: {(node.op, node.origin): node for node in reversed(final.nodes)}
        for graph, final in finals.items()
    }
    alike = {
        graph: Counter((node.op, node.origin) for node in final.nodes)
        for graph, final in finals.items()
    }
    for node in ran:
        if node.graph not in finals:
            continue
        key = node.op, node.origin
        if openers.setdefault(node.graph, key) == key:
            # A graph may contain several nodes with the same op and origin.
            if seen[node.graph] % max(1, alike[node.graph][key]) == 0:
                latest[node.graph] = len(calls_made)
                calls_made.append(CapturedCall(node.graph, None))
            seen[node.graph] += 1
        at = latest[node.graph]
        if calls_made[at].base is None and key in scopes[node.graph]:
            final = scopes[node.graph][key]
            calls_made[at] = CapturedCall(node.graph, base_of(node.scope, final.scope, final.phase))
    return calls_made
