"""The worker: the code that runs in the actor of a partition.

Invariant: one thread; a value is kept until the partition's last use of it in the call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from nodescope.engine.codegen import backend as backends
from nodescope.engine.codegen.backend import Runner, took
from nodescope.engine.execution.segments import Segment
from nodescope.ops.calls import Call, call_of
from nodescope.ops.op import Array
from nodescope.passes.pipeline import Lowered

How = Literal["plain", "times", "arrays"]
"""What a call reports: nothing, the times of its nodes, or their results as well."""

_CALLS: Final = 16
"""Values of calls from more than this many calls ago are released: those calls have failed."""


class Report(NamedTuple):
    """What a segment reports.

    Attributes:
        times: int64 of shape (nodes, 2), by this process's `time.perf_counter_ns`; None if plain.
        outputs: The results of each node, if requested.
    """

    times: Array | None
    outputs: tuple[tuple[Array, ...], ...]


class Process(NamedTuple):
    """A worker's process.

    Attributes:
        pid: Its number.
        machine: The boot id of its machine; ``""`` if unknown.
        clock_ns: Its `time.perf_counter_ns` now.
        node: Ray's id of its node.
    """

    pid: int
    machine: str
    clock_ns: int
    node: str


class _Loaded:
    """The segments of one graph."""

    def __init__(self, segments: dict[int, Segment], backend: str) -> None:
        self.segments = segments
        self.runners: dict[int, Runner] = {}
        self.calls: dict[int, tuple[Call, Runner]] = {}
        for number, segment in segments.items():
            lowered = Lowered(segment.graph, segment.graph, segment.arrays)
            runner = self.runners[number] = backends.get(backend).build(lowered)
            for node in segment.nodes:
                self.calls[node.id] = call_of(node), runner
        self.memories: dict[int, dict[int, Any]] = {}

    def memory(self, call: int) -> dict[int, Any]:
        """The values of a call."""
        for old in [known for known in self.memories if known < call - _CALLS]:
            del self.memories[old]
        return self.memories.setdefault(call, {})


class Worker:
    """Runs the segments of one partition, of any number of graphs."""

    def __init__(self) -> None:
        self._loaded: dict[int, _Loaded] = {}

    def process(self) -> Process:
        """This worker's process."""
        import ray

        node = str(ray.get_runtime_context().get_node_id())
        return Process(os.getpid(), machine(), time.perf_counter_ns(), node)

    def load(self, graph: int, segments: dict[int, Segment], backend: str) -> None:
        """Take the segments of a graph, by their numbers in it."""
        self._loaded[graph] = _Loaded(segments, backend)

    def forget(self, graph: int) -> None:
        """Release a graph."""
        self._loaded.pop(graph, None)

    def run(self, graph: int, call: int, number: int, how: How, *arrays: Any) -> Any:
        """Run a segment.

        Args:
            graph, number: The graph, and the segment's number in it.
            call: The number of the call that it belongs to.
            how: What to report.
            arrays: The fed values, then the received ones.

        Returns:
            The report and the sent values, as a list; the report alone if nothing is sent.
        """
        loaded = self._loaded[graph]
        segment, runner = loaded.segments[number], loaded.runners[number]
        memory = loaded.memory(call)
        memory.update(zip((*segment.fed, *segment.received), arrays, strict=True))
        feeds = [memory[value] for value in segment.graph.inputs]
        report = Report(None, ())
        if how == "plain":
            outputs = runner.run(feeds)
        elif how == "times":
            stamps = np.zeros(2 * len(runner.kernels), np.int64)
            outputs = runner.run_timed(feeds, stamps)
            report = Report(stamps.reshape(-1, 2), ())
        else:
            outputs, report = _each(segment, runner, feeds)
        memory.update(zip(segment.graph.outputs, outputs, strict=True))
        sent = [memory[value] for value in segment.sent]
        for value in segment.dropped:
            memory.pop(value, None)
        if not memory:
            del loaded.memories[call]
        return [report, *sent] if sent else report

    def kernel(self, graph: int, node: int, *operands: Any) -> Any:
        """Run one node on operands; its times and results, as `run` returns them."""
        _, runner = self._loaded[graph].calls[node]
        start, outputs, end = _timed(runner, node, operands)
        times = np.array([start, end], np.int64)
        return [times, *outputs] if outputs else times


def _timed(
    runner: Runner, node: int, operands: Sequence[Any]
) -> tuple[int, tuple[Array, ...], int]:
    took.span = None
    start = time.perf_counter_ns()
    outputs = runner.kernels[node](*operands)
    end = time.perf_counter_ns()
    if took.span is not None:
        start, end = took.span
    return start, outputs, end


def _each(segment: Segment, runner: Runner, feeds: Sequence[Any]) -> tuple[list[Array], Report]:
    """Run the nodes one by one, and keep their results."""
    values: dict[int, Any] = {**segment.arrays}
    values.update(zip(segment.graph.inputs, feeds, strict=True))
    times, outputs = [], []
    for node in segment.nodes:
        operands = [values[value] for value in call_of(node).args if isinstance(value, int)]
        start, results, end = _timed(runner, node.id, operands)
        times.append((start, end))
        outputs.append(results)
        values.update(zip(node.outputs, results, strict=True))
    report = Report(np.array(times, np.int64).reshape(-1, 2), tuple(outputs))
    return [values[value] for value in segment.graph.outputs], report


def machine() -> str:
    """The boot id of this machine; ``""`` if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
