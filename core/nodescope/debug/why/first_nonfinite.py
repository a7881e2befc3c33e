"""Where NaN or Inf began in a run: the one answer for the summary, the problems and ``why``.

It is the first NaN; or, before that, what made a loss not finite; or else the first Inf. From there
it is followed back through inputs that are not finite: a NaN may come from an Inf.

Invariant: reads flags of executions only, no elements, so it is known without any array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import msgspec

from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_INF, HAS_NAN, Execution

_MOST_BACK = 10_000
_NONFINITE = HAS_NAN | HAS_INF


class NonfiniteOrigin(msgspec.Struct, frozen=True):
    """Where it began.

    Attributes:
        kind: What the node gave there: ``nan`` or ``inf``.
        node: Its id; 0 if it is not known, because the step was not observed.
        step, seq: When; the seq is 0 if the node is not known.
        edited: A person set it.
        unseen_step: The loss was not finite before: since this step, which was not observed; or 0.
    """

    kind: Literal["nan", "inf"]
    node: int
    step: int
    seq: int
    edited: bool = False
    unseen_step: int = 0


def nonfinite_origin(recording: Recording) -> NonfiniteOrigin | None:
    """Where NaN or Inf began; None if everything that is recorded is finite.

    Raises:
        RecordingError: It is damaged.
    """
    first_nan, first_inf = recording.first_flagged(HAS_NAN), recording.first_flagged(HAS_INF)
    nan = first_nan[0] if first_nan is not None else None
    inf = first_inf[0] if first_inf is not None else None
    edit = next(_nonfinite_edits(recording), None)
    if edit is not None and (nan is None or edit.seq <= nan.seq):  # noqa: SIM102 (two questions)
        if edit.kind == "nan" or inf is None or edit.seq <= inf.seq:
            return edit
    loss = next((row for row in recording.losses() if not math.isfinite(row.value)), None)
    if loss is None or (nan is not None and nan.seq < loss.seq):
        start = nan if nan is not None else inf
        return _origin_of(recording, start) if start is not None else None
    ran = recording.executions(0, loss.seq, node=loss.node) if loss.node else []
    broken = [row for row in ran if row.step == loss.step and row.flags & _NONFINITE]
    if broken:
        return _origin_of(recording, broken[0])
    if nan is not None:
        return msgspec.structs.replace(_origin_of(recording, nan), unseen_step=loss.step)
    kind: Literal["nan", "inf"] = "nan" if math.isnan(loss.value) else "inf"
    return NonfiniteOrigin(kind, 0, loss.step, 0, unseen_step=loss.step)


def _origin_of(recording: Recording, start: Execution) -> NonfiniteOrigin:
    """The origin of an execution's NaN or Inf."""
    definitions: dict[int, list[tuple[int, Node]]] = {}
    producer: dict[int, int] = {}
    for row in recording.nodes():
        definitions.setdefault(row.node.id, []).append((row.seq, row.node))
        producer.update(dict.fromkeys(row.node.outputs, row.node.id))
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
        # A NaN comes from a NaN, where there is one.
        at = next((giver for giver in broken if giver.flags & HAS_NAN), broken[0])
    return NonfiniteOrigin("nan" if at.flags & HAS_NAN else "inf", at.node, at.step, at.seq)


def _defined(definitions: dict[int, list[tuple[int, Node]]], execution: Execution) -> Node | None:
    """A node as it was when it ran."""
    rows = definitions.get(execution.node, ())
    return next((node for seq, node in reversed(rows) if seq <= execution.seq), None)


def _written_down(node: Node | None, execution: Execution) -> bool:
    """Whether the program contains the Inf as a constant, as masks do, which is no fault."""
    if node is None or execution.flags & HAS_NAN:
        return False
    numbers = [number for number in node.attrs.values() if isinstance(number, float)]
    return node.is_leaf or any(map(math.isinf, numbers))


def _nonfinite_edits(recording: Recording) -> Iterator[NonfiniteOrigin]:
    """The edits of a person that set NaN or Inf, in order."""
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
