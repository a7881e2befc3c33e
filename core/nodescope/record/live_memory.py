"""Live memory: how many bytes of a step's values are needed at each moment, from a recording.

A value takes memory from the start of the execution that produces it to the end of the last
execution in the step that reads it. Views and writes in place share the memory of their base.
Parameters, buffers and inputs that the step reads take memory throughout, and so do values that
were produced before the step and not again in it. So this is the memory that the program needs: how
much longer it or a library holds values is not known, nor is the memory used inside an operation.

Invariant: reads structure and executions only, which every level but ``graph`` records. All
displays of a step's memory use these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope.ir.graph import Node, Value
from nodescope.ir.sizes import nbytes_of
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from nodescope.record.step_runs import StepRuns, step_runs

Integers = NDArray[np.int64]

# nodescope's own ops that return views.
_VIEWS: Final = frozenset(
    {"reshape", "transpose", "getitem", "broadcast_to", "squeeze", "expand_dims", "swapaxes"}
)
# No real value is larger; such a size comes from a damaged file.
_MOST: Final = 1 << 50


class Buffer(NamedTuple):
    """Memory of a value and its views.

    Attributes:
        value: The value that it was allocated for.
        row: The execution that produced it; -1 if it existed before the step.
        nbytes: None if the size is unknown.
        since, until: Moments of `LiveMemory.times`; ``until`` is exclusive.
        throughout: Whether the whole step needs it.
        views: The number of further values that share it.
    """

    value: int
    row: int
    nbytes: int | None
    since: int
    until: int
    throughout: bool
    views: int


class LiveMemory(NamedTuple):
    """The memory of a step.

    Attributes:
        live: The bytes needed while a node runs, by node.
        peak: The most bytes.
        peak_node: The node at the peak; 0 for an empty step.
        peak_at: The moment of the peak.
        times: Moments, in nanoseconds and in order: starts and ends of executions.
        needed: The bytes from each moment to the next.
        rows: The execution that starts or ends at each moment.
        buffers: A row for each `Buffer`; unknown sizes are -1.
    """

    live: dict[int, int]
    peak: int
    peak_node: int
    peak_at: int
    times: Integers
    needed: Integers
    rows: Integers
    buffers: Integers

    def held_at(self, moment: int) -> list[Buffer]:
        """The buffers at a moment, the largest first, then those of unknown size."""
        began, ended = self.buffers[:, 3], self.buffers[:, 4]
        held = self.buffers[(began <= moment) & (moment < ended)]
        held = held[np.argsort(-held[:, 2], kind="stable")]
        return [
            Buffer(value, row, None if size < 0 else size, since, until, bool(always), views)
            for value, row, size, since, until, always, views in held.tolist()
        ]


def live_memory(recording: Recording, step: int) -> LiveMemory:
    """The memory of a training step.

    Raises:
        RecordingError: The recording is damaged.
    """
    return memory_of(step_runs(recording, step))


def of_nodes(ran: Sequence[Node], values: Mapping[int, Value]) -> LiveMemory:
    """The memory of nodes that run one after the other."""
    rows = [Execution(at + 1, node.id, 0, 0, at, 1, 0) for at, node in enumerate(ran)]
    return memory_of(StepRuns(rows, ran, values))


def memory_of(runs: StepRuns) -> LiveMemory:
    """The memory of a step from its executions."""
    runs = runs.called()
    times, order = runs.moments()
    count = len(runs.rows)
    place = np.empty(2 * count, np.int64)
    place[order] = np.arange(2 * count)
    buffers = _buffers(runs, place.tolist(), order.tolist())
    _, _, nbytes, since, until, *_ = buffers.T
    change = np.zeros(2 * count + 1, np.int64)
    np.add.at(change, since, np.maximum(nbytes, 0))
    np.subtract.at(change, until, np.maximum(nbytes, 0))
    needed = np.cumsum(change[:-1])
    rows = order >> 1
    if not count:
        return LiveMemory({}, 0, 0, 0, times, needed, rows, buffers)
    most = np.maximum.reduceat(needed, place)[::2]  # from each start up to its end
    live: dict[int, int] = {}
    for node, nbytes in zip(runs.nodes, most.tolist(), strict=True):
        live[node.id] = max(live.get(node.id, 0), nbytes)
    peak_at = int(np.argmax(needed))
    peak_node = runs.nodes[int(rows[peak_at])].id
    return LiveMemory(live, int(needed[peak_at]), peak_node, peak_at, times, needed, rows, buffers)


def _buffers(runs: StepRuns, place: list[int], order: list[int]) -> Integers:
    """The buffers, as rows of `LiveMemory.buffers`, in the order of their first use.

    Args:
        place: The moment of each start and end, as `StepRuns.moments` numbers them.
    """
    nodes, values = runs.nodes, runs.values
    made: list[tuple[int, int]] = []  # value and row
    until: list[int] = []
    throughout: list[bool] = []
    views: list[int] = []
    lies_in: dict[int, int] = {}
    produced = {value for node in nodes for value in node.outputs}
    shared: dict[int, tuple[int, ...]] = {}

    def new(value: int, row: int, end: int, always: bool) -> int:
        made.append((value, row))
        until.append(end)
        throughout.append(always)
        views.append(0)
        return len(until) - 1

    for moment in order:
        if moment & 1:
            continue
        row = moment >> 1
        node, end = nodes[row], place[moment + 1]
        for value in node.inputs:
            buffer = lies_in.get(value, -1)
            if buffer < 0:
                lies_in[value] = new(value, -1, end, value not in produced)
            elif until[buffer] < end:
                until[buffer] = end
        sources = shared.get(id(node))
        if sources is None:
            sources = shared[id(node)] = tuple(
                _source(node, port, values) for port in range(len(node.outputs))
            )
        leaf = node.is_leaf
        for value, source in zip(node.outputs, sources, strict=True):
            if source >= 0:
                buffer = lies_in[source]
                views[buffer] += value != source and lies_in.get(value) != buffer
                until[buffer] = max(until[buffer], end)
                lies_in[value] = buffer
            elif leaf and value in lies_in:
                throughout[lies_in[value]] = True
            else:
                lies_in[value] = new(value, row, end, leaf)
    last = len(order)
    sizes = {value: _nbytes(values.get(value)) for value in lies_in}
    table = [
        (value, row, sizes[value], 0 if always or row < 0 else place[2 * row],
         last if always else ended, always, shares)
        for (value, row), ended, always, shares in zip(made, until, throughout, views, strict=True)
    ]  # fmt: skip
    return np.array(table, np.int64).reshape(-1, 7)


def _source(node: Node, port: int, values: Mapping[int, Value]) -> int:
    """The input whose memory an output uses as a view, or because it is written in place; -1 if it
    has its own."""
    if node.is_leaf or not node.inputs:
        return -1
    source = dict(node.writes).get(port)
    if source is None:
        value = values.get(node.outputs[port])
        shares = value is not None and value.storage != 0
        if not shares and not (node.dialect == "nodescope" and node.op in _VIEWS):
            return -1
        source = 0
    return node.inputs[min(source, len(node.inputs) - 1)]


def _nbytes(value: Value | None) -> int:
    """The size of a value; -1 if it is unknown."""
    nbytes = None if value is None else nbytes_of(value.spec)
    return nbytes if nbytes is not None and 0 <= nbytes <= _MOST else -1
