"""Conversion of a recording's rows to messages of the wire.

Invariant: pure functions over a `Recording` (or plain rows); they block on the disk, so the event
loop never calls them itself. Everything left out of a message is counted in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodescope.events import HOST_KINDS
from nodescope.ir.attrs import plain_attrs
from nodescope.ir.graph import Node
from nodescope.protocol import RunInfo, SessionInfo
from nodescope.record.recording import Recording
from nodescope.record.rows import (
    EditRow,
    Execution,
    Governed,
    GradientRow,
    LogRow,
    NodeRow,
    StepRow,
    ValueRow,
)
from nodescope_server import wire
from nodescope_server.wire.graph_columns import node_columns, numbers, short_attrs, value_columns
from nodescope_server.wire.timeline_messages import HostTime, LaneName

# A page cannot show more than this in one message, and a replay never needs more.
MAX_EXECUTIONS = 20_000
MAX_LOGS = 2_000
# In a run with very many steps: the number of steps sent on each side of the moment shown.
STEPS_AROUND = 100
# The system's thread identifiers can be wider than 32 bits; they only have to differ.
_NARROW = 0xFFFFFFFF

_Row = Execution | GradientRow | LogRow | ValueRow
R = TypeVar("R", GradientRow, LogRow)

# The columns of a table of executions; the last one only where the number of runs is known.
_COLUMNS = (
    "seq", "node", "step", "thread", "start_ns", "duration_ns", "flags", "worker", "lane", "times",
)  # fmt: skip
_SEQ, _NODE, _STEP, _START, _DURATION = map(
    _COLUMNS.index, ("seq", "node", "step", "start_ns", "duration_ns")
)
_NARROW_COLUMNS = ("thread", "worker", "lane")


def columns(rows: Sequence[Execution]) -> wire.ExecutionColumns:
    """Executions column by column."""
    return _packed(np.array([msgspec.structs.astuple(row) for row in rows], dtype=np.int64))


def _packed(table: NDArray[np.int64]) -> wire.ExecutionColumns:
    if not len(table):
        return wire.ExecutionColumns(0)
    packed = {
        name: numbers(column & _NARROW if name in _NARROW_COLUMNS else column)
        for name, column in zip(_COLUMNS, table.T, strict=False)
    }
    return wire.ExecutionColumns(count=len(table), **packed)


def thin(rows: Sequence[Execution], limit: int) -> tuple[Sequence[Execution], int]:
    """At most about ``limit`` rows, evenly spaced, and the number left out.

    The last row of each node is always kept, even beyond the limit.
    """
    if len(rows) <= limit:
        return rows, 0
    last = {row.node: place for place, row in enumerate(rows)}
    even = np.linspace(0, len(rows) - 1, max(limit - len(last), 1), dtype=np.int64)
    kept_places = sorted({*last.values(), *even.tolist()})
    return [rows[place] for place in kept_places], len(rows) - len(kept_places)


def snapshot(
    recording: Recording, info: RunInfo, session: SessionInfo | None, until: int
) -> wire.Snapshot:
    """Everything up to and including the record ``until``."""
    table = recording.graph_table
    seqs, nodes = table.nodes(until)
    values = table.values(until)
    executions = table.latest(until)
    gradients = _until(recording.gradients(), until)
    steps = _steps(recording.step_table.some(until), until)
    logs = _until(recording.logs(limit=MAX_LOGS), until)
    return wire.Snapshot(
        run=info,
        seq=until,
        last_event=max(
            _last_event(seqs, steps, gradients, logs),
            table.last_value(until),
            int(executions[:, 0].max(initial=0)),
        ),
        time_ns=int(_ends(executions).max()) if len(executions) else recording.time_ns(),
        nodes=node_columns(seqs, nodes),
        values=value_columns(values, nodes),
        gradients=gradients,
        steps=steps,
        logs=logs,
        executions=_packed(executions),
        dropped=recording.dropped(),
        session=session,
        governed=_governed(recording, 0),
        keeping=recording.keeping(),
    )


def records(recording: Recording, run: str, after: int, until: int) -> wire.Records:
    """Everything recorded in ``(after, until]``."""
    executions, skipped = thin(recording.executions(after, until), MAX_EXECUTIONS)
    nodes, node_seqs = _nodes(recording.nodes(after), until)
    values = recording.values(after, until)
    gradients = _until(recording.gradients(after), until)
    steps = _steps(recording.steps(after), until)
    logs = _until(recording.logs(after), until)
    return wire.Records(
        run=run,
        seq=until,
        last_event=_last_event(node_seqs, steps, values, gradients, logs, executions),
        time_ns=_latest_ns(recording, executions),
        nodes=nodes,
        node_seqs=node_seqs,
        values=_values(values),
        gradients=gradients,
        steps=steps,
        logs=logs[-MAX_LOGS:],
        executions=columns(executions),
        dropped=recording.dropped(),
        skipped=skipped,
        governed=_governed(recording, after),
        keeping=recording.keeping(after),
    )


def state_at(recording: Recording, seq: int, since: int | None = None) -> wire.StateAt:
    """The latest execution of every node at or before ``seq``; see `wire.GetState`."""
    executions = recording.graph_table.latest(seq)
    step = int(executions[-1, _STEP]) if len(executions) else 0
    time_ns = int(_ends(executions)[-1]) if len(executions) else 0
    gone: tuple[int, ...] = ()
    if since is not None and since <= seq:
        executions = executions[executions[:, _SEQ] > since]
    elif since is not None:
        before = recording.graph_table.latest(since)
        nodes = before[before[:, _SEQ] > seq, _NODE]
        executions = executions[np.isin(executions[:, _NODE], nodes)]
        gone = tuple(np.setdiff1d(nodes, executions[:, _NODE]).tolist())
    return wire.StateAt(
        seq=seq,
        step=step,
        time_ns=time_ns,
        since=since,
        gone=gone,
        values=_values(recording.reshaped(seq)),
        steps=tuple(recording.step_table.around(seq, STEPS_AROUND)),
        executions=_packed(executions),
    )


def history(recording: Recording, request: wire.GetHistory) -> wire.History:
    """The executions of one node with the summaries of its first output."""
    limit = min(max(request.limit, 1), MAX_EXECUTIONS)
    total, rows, values = recording.history(request.node, until_seq=request.until_seq, limit=limit)
    points = tuple(
        wire.ValuePoint(row.seq, row.step, value.summary if value else None)
        for row, value in zip(rows, values, strict=True)
    )
    return wire.History(request.node, total, columns(rows), points, _edits(recording, request.node))


def _edits(recording: Recording, node: int) -> tuple[EditRow, ...]:
    edits = recording.edits()
    if not edits:
        return ()
    own_values = {row.value.id for row in recording.values() if row.producer == node}
    return tuple(edit for edit in edits if edit.value in own_values)


def timeline(recording: Recording, request: wire.GetTimeline) -> wire.Timeline:
    """The executions in a span of time, and when devices ran them; if too many, the longest."""
    limit = min(max(request.limit, 1), MAX_EXECUTIONS)
    total, rows = recording.timeline(request.start_ns, request.end_ns, limit)
    on_device = recording.device_table.rows(request.start_ns, request.end_ns, limit)
    placed = on_device or any(row.lane for row in rows)
    names = recording.device_table.names() if placed else {}
    lanes = tuple(LaneName(lane, name) for lane, name in names.items())
    host = tuple(
        HostTime(
            span.kind if span.kind in HOST_KINDS else "python",
            span.thread & _NARROW, span.step, span.start_ns, span.end_ns,
            span.file, span.line, span.function,
        )
        for span in recording.host(request.start_ns, request.end_ns, limit)
    )  # fmt: skip
    rows += on_device
    total += len(on_device) + (len(on_device) == limit)
    thread = recording.main_thread()
    main = None if thread is None else thread & _NARROW
    return wire.Timeline(request.start_ns, request.end_ns, total, columns(rows), host, lanes, main)


def shown_node(node: Node) -> Node:
    """A node as shown on the page: attributes that are neither numbers nor text become text,
    long texts are cut short."""
    attrs = plain_attrs(node.attrs)
    attrs = short_attrs(attrs)
    return node if attrs is node.attrs else msgspec.structs.replace(node, attrs=attrs)


def _nodes(rows: Sequence[NodeRow], until: int) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    kept_rows = [row for row in rows if row.seq <= until]
    return tuple(shown_node(row.node) for row in kept_rows), tuple(row.seq for row in kept_rows)


def _values(rows: Sequence[ValueRow]) -> tuple[wire.ProducedValue, ...]:
    return tuple(wire.ProducedValue(row.value, row.producer) for row in rows)


def _governed(recording: Recording, after: int) -> Governed | None:
    """The governor's latest report after a seq; a page needs only the sums over its nodes."""
    governed = recording.governed(after)
    return None if governed is None else msgspec.structs.replace(governed, nodes=())


