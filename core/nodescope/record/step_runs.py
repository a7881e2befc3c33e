"""Step runs: what ran in one training step, where and when, and what it read; from a recording.

Invariant: pure except for `step_runs`. Executions are in order of seq, which is not the order of
time if several threads run; `StepRuns.moments` is in order of time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope.ir.graph import Node, Value
from nodescope.record.graphs import end_of
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution, StepRow

Place = tuple[int, int, int]
"""Worker, lane and thread."""

_NOTHING: Final[Mapping[tuple[int, int], int]] = {}


class StepRuns(NamedTuple):
    """The executions of a step.

    Attributes:
        rows: The executions; then those that devices ran later, with the seqs of their calls.
        nodes: The node of each row, as it was defined then.
        values: The values by id.
        operands: By seq and port: the execution that wrote the operand if it is not the latest one
            that did, see `operand_writers`.
        start_ns, end_ns: The step's start and end; the end of its last row if it has not ended.
        observed: Whether the step was observed, so that its executions are known.
        on_devices: How many of the rows are executions by devices.
        holds: When the debugger held the program, in order; this is not the program's own time.
    """

    rows: Sequence[Execution]
    nodes: Sequence[Node]
    values: Mapping[int, Value]
    operands: Mapping[tuple[int, int], int] = _NOTHING
    start_ns: int = 0
    end_ns: int = 0
    observed: bool = True
    on_devices: int = 0
    holds: Sequence[tuple[int, int]] = ()

    def called(self) -> StepRuns:
        """The same without the rows of devices, so that each execution occurs once."""
        if not self.on_devices:
            return self
        count = len(self.rows) - self.on_devices
        return self._replace(rows=self.rows[:count], nodes=self.nodes[:count], on_devices=0)

    def moments(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and ends in order of time: their times, and ``2 * row``, plus 1 for an end.

        Of moments at the same time, those of earlier executions come first.
        """
        count = len(self.rows)
        start = np.fromiter((row.start_ns for row in self.rows), np.int64, count)
        took = np.fromiter((row.duration_ns for row in self.rows), np.int64, count)
        times = np.empty(2 * count, np.int64)
        times[::2], times[1::2] = start, start + np.maximum(took, 0)
        order = np.argsort(times, kind="stable").astype(np.int64)
        return times[order], order

    def durations(self) -> list[int]:
        """How long each execution took, in nanoseconds, without time held by the debugger."""
        if not self.holds:
            return [max(row.duration_ns, 0) for row in self.rows]
        times, order = self.moments()
        begin, end = np.array(self.holds, np.int64).T
        passed = np.concatenate([[0], np.cumsum(end - begin)])
        at = np.searchsorted(begin, times, side="left")
        within = np.where(at > 0, np.maximum(end[at - 1] - times, 0), 0)
        times = times - passed[at] + within
        at_moment = np.empty_like(times)
        at_moment[order] = times
        return [int(took) for took in at_moment[1::2] - at_moment[::2]]

    def places(self) -> list[int]:
        """The number of the lane of each row."""
        numbers: dict[Place, int] = {}
        return [
            numbers.setdefault((row.worker, row.lane, row.thread), len(numbers))
            for row in self.rows
        ]


def step_runs(recording: Recording, step: int) -> StepRuns:
    """The executions of a step; of step 0, those before the first one.

    Raises:
        RecordingError: The recording is damaged.
    """
    known = recording.step_table.row(step)
    begin, end = (0 if known is None else known.start_seq), end_of(recording, step)
    if known is None and step > 0:
        return StepRuns((), (), {}, observed=False)
    ran = [row for row in recording.executions(begin, end) if row.step == step]
    definitions: dict[int, list[tuple[int, Node]]] = {}
    for defined in recording.nodes():
        if defined.seq <= end:
            definitions.setdefault(defined.node.id, []).append((defined.seq, defined.node))
    only = {id: defined[0][1] for id, defined in definitions.items() if len(defined) == 1}
    rows: list[Execution] = []
    nodes: list[Node] = []
    called = 0
    for some in (ran, _on_devices(recording, ran, known)):
        called = len(rows)
        for row in some:
            node = only.get(row.node) or _defined_at(definitions.get(row.node, ()), row.seq)
            if node is not None:
                rows.append(row)
                nodes.append(node)
    values = {defined.value.id: defined.value for defined in recording.values(until=end)}
    operands = (recording.operands(begin, end) or {}) if rows else {}
    first = min((row.start_ns for row in rows), default=0) if known is None else known.start_ns
    if known is None or known.end_ns is None:
        last = max((row.start_ns + row.duration_ns for row in rows), default=0)
    else:
        last = known.end_ns
    observed = known is None or known.observed
    holds = [hold for hold in recording.holds() if hold[1] > first and hold[0] < last]
    last = max(first, last)
    devices = len(rows) - called
    return StepRuns(rows, nodes, values, operands, first, last, observed, devices, holds)


def _on_devices(
    recording: Recording, ran: list[Execution], step: StepRow | None
) -> list[Execution]:
    """The executions as the queues of devices ran them."""
    if not ran:
        return []
    known = {row.seq for row in ran}
    since = ran[0].start_ns if step is None else step.start_ns
    return [row for row in recording.device_table.rows(since) if row.seq in known]


def _defined_at(definitions: Sequence[tuple[int, Node]], seq: int) -> Node | None:
    at = bisect_right(definitions, seq, key=lambda row: row[0])
    return definitions[max(at - 1, 0)][1] if definitions else None
