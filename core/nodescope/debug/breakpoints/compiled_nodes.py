"""Compiled nodes: the fate of nodes that a breakpoint may name in compiled functions.

A breakpoint refers to a name, and a compiled function keeps the names of its traced nodes, wherever
it is called. From the captured graphs, this finds for each call site which executed node computes a
node that does not run by itself.

Invariant: reads events, changes nothing; unknown cases are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from nodescope.debug.breakpoints.matching import Became
from nodescope.events import Compiled, GraphCaptured
from nodescope.ir.graph import Graph, Node
from nodescope.ir.scopes import base_of, join, placed

_SAME = frozenset({"kept", "recomputed"})  # runs under its own name


class _Compilation:
    """One trace of a compiled function."""

    def __init__(self, traced: Graph, final: Graph, compiled: Compiled) -> None:
        self.traced, self.final = traced, final
        self.fates = {fate.node: fate for fate in compiled.fates}
        self.values = compiled.values
        self.nodes = {node.id: node for node in final.nodes}
        self.makers = {value: node.id for node in final.nodes for value in node.outputs}
        self.by_key = {_key(node): node for node in final.nodes}

    def changed(self) -> Iterable[tuple[Node, str, tuple[int, ...], str]]:
        """Traced nodes that do not run unchanged: kind, final nodes, and the responsible rules."""
        for node in self.traced.nodes:
            fate = self.fates.get(node.id)
            if fate is None or fate.kind in _SAME or node.is_leaf:
                continue
            into = tuple(final for final in fate.into if final in self.nodes)
            makers = {self.makers.get(self.values.get(value, 0)) for value in node.outputs}
            holding = tuple(final for final in into if final in makers)
            yield node, fate.kind, holding or into, ", ".join(fate.by)


class Compilations:
    """All traces of compiled functions reported in the run."""

    def __init__(self) -> None:
        self._traced: dict[str, Graph] = {}
        self._final: dict[str, Graph] = {}
        self._known: dict[int, _Compilation] = {}
        self._sites: set[tuple[int, str]] = set()
        self._stands: dict[int, tuple[Node, ...]] = {}
        self._inside: dict[int, tuple[Node, ...]] = {}

    def knows(self, graph: int) -> bool:
        """Whether a captured graph belongs to a reported compiled function."""
        return graph in self._known

    def know(self, traced: Graph, final: Graph, compiled: Compiled) -> None:
        """Take in a trace from a recording."""
        self._known[final.id] = _Compilation(traced, final, compiled)

    def take(self, event: GraphCaptured | Compiled) -> None:
        """Take in an event about a captured or compiled graph."""
        if isinstance(event, GraphCaptured):
            if event.stage == "traced":
                self._traced[event.owner] = event.graph
            elif event.stage == "final":
                self._final[event.owner] = event.graph
            return
        traced, final = self._traced.pop(event.owner, None), self._final.pop(event.owner, None)
        if traced is not None and final is not None:
            self.know(traced, final, event)

    def met(self, nodes: Iterable[Node]) -> tuple[Became, ...]:
        """Take in nodes that run for the first time; return the fates of other nodes at their call
        site.
        """
        outcomes: list[Became] = []
        for node in nodes:
            compilation = self._known.get(node.graph)
            if compilation is None:
                continue
            final = compilation.by_key.get(_key(node))
            base = None if final is None else base_of(node.scope, final.scope, final.phase)
            if final is None or base is None:
                continue
            replacements: list[Node] = []
            inside: list[Node] = []
            first = (node.graph, base) not in self._sites
            self._sites.add((node.graph, base))
            for traced, kind, into, by in compilation.changed():
                place = _named(traced, base)
                if final.id in into and place.name != node.name:
                    (inside if _holds(final, traced) else replacements).append(place)
                if first:
                    names = [_named(compilation.nodes[node_id], base).name for node_id in into]
                    runs = any(not compilation.nodes[node_id].is_leaf for node_id in into)
                    if not runs or names != [place.name]:
                        outcomes.append(Became(place, _words(kind, names, by, runs), runs))
            if replacements:
                self._stands[node.id] = tuple(replacements)
            if inside:
                self._inside[node.id] = tuple(inside)
        return tuple(outcomes)

    def stands_for(self, node: Node) -> tuple[Node, ...]:
        """The nodes that do not run, and whose work this node does as a whole."""
        return self._stands.get(node.id, ())

    def inside(self, node: Node) -> tuple[Node, ...]:
        """The nodes that a kernel runs inside; when it is opened, each of them also runs
        separately.
        """
        return self._inside.get(node.id, ())


def _words(kind: str, names: list[str], by: str, runs: bool) -> str:
    into = f" into {' and '.join(names)}" if names else ""
    after = "" if runs else "; it does not run"
    return f"{kind}{into}{f' by {by}' if by else ''}{after}"


def _key(node: Node) -> tuple[str, tuple[int, ...], str]:
    return node.op, node.origin, node.name.rpartition("/")[2]


def _holds(final: Node, traced: Node) -> bool:
    """Whether a kernel contains the traced node, by name: when opened, it runs there separately."""
    body = final.attrs.get("body")
    covers = final.attrs.get("covers", ())
    names = [node.name for node in body.nodes] if isinstance(body, Graph) else covers
    return traced.name in names


def _named(node: Node, base: str) -> Node:
    """A node with its name in scope ``base``."""
    scope = placed(node.scope, node.phase, base)
    name = join(scope, node.name.rpartition("/")[2])
    return msgspec.structs.replace(node, name=name, scope=scope)
