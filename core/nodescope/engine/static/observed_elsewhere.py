"""Observed runs of graphs whose nodes run in other processes.

If the program cannot stop inside the graph, all partitions run as if unobserved, and their reports
become events after the call. Otherwise the nodes run one by one in the graph's order, regardless of
their partitions, so that at a stop exactly the nodes before it have run.

Invariant: the results are those of the unobserved run, to the bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nodescope.engine.execution.elsewhere import Lane, Ran, RemoteRunner
from nodescope.engine.state import State
from nodescope.engine.tensor import Tensor
from nodescope.errors import WorkerError
from nodescope.events import Demand, DeviceRan, NodeFinished
from nodescope.ir.graph import Graph
from nodescope.ir.identity import Entry
from nodescope.ops.op import Array

if TYPE_CHECKING:
    from nodescope.emit.emitter import Emitter
    from nodescope.engine.tracer import Tracer

_lanes: weakref.WeakKeyDictionary[Emitter, dict[int, int]] = weakref.WeakKeyDictionary()
"""For each emitter: the lane numbers of processes in its run, by `Lane.number`."""


def may_stop(demand: Demand, ops: frozenset[str]) -> bool:
    """Whether the nodes must run one by one: for a stop at one of these ops, an opened node, or
    gradients.
    """
    at = demand.stops_at
    return bool(
        demand.opened
        or demand.gradients
        or at.starts is None
        or at.ends is None
        or not ops.isdisjoint(at.starts)
        or not ops.isdisjoint(at.ends)
    )


def lane_in(tracer: Tracer, lane: Lane) -> int:
    """The lane number of a process in the run; the first use reports the process's name."""
    known = _lanes.setdefault(tracer.emitter, {})
    number = known.get(lane.number)
    if number is None:
        number = known[lane.number] = next(tracer.emitter.lanes)
        tracer.bus.emit(DeviceRan(number, lane.name, np.empty((0, 4), np.int64)))
    return number


def ran_at(tracer: Tracer, lane: Lane, node: int, span: tuple[int, int] | None) -> None:
    """Report the process in which a single node ran, and its times, if known."""
    number = lane_in(tracer, lane)
    if span is not None:
        start, end = (time - tracer.bus.origin_ns for time in span)
        times = np.array([[node, start, start, end]], np.int64)
        tracer.bus.emit(DeviceRan(number, lane.name, times))


def together(
    runner: RemoteRunner, graph: Graph, constants: Mapping[int, Array], tracer: Tracer,
    state: State, entries: Mapping[int, Entry], values: Mapping[int, Any],
) -> list[Array] | None:  # fmt: skip
    """Run all nodes at once, and report them.

    Args:
        runner: The runner of the compiled graph.
        graph, constants: The compiled graph.
        tracer, state: The observer, and the calling thread.
        entries: The entries of the nodes in the run, by node id in the graph.
        values: Tensors, or Python floats, by value id, including the graph's inputs.

    Returns:
        The outputs; None if a node fails: a run node by node then shows the node and the error.

    Raises:
        WorkerError: A process failed; the nodes that ran and the failed node are reported.
    """
    feeds = [
        value.data if (value := values[id]).__class__ is Tensor else value for id in graph.inputs
    ]
    arrays = tracer.bus.demand.arrays
    ran: list[Ran] = []
    start = tracer.bus.now_ns()
    try:
        outputs = runner.run_reported(feeds, arrays=bool(arrays), ran=ran)
    except WorkerError as error:
        seen = _tell(tracer, graph, constants, entries, feeds, ran)
        entry = entries.get(error.node)
        if entry is not None:
            node = next(node for node in graph.nodes if node.id == error.node)
            live = _live(seen, node.inputs) if arrays else ()
            tracer.failed(entry, live, tracer.step, state, start + tracer.bus.origin_ns, error)
        raise
    except Exception:
        return None
    _tell(tracer, graph, constants, entries, feeds, ran)
    return outputs


def _tell(
    tracer: Tracer, graph: Graph, constants: Mapping[int, Array], entries: Mapping[int, Entry],
    feeds: Sequence[Any], ran: Iterable[Ran],
) -> dict[int, Any]:  # fmt: skip
    """Emit an event for each node that ran; return the known values by id."""
    bus, step = tracer.bus, tracer.step
    seen: dict[int, Any] = {**constants}
    seen.update(zip(graph.inputs, feeds, strict=True))
    by_id = {node.id: node for node in graph.nodes}
    for item in ran:
        node, entry = by_id[item.node], entries[item.node]
        live = _live(seen, node.inputs) if item.outputs else ()
        seen.update(zip(node.outputs, item.outputs, strict=False))
        number = lane_in(tracer, item.lane)
        bus.emit(
            NodeFinished(
                entry.node, live, item.outputs, step, -number, item.start_ns - bus.origin_ns,
                item.end_ns - bus.origin_ns, None, number, number, True,
            )
        )  # fmt: skip
    return seen


def _live(seen: Mapping[int, Any], values: Iterable[int]) -> tuple[Array, ...]:
    return tuple(np.asarray(seen[value]) for value in values if value in seen)
