"""Step courses: the critical path and the memory of viewed steps, ready to show.

Invariant: an ended step is read only once while it is among the last steps requested; results are
kept as columns of numbers, not as executions.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

import numpy as np

from nodescope.record.critical_path import Chain, critical_path
from nodescope.record.live_memory import Integers, LiveMemory, memory_of
from nodescope.record.recording import Recording
from nodescope.record.step_runs import StepRuns, step_runs

T = TypeVar("T")

_MOST: Final = 4


class PathNode(NamedTuple):
    """A node on a path: how often it is there, its time there, and its longest execution."""

    node: int
    times: int
    total_ns: int
    seq: int


class Path(NamedTuple):
    """A chain of a step, in columns.

    Attributes:
        node, start_ns, duration_ns: Columns of its members, in order of time.
        heaviest: Its nodes, those that take the most time first.
    """

    total_ns: int
    node: Integers
    start_ns: Integers
    duration_ns: Integers
    heaviest: list[PathNode]


class StepPaths(NamedTuple):
    """The critical path of a step: as it ran, and by data alone."""

    observed: bool
    lanes: int
    operations_ns: int
    ran: Path
    data: Path


class StepMemory(NamedTuple):
    """The memory of a step, and the node and the seq of each of its executions."""

    observed: bool
    memory: LiveMemory
    node: Integers
    seq: Integers


class StepCourses:
    """The courses of the steps of one recording."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, object] = {}

    def paths(self, recording: Recording, step: int) -> StepPaths:
        """The critical path of a step.

        Raises:
            RecordingError: The recording is damaged.
        """
        return self._once("paths", recording, step, _paths)

    def memory(self, recording: Recording, step: int) -> StepMemory:
        """The memory of a step.

        Raises:
            RecordingError: The recording is damaged.
        """
        return self._once("memory", recording, step, _memory)

    def _once(self, kind: str, recording: Recording, step: int, make: Callable[[StepRuns], T]) -> T:
        row = recording.step_table.row(step)
        end = None if row is None else row.end_seq
        key = (kind, step, recording.last_seq() if end is None else end)
        answer = self._kept.pop(key, None)
        if answer is None:
            with _uncollected():
                answer = make(step_runs(recording, step))
        self._kept[key] = answer
        while len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]
        return answer  # type: ignore[return-value]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Suspend garbage collection: each collection would visit all executions read so far."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _paths(runs: StepRuns) -> StepPaths:
    longest = critical_path(runs)
    took = runs.durations()
    ran, data = (_path(runs, chain, took) for chain in (longest.ran, longest.data))
    return StepPaths(runs.observed, longest.lanes, longest.operations_ns, ran, data)


def _path(runs: StepRuns, chain: Chain, took: list[int]) -> Path:
    members = chain.members
    times: dict[int, list[int]] = {}
    longest: dict[int, int] = {}
    for row in members:
        node = runs.nodes[row].id
        times.setdefault(node, []).append(took[row])
        if took[row] >= took[longest.setdefault(node, row)]:
            longest[node] = row
    heaviest = [
        PathNode(node, len(all_times), sum(all_times), runs.rows[longest[node]].seq)
        for node, all_times in times.items()
    ]
    heaviest.sort(key=lambda node: -node.total_ns)
    columns = np.array(
        [(runs.nodes[row].id, runs.rows[row].start_ns, took[row]) for row in members], np.int64
    ).reshape(-1, 3)
    return Path(chain.total_ns, columns[:, 0], columns[:, 1], columns[:, 2], heaviest)


def _memory(runs: StepRuns) -> StepMemory:
    count = len(runs.called().rows)
    node = np.fromiter((node.id for node in runs.nodes), np.int64, len(runs.nodes))
    seq = np.fromiter((row.seq for row in runs.rows), np.int64, len(runs.rows))
    return StepMemory(runs.observed, memory_of(runs), node[:count], seq[:count])
