"""The origin of NaN or Inf in a run, shared by the summary, the problems and ``why``.

The origin is the birth behind the first loss or weight that became NaN or Inf. If none did, it is a
birth that was not healed. The chain is traced back element by element as far as arrays are kept,
otherwise by the flags of executions; a NaN may originate from an Inf.

Invariant: only reads, within a time limit; an origin is found even without any array.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Literal
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.debug.replay.replay import Replay
from nodescope.debug.why.answer import Cause
from nodescope.debug.why.chain import why
from nodescope.debug.why.flow import flow_of
from nodescope.debug.why.nonfinite_origins import state_of
from nodescope.debug.why.written_inf import writes_inf, written_inf
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_INF, HAS_NAN, Execution, LossRow

_MOST_BACK = 10_000
_MOST_FLAGGED = 50_000
_MOST_IN_STEP = 100_000
_MOST_STEPS = 8
_PATIENCE_S = 2.0
_NONFINITE = HAS_NAN | HAS_INF

Definitions = dict[int, list[tuple[int, Node]]]
"""The definitions of nodes by id, each with the seq from which it is valid."""


class NonfiniteOrigin(msgspec.Struct, frozen=True):
    """The origin of NaN or Inf in a run.

    Attributes:
        kind: What the node produced: ``nan`` or ``inf``.
        node: The node's id; 0 if unknown because the step was not observed.
        step, seq: Step and seq of the execution; the seq is 0 if the node is unknown.
        edited: Whether the user set the value to NaN or Inf.
        unseen_step: The unobserved step in which the loss first was not finite, if that was before
            this origin; else 0.
        healed: Whether all NaN and Inf of the run, including this one, was healed.
    """

    kind: Literal["nan", "inf"]
    node: int
    step: int
    seq: int
    edited: bool = False
    unseen_step: int = 0
    healed: bool = False


def nonfinite_origin(recording: Recording) -> NonfiniteOrigin | None:
    """The origin of NaN or Inf; None if there is none besides Inf that the program writes itself.

    Raises:
        RecordingError: The recording is damaged.
    """
    known = _known.get(recording)
    if known is not None and known[0] == recording.last_seq():
        return known[1]
    origin = _nonfinite_origin(recording)
    _known[recording] = (recording.last_seq(), origin)
    return origin


_known: WeakKeyDictionary[Recording, tuple[int, NonfiniteOrigin | None]] = WeakKeyDictionary()


def _nonfinite_origin(recording: Recording) -> NonfiniteOrigin | None:
    first_nan, first_inf = recording.first_flagged(HAS_NAN), recording.first_flagged(HAS_INF)
    nan = first_nan[0] if first_nan is not None else None
    inf = first_inf[0] if first_inf is not None else None
    edit = next(_nonfinite_edits(recording), None)
    if edit is not None and (nan is None or edit.seq <= nan.seq):  # noqa: SIM102 (two questions)
        if edit.kind == "nan" or inf is None or edit.seq <= inf.seq:
            return edit
    loss = next((row for row in recording.losses() if not math.isfinite(row.value)), None)
    origin: NonfiniteOrigin | None = None
    seen = None
    if nan is not None or inf is not None:
        definitions = _definitions(recording)
        seen = _of_loss(recording, loss)
        weight = _of_weights(recording, definitions)
        reached = [row for row in (seen, weight) if row is not None]
        if reached:
            origin = _traced(recording, min(reached, key=lambda row: row.seq))
        else:
            origin = _lasting(recording, definitions, nan, inf)
    if loss is None or seen is not None or (origin is not None and origin.seq < loss.seq):
        return origin
    if origin is not None:
        return msgspec.structs.replace(origin, unseen_step=loss.step)
    kind: Literal["nan", "inf"] = "nan" if math.isnan(loss.value) else "inf"
    return NonfiniteOrigin(kind, 0, loss.step, 0, unseen_step=loss.step)


def _definitions(recording: Recording) -> Definitions:
    definitions: Definitions = {}
    for row in recording.nodes():
        definitions.setdefault(row.node.id, []).append((row.seq, row.node))
    return definitions


def _of_loss(recording: Recording, loss: LossRow | None) -> Execution | None:
    """The execution that produced the first nonfinite loss; None if it was not observed."""
    if loss is None or not loss.node:
        return None
    ran = recording.executions(0, loss.seq, node=loss.node)
    return next((row for row in ran if row.step == loss.step and row.flags & _NONFINITE), None)


def _of_weights(recording: Recording, definitions: Definitions) -> Execution | None:
    """The first execution that wrote NaN or Inf to a weight, or in which a weight had it."""
    for row in recording.flagged(_NONFINITE, limit=_MOST_FLAGGED):
        node = _defined(definitions, row)
        if node is None or not (node.writes or node.role == "parameter"):
            continue
        if not _written_down(node, row):
            return row
    return None


def _traced(recording: Recording, reached: Execution) -> NonfiniteOrigin:
    """The origin of an execution's NaN or Inf: by elements, or by flags if these are not kept."""
    start = reached
    try:
        replay = Replay(recording, seq=reached.seq, patience_s=_PATIENCE_S)
        outputs = replay.book.node(reached.node, reached.seq).outputs
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            for value in outputs:
                answer = why(recording, value, seq=reached.seq, replay=replay, width=1)
                end = answer.culprit
                kind = state_of(end.number)
                if state_of(answer.root.number) not in ("nan", "inf"):
                    continue
                if end.kind in ("birth", "leaf", "passed") and kind in ("nan", "inf"):
                    return _origin_at(replay.book, end, "nan" if kind == "nan" else "inf")
                ran = recording.executions(end.seq - 1, end.seq)
                start = ran[0] if ran and ran[0].flags & _NONFINITE else start
                break
    except NodescopeError:
        pass  # without elements, the flags identify the node
    return _origin_of(recording, start)


