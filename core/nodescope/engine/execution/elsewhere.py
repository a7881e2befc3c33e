"""Executors: where compiled graphs run, if not in this process.

Invariant: an executor computes what the back end computes here, to the bit, or raises `WorkerError`
or the program's own error.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from nodescope.engine.codegen.backend import Runner
from nodescope.engine.source import where
from nodescope.errors import UsageError
from nodescope.ops.op import Array
from nodescope.passes.pipeline import Lowered
from nodescope.registry import did_you_mean

_OURS: Final = {"ray": ("nodescope.engine.on_ray.executor", "RayExecutor")}


class Lane(NamedTuple):
    """A process that runs nodes.

    Attributes:
        number: From 1 up; unique in this process.
        name: Its display name: ``worker:1 · pid 4711``.
    """

    number: int
    name: str


class Ran(NamedTuple):
    """One node that ran elsewhere.

    Attributes:
        node: Its id.
        lane: The process that ran it.
        start_ns, end_ns: By this process's `time.perf_counter_ns`.
        outputs: Its results, if they were requested.
    """

    node: int
    lane: Lane
    start_ns: int
    end_ns: int
    outputs: tuple[Array, ...]


@runtime_checkable
class RemoteRunner(Runner, Protocol):
    """A runner whose nodes run in other processes. Its kernels run there, too, one by one."""

    def run_reported(self, feeds: Sequence[Any], *, arrays: bool, ran: list[Ran]) -> list[Array]:
        """`Runner.run`, reporting each node.

        Args:
            feeds: As for `Runner.run`.
            arrays: Whether to report the results of each node.
            ran: Receives the nodes that ran, in the graph's order, even if the call fails.
        """

    def lane_of(self, node: int) -> Lane:
        """The process that runs a node."""


class Executor(Protocol):
    """A place where compiled graphs run."""

    def build(self, lowered: Lowered, backend: str, name: str) -> tuple[Lowered, RemoteRunner]:
        """Prepare a graph for running.

        Args:
            lowered: The graph after the passes.
            backend: The back end that runs each part.
            name: The function's name, for messages.

        Returns:
            The graph, with the device of each node, and its runner.
        """


def executor_of(setting: Any, partitions: int | None) -> Executor | None:
    """The executor that ``executor=`` of `nodescope.compile` names, or is.

    Raises:
        UsageError: No executor has that name, or partitions are given without an executor.
    """
    if setting is None:
        if partitions is not None:
            raise UsageError("compile: partitions= takes an executor", source=where(),
                             hint='such as executor="ray"')  # fmt: skip
        return None
    if isinstance(setting, str):
        if setting not in _OURS:
            hint = did_you_mean(setting, _OURS) or f"there is {', '.join(map(repr, _OURS))}"
            raise UsageError(f"compile: no executor {setting!r}", source=where(), hint=hint)
        module, name = _OURS[setting]
        kind = getattr(importlib.import_module(module), name)
        made: Executor = kind(partitions=partitions)
        return made
    if not hasattr(setting, "build"):
        raise UsageError(f"compile: {type(setting).__name__} is not an executor", source=where(),
                         hint='such as "ray", or nodescope.RayExecutor(...)')  # fmt: skip
    if partitions is not None:
        raise UsageError("compile: partitions= belongs into the executor", source=where(),
                         hint="RayExecutor(partitions=2)")  # fmt: skip
    given: Executor = setting
    return given


def with_devices(lowered: Lowered, devices: Mapping[int, str]) -> Lowered:
    """The graph with the device of each node."""
    import dataclasses

    import msgspec

    nodes = tuple(
        msgspec.structs.replace(node, device=devices[node.id]) if node.id in devices else node
        for node in lowered.graph.nodes
    )
    graph = msgspec.structs.replace(lowered.graph, nodes=nodes)
    return dataclasses.replace(lowered, graph=graph)
