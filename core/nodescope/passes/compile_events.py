"""Compile events: reports a lowering: its graphs, its passes, and the fates of nodes.

Invariant: plain data only; every graph that a pass produced is reported once, under its own id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from nodescope.events import Compiled, Event, GraphCaptured, PassApplied
from nodescope.ir.graph import Graph
from nodescope.ir.provenance import KernelCost, MemoryReport, Rewrite
from nodescope.passes.fates import Provenance, with_origins
from nodescope.passes.pipeline import Lowered

_replace = msgspec.structs.replace


def events_of(
    lowered: Lowered,
    owner: str,
    new_id: Callable[[], int],
    *,
    backend: str = "",
    fallback: str = "",
    costs: Mapping[int, KernelCost] | None = None,
    memory: MemoryReport | None = None,
    compile_ns: int = 0,
) -> Iterator[Event]:
    """The events of a compiled function for a recorder, before its nodes run.

    The last graph reported is the final one: `Node.graph` of an executed node refers to its id.

    Args:
        lowered: The result of the passes.
        owner: The function and the number of its trace, ``train_step#1``.
        new_id: Returns ids for captured graphs, unique in a run.
        backend, fallback, memory, compile_ns: As in `nodescope.events.Compiled`.
        costs: Costs by id of a final node.
    """
    before = new_id()
    yield GraphCaptured(_replace(lowered.traced, id=before), owner, "traced")
    changed = [stage for stage in lowered.stages if stage.after is not stage.before]
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
            stage.name, before, after, tuple(stage.rewrites), owner, stage.took_ns, stage.notes
        )
        before = after
    if not changed:
        yield GraphCaptured(_replace(lowered.graph, id=new_id()), owner, "final")
    provenance = lowered.provenance
    values: dict[int, int] = {}
    inside: dict[int, tuple[int, int]] = {}
    for value in lowered.traced.values:
        final, kernel = provenance.value(value.id), provenance.kernel(value.id)
        if final is not None:
            values[value.id] = final
        elif kernel is not None:
            inside[value.id] = kernel
    notes = (note for stage in lowered.stages for note in stage.notes)
    yield Compiled(
        owner, backend, fallback,
        fates=tuple(provenance.fates.values()),
        origins={node.id: provenance.origin(node.id) for node in lowered.graph.nodes},
        values=values, inside=inside, unfused=(*reasons_of(lowered), *notes),
        costs=dict(costs or {}), memory=memory, compile_ns=compile_ns,
    )  # fmt: skip


def reasons_of(lowered: Lowered) -> Iterator[str]:
    """Why neighbours were not fused, by name: ``add → sum: ...``."""
    names: dict[int, str] = {}
    for graph in (*(stage.before for stage in lowered.stages), lowered.graph):
        names.update((node.id, node.name) for node in graph.nodes)
    for stage in lowered.stages:
        for unfused in stage.unfused:
            producer, consumer = (
                names.get(i, f"@{i}") for i in (unfused.producer, unfused.consumer)
            )
            yield f"{producer} → {consumer}: {unfused.reason}"


def _with(traced: Graph, graph: Graph, done: list[Rewrite], id: int) -> Graph:
    provenance = Provenance(traced, graph, done)
    origins = {node.id: provenance.origin(node.id) for node in graph.nodes}
    return _replace(with_origins(graph, origins), id=id)
