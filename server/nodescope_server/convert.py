"""From rows of a recording to messages of the wire.

Invariant: pure functions over a `Recording` (or plain rows); they block on the disk, so the event
loop never calls them itself. What a message leaves out it counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from nodescope.events import HOST_KINDS
from nodescope.ir.graph import Node
from nodescope.protocol import RunInfo, SessionInfo
from nodescope.record.recording import Recording
from nodescope.record.rows import EditRow, Execution, Governed, NodeRow, StepRow, ValueRow
from nodescope_server import wire
from nodescope_server.wire_times import HostTime

# More than this in one message a page cannot show, and a replay never needs.
MAX_EXECUTIONS = 20_000
MAX_LOGS = 2_000
# Thread identifiers of the system can be wider than 32 bits; they only have to differ.
_NARROW = 0xFFFFFFFF

_COLUMNS = (
    ("seq", "<f8"),
    ("node", "<u4"),
    ("step", "<u4"),
    ("thread", "<u4"),
    ("start_ns", "<f8"),
    ("duration_ns", "<f8"),
    ("flags", "u1"),
)


def columns(rows: Sequence[Execution], times: Sequence[int] = ()) -> wire.ExecutionColumns:
    """Executions column by column; ``times`` is empty or has one entry per row."""
    if not rows:
        return wire.ExecutionColumns(0)
    table = np.array([msgspec.structs.astuple(each) for each in rows], dtype=np.int64)
    packed = {
        name: (table[:, place] & _NARROW if dtype == "<u4" else table[:, place])
        .astype(dtype)
        .tobytes()
        for place, (name, dtype) in enumerate(_COLUMNS)
    }
    return wire.ExecutionColumns(
        count=len(rows), times=np.asarray(times, dtype="<u4").tobytes(), **packed
    )


def thin(rows: Sequence[Execution], limit: int) -> tuple[Sequence[Execution], int]:
    """At most about ``limit`` rows, evenly, and how many were left out.

    The last row of each node is always kept, even beyond the limit.
    """
    if len(rows) <= limit:
        return rows, 0
    last = {row.node: place for place, row in enumerate(rows)}
    even = np.linspace(0, len(rows) - 1, max(limit - len(last), 1), dtype=np.int64)
    kept = sorted({*last.values(), *even.tolist()})
    return [rows[place] for place in kept], len(rows) - len(kept)


def snapshot(
    recording: Recording, info: RunInfo, session: SessionInfo | None, until: int
) -> wire.Snapshot:
    """Everything up to and including the record ``until``."""
    state = recording.state_at(until)
    nodes, node_seqs = _nodes(recording.nodes(), until)
    return wire.Snapshot(
        run=info,
        seq=until,
        time_ns=_latest_ns(recording, [each for each, _ in state]),
        nodes=nodes,
        node_seqs=node_seqs,
        values=_values(recording.values(until=until)),
        gradients=tuple(each for each in recording.gradients() if each.seq <= until),
        steps=_steps(recording.steps(), until),
        logs=tuple(each for each in recording.logs(limit=MAX_LOGS) if each.seq <= until),
        executions=columns([each for each, _ in state], [times for _, times in state]),
        dropped=recording.dropped(),
        session=session,
        governed=_governed(recording, 0),
        keeping=recording.keeping(),
    )


def records(recording: Recording, run: str, after: int, until: int) -> wire.Records:
    """What was recorded in ``(after, until]``."""
    executions, skipped = thin(recording.executions(after, until), MAX_EXECUTIONS)
    logs = tuple(each for each in recording.logs(after) if each.seq <= until)
    nodes, node_seqs = _nodes(recording.nodes(after), until)
    return wire.Records(
        run=run,
        seq=until,
        time_ns=_latest_ns(recording, executions),
        nodes=nodes,
        node_seqs=node_seqs,
        values=_values(recording.values(after, until)),
        gradients=tuple(each for each in recording.gradients(after) if each.seq <= until),
        steps=_steps(recording.steps(after), until),
        logs=logs[-MAX_LOGS:],
        executions=columns(executions),
        dropped=recording.dropped(),
        skipped=skipped,
        governed=_governed(recording, after),
        keeping=recording.keeping(after),
    )


def state_at(recording: Recording, seq: int) -> wire.StateAt:
    """The latest execution of every node at or before ``seq``."""
    state = recording.state_at(seq)
    latest = max((each for each, _ in state), key=lambda each: each.seq, default=None)
    return wire.StateAt(
        seq=seq,
        step=latest.step if latest else 0,
        time_ns=latest.start_ns + latest.duration_ns if latest else 0,
        values=_values(recording.reshaped(seq)),
        executions=columns([each for each, _ in state], [times for _, times in state]),
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
    found = recording.edits()
    if not found:
        return ()
    own = {row.value.id for row in recording.values() if row.producer == node}
    return tuple(each for each in found if each.value in own)


def timeline(recording: Recording, request: wire.GetTimeline) -> wire.Timeline:
    """The executions of a span of time; of too many, the longest."""
    limit = min(max(request.limit, 1), MAX_EXECUTIONS)
    total, rows = recording.timeline(request.start_ns, request.end_ns, limit)
    host = tuple(
        HostTime(
            each.kind if each.kind in HOST_KINDS else "python",
            each.thread & _NARROW, each.step, each.start_ns, each.end_ns,
            each.file, each.line, each.function,
        )
        for each in recording.host(request.start_ns, request.end_ns, limit)
    )  # fmt: skip
    return wire.Timeline(request.start_ns, request.end_ns, total, columns(rows), host)


def _nodes(rows: Sequence[NodeRow], until: int) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    kept = [each for each in rows if each.seq <= until]
    return tuple(each.node for each in kept), tuple(each.seq for each in kept)


def _values(rows: Sequence[ValueRow]) -> tuple[wire.ProducedValue, ...]:
    return tuple(wire.ProducedValue(row.value, row.producer) for row in rows)


def _governed(recording: Recording, after: int) -> Governed | None:
    """What the governor last told after a seq; of its nodes a page needs only the sums."""
    found = recording.governed(after)
    return None if found is None else msgspec.structs.replace(found, nodes=())


def _steps(rows: Sequence[StepRow], until: int) -> tuple[StepRow, ...]:
    """Steps as they stood at ``until``: what ended later still runs."""
    return tuple(
        each
        if each.end_seq is None or each.end_seq <= until
        else StepRow(each.step, each.start_seq, each.start_ns, observed=each.observed)
        for each in rows
        if each.start_seq <= until
    )


def _latest_ns(recording: Recording, rows: Sequence[Execution]) -> int:
    """The end of the latest row; without rows, how far the recording goes."""
    if not rows:
        return recording.time_ns()
    return max(each.start_ns + each.duration_ns for each in rows)
