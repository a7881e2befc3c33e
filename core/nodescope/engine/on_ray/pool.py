"""The pool: the actors of an executor, one for each partition.

Invariant: nothing here waits for longer than the executor's time-out.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from nodescope.engine.execution.elsewhere import Lane
from nodescope.engine.execution.parallel import cores
from nodescope.engine.on_ray.options import RayOptions
from nodescope.engine.on_ray.worker import Process, Worker, machine
from nodescope.engine.source import where
from nodescope.errors import UsageError, WorkerError, error_text

_PINGS: Final = 5
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
_numbers = itertools.count(1)


def ray_module() -> Any:
    """Ray, if it is installed.

    Raises:
        UsageError: Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("the executor 'ray' needs Ray", source=where(),
                         hint="pip install 'nodescope[ray]'") from None  # fmt: skip
    return ray


@dataclass(eq=False)
class Member:
    """The actor of a partition.

    Attributes:
        part: The partition's name.
        actor: Ray's handle.
        lane: Its lane.
        pid: Its process.
        node: Ray's id of its node.
        place: That node's name in lanes, and its address; ``""`` if it is the only node.
        offset_ns: How far its clock is ahead of this process's.
        loaded: Numbers of the graphs that it has loaded.
        lock: Held while it loads a graph.
    """

    part: str
    actor: Any
    lane: Lane
    pid: int
    node: str
    place: str
    offset_ns: int
    loaded: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Pool:
    """Actors by partition, started when they are first needed and restarted after they have
    died.
    """

    def __init__(self, options: RayOptions) -> None:
        self._options = options
        self._members: dict[str, Member] = {}
        self._job = ""
        self._lock = threading.Lock()

    def member(self, part: str) -> Member:
        """The actor of a partition.

        Raises:
            WorkerError: It could not be started in time.
        """
        with self._lock:
            self._joined()
            known = self._members.get(part)
            if known is None:
                known = self._members[part] = self._started(part)
            return known

    def lose(self, part: str) -> None:
        """Give up an actor: the next call starts another."""
        with self._lock:
            lost = self._members.pop(part, None)
        if lost is not None:
            with contextlib.suppress(Exception):
                ray_module().kill(lost.actor)

    def forget(self, graph: int) -> None:
        """Release a graph, if still connected: a handle used without a connection would start Ray
        again.
        """
        ray = ray_module()
        if not ray.is_initialized() or ray.get_runtime_context().get_job_id() != self._job:
            return
        for member in tuple(self._members.values()):
            if graph in member.loaded:
                member.loaded.discard(graph)
                with contextlib.suppress(Exception):
                    member.actor.forget.remote(graph)

    def _joined(self) -> None:
        """Connect to Ray; actors of an earlier connection are gone."""
        ray = ray_module()
        if not ray.is_initialized():
            ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
        job = ray.get_runtime_context().get_job_id()
        if job != self._job:
            self._members.clear()
            self._job = job

    def _started(self, part: str) -> Member:
        ray, options = ray_module(), self._options
        threads = str(options.threads or _threads())
        environment = {"env_vars": dict.fromkeys(_THREADS, threads)}
        kind = ray.remote(
            max_restarts=0, num_cpus=options.num_cpus, runtime_env=environment
        )(Worker)  # fmt: skip
        nodes = sorted(addresses_of(ray))
        chosen: dict[str, Any] = {}
        if options.resources:
            chosen["resources"] = dict(options.resources.get(part, {}))
        elif len(nodes) > 1:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            node = nodes[int(part.rpartition(":")[2]) % len(nodes)]
            chosen["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
        actor = kind.options(**chosen).remote()
        try:
            process = Process(*ray.get(actor.process.remote(), timeout=options.timeout_s))
            offset = 0
            if not process.machine or process.machine != machine():
                offset = min(self._offset(actor) for _ in range(_PINGS))[1]
        except Exception as error:
            with contextlib.suppress(Exception):
                ray.kill(actor)
            reason, hint = _why_not_started(error, options)
            raise WorkerError(f"{part} {reason}", source=where(), part=part, hint=hint) from error
        # Read again: the worker may be on a node that has joined since.
        addresses = addresses_of(ray)
        nodes = sorted(addresses)
        is_named = len(nodes) > 1 and process.node in addresses
        on_node = f"node {nodes.index(process.node) + 1}" if is_named else ""
        place = on_node and f"{on_node}, {addresses[process.node]}"
        lane = Lane(next(_numbers), f"{on_node and f'{on_node} · '}{part} · pid {process.pid}")
        return Member(part, actor, lane, process.pid, process.node, place, offset)

    def _offset(self, actor: Any) -> tuple[int, int]:
        """The duration of a request, and how far the actor's clock was ahead at its middle, in
        ns.
        """
        ray = ray_module()
        before = time.perf_counter_ns()
        there = ray.get(actor.process.remote(), timeout=self._options.timeout_s)[2]
        now = time.perf_counter_ns()
        return now - before, there - (before + now) // 2


def addresses_of(ray: Any) -> dict[str, str]:
    """The addresses of the cluster's live nodes, by node id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def _why_not_started(error: Exception, options: RayOptions) -> tuple[str, str]:
    """What became of an actor that gave no answer, and what to do."""
    died = ray_module().exceptions.RayActorError
    if isinstance(error, died) and not error.actor_init_failed:
        # Indented lines name the actor, and guesses come last: the cause is between them.
        _, *lines = str(error).partition(" Some common causes")[0].splitlines()
        causes = [line for line in lines if line and not line.startswith("\t")]
        return " ".join(["died before it had started.", *causes]), "Ray's logs tell more"
    return (
        f"did not start within {options.timeout_s:g} s: {error_text(error).splitlines()[0]}",
        f"does the cluster have room for num_cpus={options.num_cpus:g} and its resources?",
    )


def _threads() -> int:
    """Threads for matrix products in this process; Ray's workers have one, which may round
    differently.
    """
    for name in _THREADS:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return cores()
