"""Observed runs of graphs whose nodes run in other processes.

While nothing can stop in the graph, all partitions run as if unobserved, and their reports become
events once the call has ended. Otherwise the nodes run one by one in the graph's order, whichever
partition they belong to: at a stop, those before it have run everywhere, and no other has.

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
"""By emitter: the number in its run of each process, by the number that it has here."""


def may_stop(demand: Demand, ops: frozenset[str]) -> bool:
    """Whether the program may stop in a graph of these ops, or wants to see inside of its nodes."""
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
    """The number of a process in the run, which learns its name when it is first met."""
    known = _lanes.setdefault(tracer.emitter, {})
    number = known.get(lane.number)
    if number is None:
        number = known[lane.number] = next(tracer.emitter.lanes)
        tracer.bus.emit(DeviceRan(number, lane.name, np.empty((0, 4), np.int64)))
    return number


def ran_at(tracer: Tracer, lane: Lane, node: int, span: tuple[int, int] | None) -> None:
    """Report where a node ran that was executed by itself."""
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
        runner: What runs them.
        graph, constants: The compiled graph.
        tracer, state: The observer, and the calling thread.
        entries: The nodes in the run, by their ids in the graph.
        values: Tensors, or Python floats, by value id; its inputs among them.

    Returns:
        The outputs; None if a node fails: run one by one, they show which, and at what.

    Raises:
        WorkerError: A process failed; what had run, and what failed, is reported.
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
    """Emit what ran; the values by id."""
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
