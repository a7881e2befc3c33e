"""Provenance: which traced nodes each node of a stage replaces, and what each pass changed.

Invariant: pure; derived only from the recorded rewrites.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from nodescope.ir.graph import Graph
from nodescope.ir.provenance import Change
from nodescope.record.compiled_functions import CompiledFunction


class StageChange(msgspec.Struct, frozen=True):
    """One rewrite of a pass, with the names of nodes, or ``@id`` if unknown.

    Attributes:
        rule: The rule of the pass.
        kind: The change to the nodes in ``before``.
        before, after: Names of the nodes before and after the rewrite.
        note: Further remarks.
    """

    rule: str
    kind: Change
    before: tuple[str, ...]
    after: tuple[str, ...]
    note: str


class Stage(msgspec.Struct, frozen=True):
    """The graph of a compiled function at one point of its compilation.

    Attributes:
        name: ``traced``, the pass that produced it, or ``final``.
        graph: Id of the captured graph.
        nodes: The number of nodes without leaves.
        changes: The changes made by the pass.
        took_ns: The duration of the pass.
        notes: Further remarks of the pass.
    """

    name: str
    graph: int
    nodes: int
    changes: tuple[StageChange, ...] = ()
    took_ns: int = 0
    notes: tuple[str, ...] = ()


def stages(function: CompiledFunction) -> tuple[Stage, ...]:
    """The traced graph, then one stage for each pass that changed it."""
    graphs = {graph.id: graph for _, graph in function.graphs}
    names: dict[int, str] = {}
    for graph in graphs.values():
        names.update((node.id, node.name) for node in graph.nodes)
    result = [Stage("traced", function.traced.id, _count(function.traced))]
    for graph_pass in function.passes:
        if graph_pass.after == graph_pass.before or graph_pass.after not in graphs:
            continue
        changes = tuple(
            StageChange(
                rewrite.rule,
                rewrite.change,
                _named(rewrite.before, names),
                _named(rewrite.after, names),
                rewrite.note,
            )
            for rewrite in graph_pass.rewrites
        )
        count = _count(graphs[graph_pass.after])
        result.append(
            Stage(
                graph_pass.name,
                graph_pass.after,
                count,
                changes,
                graph_pass.took_ns,
                graph_pass.notes,
            )
        )
    if result[-1].graph != function.final.id:
        result.append(Stage("final", function.final.id, _count(function.final)))
    return tuple(result)


def with_origins(function: CompiledFunction, graph_id: int) -> Graph | None:
    """A stage's graph with `Node.origin` set; None if the function has no such graph."""
    graph = next((g for _, g in function.graphs if g.id == graph_id), None)
    if graph is None:
        return None
    if any(node.origin for node in graph.nodes):
        return graph
    origins: dict[int, set[int]] = {node.id: {node.id} for node in function.traced.nodes}
    if graph.id != function.traced.id:
        for graph_pass in function.passes:
            for rewrite in graph_pass.rewrites:
                if rewrite.only_reorders:
                    continue
                known: set[int] = set()
                for before in rewrite.before:
                    known |= origins.get(before, set())
                for after in rewrite.after:
                    origins.setdefault(after, set()).update(known)
            if graph_pass.after == graph.id:
                break
    return msgspec.structs.replace(
        graph,
        nodes=tuple(
            msgspec.structs.replace(node, origin=tuple(sorted(origins.get(node.id, ()))))
            for node in graph.nodes
        ),
    )


def _count(graph: Graph) -> int:
    return sum(not node.is_leaf for node in graph.nodes)


def _named(ids: Iterable[int], names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(names.get(node, f"@{node}") for node in ids)
