"""One value at two moments, and a node's attributes at one.

Invariant: all elements are compared where both are to be had, statistics where they are not; the
answer says which, and what is missing.
"""

from __future__ import annotations

import asyncio

import numpy as np

from nodescope.compare.measure import Measure, measure_arrays, measure_summaries
from nodescope.debug.problems import Problem, Problems
from nodescope.debug.replay.arrays import difference
from nodescope.events import Array
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN
from nodescope.record.summary import summarise
from nodescope_server import values, wire
from nodescope_server import wire_moments as moments
from nodescope_server.differences import elements, farthest, subtracted
from nodescope_server.runs import Run

# Comparing takes several times the room of the arrays.
MOST_BYTES = 128 << 20
MOST_PROBLEMS = 500
MOST_EDITS = 3

Side = tuple[moments.ValueMoment, Array | None]


async def compare(run: Run, request: moments.CompareMoments) -> moments.MomentsCompared:
    """Answer `wire_moments.CompareMoments`.

    Raises:
        RecordingError: The recording cannot be read.
    """
    one = await _side(run, request.value, request.one)
    other = await _side(run, request.value, request.other)
    return await asyncio.to_thread(_compared, request, one, other)


async def attributes(run: Run, request: moments.GetAttributes) -> moments.NodeAttributes:
    """Answer `wire_moments.GetAttributes`.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def read(recording: Recording) -> moments.NodeAttributes:
        rows = [each for each in recording.nodes() if each.node.id == request.node]
        _, ran, _ = recording.history(request.node, until_seq=request.seq, limit=1)
        if not rows:
            return moments.NodeAttributes(request.node, 0, 0, {})
        if not ran:
            return moments.NodeAttributes(request.node, 0, 0, rows[0].node.attrs)
        at = ran[-1]
        defined = [each.node for each in rows if each.seq <= at.seq] or [rows[0].node]
        attrs = recording.calls(at.seq - 1, at.seq).get(at.seq, defined[-1].attrs)
        first = rows[0].node.attrs
        changed = {
            name: first.get(name) for name in attrs if repr(attrs[name]) != repr(first.get(name))
        }
        return moments.NodeAttributes(request.node, at.seq, at.step, attrs, changed)

    return await run.query.call(read)


async def problems(run: Run) -> moments.ProblemList:
    """Answer `wire_moments.GetProblems`.

    Raises:
        RecordingError: The recording cannot be read.
    """

    def ask(recording: Recording) -> list[Problem]:
        known = run.problems
        if known is None or known.recording is not recording:
            known = run.problems = Problems(recording)
        return known.rows()

    found = await run.query.call(ask) if run.committed else []
    rows = tuple(
        moments.NodeProblem(
            each.node, each.count, each.first_seq, each.first_step, each.last_seq, each.last_step,
            bool(each.flags & HAS_NAN), bool(each.flags & HAS_INF), bool(each.flags & FAILED),
            each.error, each.healed, each.edits[-MOST_EDITS:], each.edited,
        )
        for each in found[:MOST_PROBLEMS]
    )  # fmt: skip
    return moments.ProblemList(rows, len(found), sum(each.count for each in found))


async def _side(run: Run, value: int, seq: int | None) -> Side:
    """What is known of a value at a moment, and its elements."""
    about = await values.value_slice(run, wire.GetValue(run.info.id, value, seq, rows=0, cols=0))
    if not about.found:
        return moments.ValueMoment(False, reason=about.reason), None
    nbytes = about.summary.nbytes if about.summary else 0
    array, reason = None, about.reason
    if nbytes > MOST_BYTES:
        most = MOST_BYTES >> 20
        reason = f"It takes {nbytes >> 20} MiB; above {most} MiB only statistics are compared."
    elif about.available:
        array, reason = await values.whole(run, value, seq)
    edits = await run.query.call(lambda each: each.edits(max(about.seq - 1, 0)))
    edit = next((each.how for each in edits if (each.seq, each.value) == (about.seq, value)), "")
    found = moments.ValueMoment(
        True, about.seq, about.step, about.summary, array is not None, reason, edit
    )
    return found, array


def _compared(request: moments.CompareMoments, one: Side, other: Side) -> moments.MomentsCompared:
    (first, a), (second, b) = one, other
    same = first.found and second.found and first.seq == second.seq
    if a is None or b is None:
        measure = _by_statistics(first, second)
        return moments.MomentsCompared(request.value, first, second, same, measure)
    measure = measure_arrays(a, b)
    bits = difference(a, b, "", request.value, second.seq)
    at, _ = farthest(a, b)
    gap = subtracted(a, b)
    if gap is None or measure.source == "none":
        return moments.MomentsCompared(
            request.value, first, second, same, measure, bits.count if bits else 0
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
        same=same,
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


def _pair(one: Array, other: Array, at: tuple[int, ...]) -> moments.ElementPair:
    return moments.ElementPair(at, *elements(one, other, at))


def _by_statistics(one: moments.ValueMoment, other: moments.ValueMoment) -> Measure:
    if not one.found or not other.found:
        return Measure("none", why="not computed at one of the moments")
    if one.summary is None or other.summary is None:
        return Measure("none", why="no statistics at one of the moments")
    return measure_summaries(one.summary, other.summary)
