"""What each node of a stage stands for, and how a function's stages follow from one another.

Invariant: pure; told from the recorded rewrites alone, as the passes told them.
"""

from __future__ import annotations

import msgspec

from nodescope.ir.graph import Graph
from nodescope.record.captured import Function


class Change(msgspec.Struct, frozen=True):
    """One rewrite of a pass, with nodes by name as far as they are known.

    Attributes:
        rule: Which rule of the pass.
        kind: What happened: renamed, rewritten, folded, merged, fused, recomputed, eliminated.
        before, after: Names of the nodes.
        note: What else there is to say.
    """

    rule: str
    kind: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    note: str


class Stage(msgspec.Struct, frozen=True):
    """The graph of a compiled function at one point of its compilation.

    Attributes:
        name: ``traced``, or the pass that made it.
        graph: Id of the captured graph.
        nodes: How many nodes it has, leaves not counted.
        changes: What the pass changed.
        took_ns: How long the pass took.
        notes: What it says besides.
    """

    name: str
    graph: int
    nodes: int
    changes: tuple[Change, ...] = ()
    took_ns: int = 0
    notes: tuple[str, ...] = ()


def stages(function: Function) -> tuple[Stage, ...]:
    """The traced graph, then one stage for each pass that changed it."""
    graphs = {graph.id: graph for _, graph in function.graphs}
    names: dict[int, str] = {}
    for graph in graphs.values():
        names.update((node.id, node.name) for node in graph.nodes)
    found = [Stage("traced", function.traced.id, _count(function.traced))]
    for each in function.passes:
        if each.after == each.before or each.after not in graphs:
            continue
        changes = tuple(
            Change(
                str(one.get("rule", "")),
                str(one.get("change", "")),
                _named(one.get("before", ()), names),
                _named(one.get("after", ()), names),
                str(one.get("note", "")),
            )
            for one in each.rewrites
        )
        count = _count(graphs[each.after])
        found.append(Stage(each.name, each.after, count, changes, each.took_ns, each.notes))
    if found[-1].graph != function.final.id:
        found.append(Stage("final", function.final.id, _count(function.final)))
    return tuple(found)


def with_origins(function: Function, graph_id: int) -> Graph | None:
    """A stage's graph with `Node.origin` set; None if the function has no such graph."""
    graph = next((each for _, each in function.graphs if each.id == graph_id), None)
    if graph is None:
        return None
    if any(node.origin for node in graph.nodes):
        return graph
    standing: dict[int, set[int]] = {node.id: {node.id} for node in function.traced.nodes}
    if graph.id != function.traced.id:
        for each in function.passes:
            for one in each.rewrites:
                if len(one["before"]) > 1 and set(one["before"]) == set(one["after"]):
                    continue  # only another order
                known: set[int] = set()
                for before in one.get("before", ()):
                    known |= standing.get(before, set())
                for after in one.get("after", ()):
                    standing.setdefault(after, set()).update(known)
            if each.after == graph.id:
                break
    return msgspec.structs.replace(
        graph,
        nodes=tuple(
            msgspec.structs.replace(node, origin=tuple(sorted(standing.get(node.id, ()))))
            for node in graph.nodes
        ),
    )


def _count(graph: Graph) -> int:
    return sum(node.family != "leaf" for node in graph.nodes)


def _named(ids: object, names: dict[int, str]) -> tuple[str, ...]:
    return tuple(names.get(each, f"@{each}") for each in ids)  # type: ignore[attr-defined]
