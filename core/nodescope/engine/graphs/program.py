"""Programs: fetches and feeds of a session, prepared for repeated runs.

Invariant: a program belongs to one version of its graph; running it changes only its measurements.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nodescope.engine.execution.parallel import Schedule, Trial
from nodescope.engine.execution.partition import Partition, canonical, cut
from nodescope.engine.graphs.fetches import Fetches
from nodescope.engine.graphs.graph import Graph
from nodescope.engine.graphs.names import Variable
from nodescope.engine.source import where
from nodescope.errors import UsageError
from nodescope.ops.plan import Plan, needed
from nodescope.ops.traits import traits_of


@dataclass(frozen=True)
class RunOptions:
    """How a run is executed.

    Attributes:
        parallel: Run ready nodes in parallel: True, False, or None to let the cost model decide.
        partition: Partition the graph by device and run each part in a thread; None to do so only
            if there are several devices.
    """

    parallel: bool | None = None
    partition: bool | None = None


@dataclass(frozen=True)
class RunMetadata:
    """A description of the last run of a session.

    Attributes:
        executed: Names of the executed nodes, in order (of the parts' nodes, if partitioned).
        peak_bytes: Peak bytes of intermediate results held at once; views count as zero. Measured
            in the first run with these fetches and feeds.
        parallel: Whether nodes ran in parallel.
        partitions: The devices of the parts, if the graph was partitioned.
    """

    executed: tuple[str, ...] = ()
    peak_bytes: int | None = None
    parallel: bool = False
    partitions: tuple[str, ...] = ()


@dataclass
class PreparedRun:
    """Prepared fetches and feeds."""

    plan: Plan
    reads: tuple[Variable, ...]
    hosts: tuple[tuple[Any, tuple[tuple[str, int, Any], ...]], ...]
    stateful: bool
    chained: bool
    metadata: RunMetadata
    homes: dict[int, int]
    several_devices: bool

    @functools.cached_property
    def plain(self) -> bool:
        """Whether a run only computes values, none of which are fed."""
        fed = set(self.plan.fed)
        return not self.stateful and all(
            fed.isdisjoint(call.node.outputs) for call in self.plan.calls
        )

    @functools.cached_property
    def trains(self) -> bool:
        """Whether a run computes gradients, and not only a loss."""
        return any(call.node.phase == "backward" for call in self.plan.calls)

    @functools.cached_property
    def schedule(self) -> Schedule:
        """The calls as tasks; those of one variable stay in order."""
        chains: dict[int, list[int]] = {}
        for position, call in enumerate(self.plan.calls):
            if call.node.id in self.homes:
                chains.setdefault(self.homes[call.node.id], []).append(position)
        return Schedule(self.plan, tuple(chains.values()))

    @functools.cached_property
    def trial(self) -> Trial:
        """The trial whether threads are faster."""
        return Trial(self.schedule)

    @functools.cached_property
    def parts(self) -> tuple[tuple[Partition, ...], tuple[Plan, ...]]:
        """The partitions, and their plans."""
        parts = cut(self.plan, self.homes)
        return parts, tuple(part.plan() for part in parts)

    def measured(self, peak_bytes: int) -> None:
        """Note the peak memory of a run."""
        self.metadata = replace(self.metadata, peak_bytes=peak_bytes)


def prepared(graph: Graph, fetches: Fetches, fed: frozenset[int]) -> PreparedRun:
    """The prepared run of a session.

    Raises:
        UsageError: A required placeholder is not fed.
    """
    data = graph.finish(())
    outputs, also = fetches.values, set(fetches.nodes)
    # Drawing from chained state advances it.
    while True:
        nodes = needed(data, outputs, tuple(fed), tuple(also))
        used = {value for node in nodes for value in node.inputs}
        more = {graph.follow[value] for value in used if value in graph.follow} - also
        if not more:
            break
        also |= more
    produced = {value for node in nodes for value in node.outputs}
    reads = tuple(
        variable for variable in graph.variables.values() if variable.value in produced - fed
    )
    hosts = []
    rates: set[int] = set()
    for reader, ids in graph.hosts:
        host_values = tuple(
            (name.rpartition(":")[0], value, np.dtype(graph.values[value - 1].spec.dtype))
            for name, value in ids.items()
            if value in produced
        )
        if host_values:
            hosts.append((reader, host_values))
            rates.update(item[1] for item in host_values)
    known = {read.value for read in reads} | rates | fed
    for node in nodes:
        if node.op == "placeholder" and node.outputs[0] not in known:
            made_at = f", made at {node.source}," if node.source else ""
            raise UsageError(
                f"the placeholder {node.name!r}{made_at} must be fed",
                source=where(), hint=f"run(fetches, {{{node.name}: value}})",
            )  # fmt: skip
    order = (*fed, *(read.value for read in reads), *rates)
    plan = Plan(data, graph.arrays, outputs, order, tuple(also))
    stateful = any(traits_of(node.op).state for node in plan.nodes)
    chained = any(read.chained for read in reads)
    names = tuple(call.node.name for call in plan.calls)
    homes = {
        node.id: graph.producer(graph.state_of.get(node.inputs[0], node.inputs[0])).id
        for node in plan.nodes
        if traits_of(node.op).state
    }
    devices = {
        canonical(plan.by_id[homes.get(call.node.id, call.node.id)].device) for call in plan.calls
    }
    return PreparedRun(plan, reads, tuple(hosts), stateful, chained, RunMetadata(names), homes,
                    len(devices) > 1)  # fmt: skip
