"""Compilations: what compilers made of nodes that a person may have put a breakpoint on.

A breakpoint is about a name, and a compiled function keeps the names of what was traced, wherever
it is called. From its captured graphs this tells, for each call site, which of the nodes that run
does the work of one that does not run by itself.

Invariant: reads events, changes nothing; what it cannot tell it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from nodescope.debug.breakpoints import Became
from nodescope.events import Compiled, GraphCaptured
from nodescope.ir.graph import Graph, Node
from nodescope.ir.scopes import join, placed

_SAME = frozenset({"kept", "recomputed"})  # runs under its own name


class _Compilation:
    """One trace of a compiled function."""

    def __init__(self, traced: Graph, final: Graph, about: Mapping[str, Any]) -> None:
        self.traced, self.final = traced, final
        self.fates: dict[int, dict[str, Any]] = {each["node"]: each for each in about["fates"]}
        self.values: Mapping[str, int] = about["values"]
        self.nodes = {node.id: node for node in final.nodes}
        self.makers = {value: node.id for node in final.nodes for value in node.outputs}
        self.by_key = {_key(node): node for node in final.nodes}

    def changed(self) -> Iterable[tuple[Node, str, tuple[int, ...], str]]:
        """Traced nodes that do not run as they were: kind, final nodes, by which rules."""
        for node in self.traced.nodes:
            fate = self.fates.get(node.id)
            if fate is None or fate["kind"] in _SAME or node.family == "leaf":
                continue
            into = tuple(each for each in fate["into"] if each in self.nodes)
            makes = {self.makers.get(self.values.get(str(each), 0)) for each in node.outputs}
            holding = tuple(each for each in into if each in makes)
            yield node, fate["kind"], holding or into, ", ".join(fate["by"])


class Compilations:
    """All traces of compiled functions that the run has told of."""

    def __init__(self) -> None:
        self._traced: dict[str, Graph] = {}
        self._final: dict[str, Graph] = {}
        self._known: dict[int, _Compilation] = {}
        self._sites: set[tuple[int, str]] = set()
        self._stands: dict[int, tuple[Node, ...]] = {}
        self._inside: dict[int, tuple[Node, ...]] = {}

    def knows(self, graph: int) -> bool:
        """Whether a captured graph is that of a compiled function it was told of."""
        return graph in self._known

    def know(self, traced: Graph, final: Graph, about: Mapping[str, Any]) -> None:
        """Take in a trace, as a recording tells of it."""
        self._known[final.id] = _Compilation(traced, final, about)

    def take(self, event: GraphCaptured | Compiled) -> None:
        """Take in what was captured or compiled."""
        if isinstance(event, GraphCaptured):
            if event.stage == "traced":
                self._traced[event.owner] = event.graph
            elif event.stage == "final":
                self._final[event.owner] = event.graph
            return
        traced, final = self._traced.pop(event.owner, None), self._final.pop(event.owner, None)
        if traced is not None and final is not None:
            self.know(traced, final, event.about)

    def met(self, nodes: Iterable[Node]) -> tuple[Became, ...]:
        """Nodes that run for the first time; what became of others at their call site."""
        found: list[Became] = []
        for node in nodes:
            compilation = self._known.get(node.graph)
            if compilation is None:
                continue
            final = compilation.by_key.get(_key(node))
            base = None if final is None else _base(node, final)
            if final is None or base is None:
                continue
            stands: list[Node] = []
            inside: list[Node] = []
            first = (node.graph, base) not in self._sites
            self._sites.add((node.graph, base))
            for traced, kind, into, by in compilation.changed():
                here = _named(traced, base)
                if final.id in into and here.name != node.name:
                    (inside if _holds(final, traced) else stands).append(here)
                if first:
                    names = [_named(compilation.nodes[each], base).name for each in into]
                    runs = any(compilation.nodes[each].family != "leaf" for each in into)
                    if not runs or names != [here.name]:
                        found.append(Became(here, _words(kind, names, by, runs), runs))
            if stands:
                self._stands[node.id] = tuple(stands)
            if inside:
                self._inside[node.id] = tuple(inside)
        return tuple(found)

    def stands_for(self, node: Node) -> tuple[Node, ...]:
        """The nodes that do not run, and whose work this one does as a whole."""
        return self._stands.get(node.id, ())

    def inside(self, node: Node) -> tuple[Node, ...]:
        """The nodes that a kernel runs within it; opened, each of them runs by itself, too."""
        return self._inside.get(node.id, ())


def _words(kind: str, names: list[str], by: str, runs: bool) -> str:
    into = f" into {' and '.join(names)}" if names else ""
    after = "" if runs else "; it does not run"
    return f"{kind}{into}{f' by {by}' if by else ''}{after}"


def _key(node: Node) -> tuple[str, tuple[int, ...], str]:
    return node.op, node.origin, node.name.rpartition("/")[2]


def _holds(final: Node, traced: Node) -> bool:
    """Whether a kernel has the traced node inside, by name: opened, it runs there by itself."""
    body = final.attrs.get("body")
    covers = final.attrs.get("covers", ())
    names = [each.name for each in body.nodes] if isinstance(body, Graph) else covers
    return traced.name in names


def _named(node: Node, base: str) -> Node:
    """A node as it is called in scope ``base``."""
    scope = placed(node.scope, node.phase, base)
    name = join(scope, node.name.rpartition("/")[2])
    return msgspec.structs.replace(node, name=name, scope=scope)


def _base(ran: Node, final: Node) -> str | None:
    """The scope in which a compiled graph runs; None if this node does not tell."""
    inner, outer = final.scope, ran.scope
    if final.phase == "optimizer":
        return None
    if final.phase == "backward":
        inner, outer = (each.removeprefix("backward").removeprefix("/") for each in (inner, outer))
    if not inner:
        return outer
    if outer == inner:
        return ""
    return outer.removesuffix(f"/{inner}") if outer.endswith(f"/{inner}") else None