def _origin_at(book: ExecutionIndex, end: Cause, kind: Literal["nan", "inf"]) -> NonfiniteOrigin:
    edit = book.edits.get(end.seq)
    if edit is not None:
        node = book.producer.get(edit.value, 0)
        return NonfiniteOrigin(kind, node, edit.step, edit.seq, edited=True)
    (execution,) = book.recording.executions(end.seq - 1, end.seq)
    return NonfiniteOrigin(kind, execution.node, execution.step, execution.seq)


def _lasting(
    recording: Recording, definitions: Definitions, nan: Execution | None, inf: Execution | None
) -> NonfiniteOrigin | None:
    """The origin if no loss or weight was reached: the first step's that was not healed, NaN first.

    If everything was healed, it is the origin of the first NaN, else of the first Inf.
    """
    book = ExecutionIndex(recording)
    for step in _steps_with(recording):
        first, last = book.step_range(step)
        executions = recording.executions(max(first - 1, 0), last, limit=_MOST_IN_STEP)
        ran = {row.seq: row for row in executions if row.step == step}
        flow = flow_of(book, list(ran.values()))
        ends = [
            ran[seq]
            for birth in flow.births()
            if not flow.is_healed(birth)
            for seq in flow.ends(birth)
            if seq in ran and not flow.healers.get(seq)
            and not _written_down(_defined(definitions, ran[seq]), ran[seq])
        ]  # fmt: skip
        if ends:
            return _traced(recording, max(ends, key=lambda row: (row.flags & HAS_NAN, row.seq)))
    start = nan if nan is not None else inf
    if start is not None and not start.flags & HAS_NAN:
        written = written_inf(recording)
        rows = recording.flagged(HAS_INF, limit=_MOST_FLAGGED)
        start = next((row for row in rows if row.node not in written), None)
    if start is None:
        return None
    return msgspec.structs.replace(_origin_of(recording, start), healed=True)


def _steps_with(recording: Recording) -> list[int]:
    """The first training steps with NaN or Inf."""
    rows = recording.flagged(_NONFINITE, limit=_MOST_FLAGGED)
    return list(dict.fromkeys(row.step for row in rows))[:_MOST_STEPS]


def _origin_of(recording: Recording, start: Execution) -> NonfiniteOrigin:
    """The origin of an execution's NaN or Inf, by the flags of earlier executions alone."""
    definitions = _definitions(recording)
    producer = {
        value: number
        for number, rows in definitions.items()
        for _, node in rows
        for value in node.outputs
    }
    at = start
    for _ in range(_MOST_BACK):
        node = _defined(definitions, at)
        inputs = node.inputs if node is not None else ()
        givers = [recording.last_of(producer[v], at.seq) for v in inputs if v in producer]
        broken = [
            giver
            for giver in givers
            if giver is not None
            and giver.flags & _NONFINITE
            and not _written_down(_defined(definitions, giver), giver)
        ]
        if not broken:
            break
        # If several inputs are nonfinite, follow NaN first.
        at = next((giver for giver in broken if giver.flags & HAS_NAN), broken[0])
    return NonfiniteOrigin("nan" if at.flags & HAS_NAN else "inf", at.node, at.step, at.seq)


def _defined(definitions: Definitions, execution: Execution) -> Node | None:
    """A node as it was defined when it ran."""
    rows = definitions.get(execution.node, ())
    return next((node for seq, node in reversed(rows) if seq <= execution.seq), None)


def _written_down(node: Node | None, execution: Execution) -> bool:
    """Whether an execution's Inf is data or a constant of the program, as in masks: no problem."""
    if node is None or execution.flags & HAS_NAN:
        return False
    return node.is_leaf or writes_inf(node)


def _nonfinite_edits(recording: Recording) -> Iterator[NonfiniteOrigin]:
    """The user's edits that set NaN or Inf, in order."""
    edits = recording.edits()
    if not edits:
        return
    producers = {row.value.id: row.producer for row in recording.values()}
    for edit in edits:
        written = recording.latest_at(edit.value, edit.seq)
        node = producers.get(edit.value)
        if written is None or written.seq != edit.seq or node is None:
            continue
        summary = written.summary
        if summary.nan_count or summary.inf_count:
            kind: Literal["nan", "inf"] = "nan" if summary.nan_count else "inf"
            yield NonfiniteOrigin(kind, node, edit.step, edit.seq, edited=True)