def _steps(rows: Sequence[StepRow], until: int) -> tuple[StepRow, ...]:
    """Steps as of ``until``: a step that ended later is still running."""
    return tuple(
        row
        if row.end_seq is None or row.end_seq <= until
        else StepRow(row.step, row.start_seq, row.start_ns, observed=row.observed)
        for row in rows
        if row.start_seq <= until
    )


def _until(rows: Sequence[R], until: int) -> tuple[R, ...]:
    return tuple(row for row in rows if row.seq <= until)


def _last_event(node_seqs: Sequence[int], steps: Sequence[StepRow], *rows: Sequence[_Row]) -> int:
    """The seq of the last record of the program's own activity; 0 without one.

    Records about which values are kept do not count: a page causes them by viewing a node.
    """
    began_or_ended = (step.end_seq or step.start_seq for step in steps)
    happened = (row.seq for row in chain.from_iterable(rows))
    return max(chain(node_seqs, began_or_ended, happened), default=0)


def _ends(executions: NDArray[np.int64]) -> NDArray[np.int64]:
    """When each of a table's executions ended, in nanoseconds since the run began."""
    ends: NDArray[np.int64] = executions[:, _START] + executions[:, _DURATION]
    return ends


def _latest_ns(recording: Recording, rows: Sequence[Execution]) -> int:
    """The end of the latest row; without rows, the end of the recording."""
    if not rows:
        return recording.time_ns()
    return max(row.start_ns + row.duration_ns for row in rows)
