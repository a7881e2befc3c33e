"""Value differences: one value at two moments; attributes, memory and statistics at one.

Invariant: all elements are compared if both are available, otherwise statistics; the answer says
which, and what is missing.
"""

from __future__ import annotations

import asyncio
import math

import numpy as np

from nodescope.compare.measure import Measure, measure_arrays, measure_summaries
from nodescope.debug.replay.arrays import difference
from nodescope.debug.report.problems import NodeProblem, Problems
from nodescope.events import Array
from nodescope.ir.attrs import plain_attrs
from nodescope.protocol import BrokenLoss
from nodescope.record.overview import broken_loss
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from nodescope_server import wire
from nodescope_server.handlers import values
from nodescope_server.handlers.array_diff import elements, farthest, subtracted
from nodescope_server.runs.runs import Run
from nodescope_server.wire import diff_messages as moments

# Comparing takes several times the memory of the arrays.
MOST_BYTES = 128 << 20
MOST_PROBLEMS = 500

Side = tuple[moments.ValueMoment, Array | None]


async def compare(run: Run, request: moments.CompareMoments) -> moments.MomentsCompared:
    """Answer `diff_messages.CompareMoments`.

    Raises:
        RecordingError: The recording cannot be read.
    """
    first = await _side(run, request.value, request.one)
    other = await _side(run, request.value, request.other)
    return await asyncio.to_thread(_compared, request, first, other)


async def attributes(run: Run, request: moments.GetAttributes) -> moments.NodeAttributes:
    """Answer `diff_messages.GetAttributes`.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def read(recording: Recording) -> moments.NodeAttributes:
        rows = [row for row in recording.nodes() if row.node.id == request.node]
        _, ran, _ = recording.history(request.node, until_seq=request.seq, limit=1)
        if not rows:
            return moments.NodeAttributes(request.node, 0, 0, {})
        if not ran:
            return moments.NodeAttributes(request.node, 0, 0, plain_attrs(rows[0].node.attrs))
        at = ran[-1]
        defined = [row.node for row in rows if row.seq <= at.seq] or [rows[0].node]
        attrs = plain_attrs(recording.calls(at.seq - 1, at.seq).get(at.seq, defined[-1].attrs))
        first = plain_attrs(rows[0].node.attrs)
        changed = {
            name: first.get(name) for name in attrs if repr(attrs[name]) != repr(first.get(name))
        }
        return moments.NodeAttributes(request.node, at.seq, at.step, attrs, changed)

    return await run.query.call(read)


async def memory(run: Run, request: moments.GetMemory) -> moments.NodeMemory:
    """Answer `diff_messages.GetMemory`.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def read(recording: Recording) -> moments.NodeMemory:
        memory = run.courses.memory(recording, request.step).memory
        live = memory.live.get(request.node)
        return moments.NodeMemory(request.node, request.step, live, memory.peak, memory.peak_node)

    return await run.study.call(read)


async def statistics(run: Run, request: moments.GetStatistics) -> moments.Statistics:
    """Answer `diff_messages.GetStatistics`.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def read(recording: Recording) -> moments.Statistics:
        seq = recording.last_seq() if request.seq is None else request.seq
        rows = recording.statistics.at(seq)
        norms = [math.nan if row.norm is None else row.norm for row in rows]
        return moments.Statistics(
            count=len(rows),
            values=np.array([row.value for row in rows], dtype="<u4").tobytes(),
            elements=np.array([row.elements for row in rows], dtype="<f8").tobytes(),
            zeros=np.array([row.zeros for row in rows], dtype="<f8").tobytes(),
            norms=np.array(norms, dtype="<f8").tobytes(),
        )

    return await run.query.call(read)


async def problems(run: Run) -> moments.ProblemList:
    """Answer `diff_messages.GetProblems`.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def ask(recording: Recording) -> tuple[list[NodeProblem], int, BrokenLoss | None]:
        node_problems = run.problems
        if node_problems is None or node_problems.recording is not recording:
            node_problems = run.problems = Problems(recording)
        rows = node_problems.rows()
        return rows, node_problems.masks, broken_loss(recording)

    rows, masks, broken = await run.query.call(ask) if run.committed else ([], 0, None)
    executions = sum(problem.count for problem in rows)
    return moments.ProblemList(tuple(rows[:MOST_PROBLEMS]), len(rows), executions, broken, masks)


async def _side(run: Run, value: int, seq: int | None) -> Side:
    """Everything known about a value at a moment, and its elements."""
    value_slice = await values.value_slice(
        run, wire.GetValue(run.info.id, value, seq, rows=0, cols=0)
    )
    if not value_slice.found:
        return moments.ValueMoment(False, reason=value_slice.reason), None
    nbytes = value_slice.summary.nbytes if value_slice.summary else 0
    array, reason = None, value_slice.reason
    if nbytes > MOST_BYTES:
        limit = MOST_BYTES >> 20
        reason = f"It takes {nbytes >> 20} MiB; above {limit} MiB only statistics are compared."
    elif value_slice.available:
        array, reason = await values.whole(run, value, seq)
    edits = await run.query.call(lambda recording: recording.edits(max(value_slice.seq - 1, 0)))
    edit = next((row.how for row in edits if (row.seq, row.value) == (value_slice.seq, value)), "")
    moment = moments.ValueMoment(
        True,
        value_slice.seq,
        value_slice.step,
        value_slice.summary,
        array is not None,
        reason,
        edit,
    )
    return moment, array


def _compared(
    request: moments.CompareMoments, one_side: Side, other: Side
) -> moments.MomentsCompared:
    (first, a), (second, b) = one_side, other
    same_execution = first.found and second.found and first.seq == second.seq
    if a is None or b is None:
        measure = _by_statistics(first, second)
        return moments.MomentsCompared(request.value, first, second, same_execution, measure)
    measure = measure_arrays(a, b)
    bits = difference(a, b, "", request.value, second.seq)
    at, _ = farthest(a, b)
    gap = subtracted(a, b)
    if gap is None or measure.source == "none":
        return moments.MomentsCompared(
            request.value, first, second, same_execution, measure, bits.count if bits else 0
        )
    window, grid, index = values.cut(
        gap,
        request.index,
        max(request.row, 0),
        max(request.col, 0),
        min(max(request.rows, 0), values.MAX_ROWS),
        min(max(request.cols, 0), values.MAX_COLS),
    )
    row, col = min(max(request.row, 0), grid[0]), min(max(request.col, 0), grid[1])
    return moments.MomentsCompared(
        value=request.value,
        one=first,
        other=second,
        same=same_execution,
        measure=measure,
        differ=bits.count if bits else 0,
        first=_pair(a, b, bits.at) if bits else None,
        largest=_pair(a, b, at) if at is not None else None,
        difference=summarise(gap),
        shape=a.shape,
        index=index,
        window=(row, col, window.shape[0], window.shape[1]),
        grid=grid,
        data=np.ascontiguousarray(window, dtype="<f8").tobytes(),
    )


def _pair(first: Array, other: Array, at: tuple[int, ...]) -> moments.ElementPair:
    return moments.ElementPair(at, *elements(first, other, at))


def _by_statistics(first: moments.ValueMoment, other: moments.ValueMoment) -> Measure:
    if not first.found or not other.found:
        return Measure("none", why="not computed at one of the moments")
    if first.summary is None or other.summary is None:
        return Measure("none", why="no statistics at one of the moments")
    return measure_summaries(first.summary, other.summary)
