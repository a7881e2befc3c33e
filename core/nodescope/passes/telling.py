"""Tells a run what a lowering did: its graphs, its passes, and what became of what, as events.

Invariant: plain data only; every graph that a pass made is told once, under an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from nodescope.events import Compiled, Event, GraphCaptured, PassApplied
from nodescope.ir.graph import Graph
from nodescope.passes.pipeline import Lowered
from nodescope.passes.provenance import Provenance, Rewrite, with_origins

_replace = msgspec.structs.replace


def events_of(
    lowered: Lowered,
    owner: str,
    new_id: Callable[[], int],
    *,
    backend: str = "",
    fallback: str = "",
    costs: Mapping[int, Mapping[str, Any]] | None = None,
    memory: Mapping[str, Any] | None = None,
    compile_ms: float = 0.0,
) -> Iterator[Event]:
    """What a recorder is told of a compiled function, before its nodes run.

    The last graph that is told is the final one: its id is what `Node.graph` of a node that runs
    says.

    Args:
        lowered: What the passes made.
        owner: The function and the number of its trace, ``train_step#1``.
        new_id: Gives ids of captured graphs, each once in a run.
        backend: Its name.
        fallback: Why it is not the one that was asked for.
        costs: By final node: flops, bytes, intensity, bound.
        memory: Of the back end's plan.
        compile_ms: How long it took.
    """
    before = new_id()
    yield GraphCaptured(_replace(lowered.traced, id=before), owner, "traced")
    changed = [each for each in lowered.stages if each.after is not each.before]
    done: list[Rewrite] = []
    for stage in lowered.stages:
        after = before
        done.extend(stage.rewrites)
        if stage.after is not stage.before and stage is not changed[-1]:
            after = new_id()
            yield GraphCaptured(_with(lowered.traced, stage.after, done, after), owner, stage.name)
        elif changed and stage is changed[-1]:
            after = new_id()
            yield GraphCaptured(_replace(lowered.graph, id=after), owner, "final")
        yield PassApplied(
            stage.name, before, after, tuple(msgspec.to_builtins(each) for each in stage.rewrites),
            owner, stage.took_ns, stage.notes,
        )  # fmt: skip
        before = after
    if not changed:
        yield GraphCaptured(_replace(lowered.graph, id=new_id()), owner, "final")
    about = about_of(lowered)
    about |= {
        "backend": backend, "fallback": fallback, "compile_ms": compile_ms,
        "costs": {str(node): dict(each) for node, each in (costs or {}).items()},
        "memory": dict(memory or {}),
    }  # fmt: skip
    yield Compiled(owner, about)


def about_of(lowered: Lowered) -> dict[str, Any]:
    """Fates, origins and values, as `nodescope.events.Compiled` has them."""
    found = lowered.provenance
    values: dict[str, int] = {}
    inside: dict[str, tuple[int, int]] = {}
    for each in lowered.traced.values:
        stands, within = found.value(each.id), found.kernel(each.id)
        if stands is not None:
            values[str(each.id)] = stands
        elif within is not None:
            inside[str(each.id)] = within
    return {
        "fates": [msgspec.to_builtins(each) for each in found.fates.values()],
        "origins": {str(node.id): found.origin(node.id) for node in lowered.graph.nodes},
        "values": values,
        "inside": inside,
        "unfused": [*reasons_of(lowered), *(n for stage in lowered.stages for n in stage.notes)],
    }


def reasons_of(lowered: Lowered) -> Iterator[str]:
    """Why neighbours are not one kernel, by name: ``add → sum: ...``."""
    names: dict[int, str] = {}
    for graph in (*(stage.before for stage in lowered.stages), lowered.graph):
        names.update((node.id, node.name) for node in graph.nodes)
    for stage in lowered.stages:
        for each in stage.unfused:
            producer, consumer = (names.get(i, f"@{i}") for i in (each.producer, each.consumer))
            yield f"{producer} → {consumer}: {each.reason}"


def _with(traced: Graph, graph: Graph, done: list[Rewrite], id: int) -> Graph:
    found = Provenance(traced, graph, done)
    origins = {node.id: found.origin(node.id) for node in graph.nodes}
    return _replace(with_origins(graph, origins), id=id)
