"""Why: the origin of a number, and the history of NaN and Inf, for the page.

Invariant: answers come from the recording alone, through the computing reader, within `PATIENCE_S`;
missing parts are reported in the answer.
"""

from __future__ import annotations

from typing import Any

from nodescope.debug import why as chains
from nodescope.debug.replay import Branch, ExecutionIndex, Replay
from nodescope.debug.why.nonfinite_origins import number_text, state_of
from nodescope.debug.why.rendering import (
    born_label,
    fate_words,
    others_words,
    raised_sentences,
    sentence,
)
from nodescope.debug.why.target import WHICH
from nodescope.errors import UsageError
from nodescope.record.recording import Recording
from nodescope_server.runs.runs import Run
from nodescope_server.wire import why_messages

# The page waits 15 s for an answer.
PATIENCE_S = 8.0
MOST_BORN = 40
_WORDS = ("", *WHICH)


def book_of(run: Run, recording: Recording) -> ExecutionIndex:
    """The execution index of a recording, cached until the recording grows."""
    book = run.book
    if book is None or book.recording is not recording or book.last_seq != recording.last_seq():
        book = run.book = ExecutionIndex(recording)
    return book


async def why(run: Run, request: why_messages.AskWhy) -> why_messages.WhyAnswer:
    """Answer `AskWhy` about the recorded run; for a branch, see `what_if.why_in`.

    Raises:
        NodescopeError: The element does not exist, or its array is unavailable.
    """
    return await run.study.call(lambda recording: why_answer(run, recording, request))


def why_answer(
    run: Run, recording: Recording, request: why_messages.AskWhy, branch: Branch | None = None
) -> why_messages.WhyAnswer:
    """The origin of elements in a branch, or as recorded. Raises as `why`."""
    if request.which not in _WORDS:
        raise UsageError(f"no elements are {request.which!r}", hint=f"one of {_WORDS[1:]}")
    index: Any = request.index if request.index is not None else request.which or None

    book = book_of(run, recording)
    seq = book.last_seq if request.seq is None else request.seq
    replay = Replay(recording, seq=seq, book=book, patience_s=PATIENCE_S)
    answer = chains.why(
        recording, request.value, index, seq=seq, replay=replay, branch=branch, width=1
    )
    groups = tuple(
        why_messages.WhyGroup(count, _text(cause), _links(book, cause))
        for count, cause in answer.groups
    )
    first = answer.root
    differs = any(cause.recorded is not None for _, cause in answer.groups)
    return why_messages.WhyAnswer(
        first.value, first.seq, answer.elements, answer.followed, groups,
        request.branch if differs else 0,
    )  # fmt: skip


def _text(cause: chains.Cause) -> str:
    # The page shows the message of an error only at the operation that raised it.
    raised = cause.kind == "raised"
    return raised_sentences(cause, message=False) if raised else sentence(cause)


def _links(book: ExecutionIndex, cause: chains.Cause) -> tuple[why_messages.WhyLink, ...]:
    end = cause.culprit()
    return tuple(_link(book, link, link is end) for link in cause.chain())


def _link(book: ExecutionIndex, cause: chains.Cause, culprit: bool) -> why_messages.WhyLink:
    source = cause.source
    return why_messages.WhyLink(
        kind=cause.kind,
        name=cause.name,
        op=cause.op,
        phase=cause.phase,
        node=node_at(book, cause.seq),
        value=cause.value,
        seq=cause.seq,
        step=cause.step,
        at=cause.at,
        number="" if cause.number is None else number_text(cause.number),
        recorded="" if cause.recorded is None else number_text(cause.recorded),
        state=_state(cause.number),
        how=cause.how,
        words=cause.words,
        error=cause.error,
        operands=tuple(map(_operand, dict.fromkeys(cause.operands))),
        others=cause.others,
        birth=cause.birth.kind if cause.birth is not None else "",
        ranges=cause.ranges,
        file=source.file if source is not None else "",
        line=source.line if source is not None else 0,
        code=cause.line,
        culprit=culprit,
    )


def _operand(operand: chains.Operand) -> why_messages.WhyOperand:
    term = "" if operand.term is None else number_text(operand.term)
    # For a NaN or an Inf, every NaN or Inf operand alone explains the result, so it has no share.
    finite = operand.share is not None and _state(operand.number) in ("finite", "zero")
    share = float(operand.share or 0) if finite else None
    return why_messages.WhyOperand(
        operand.name,
        operand.at,
        "" if operand.number is None else number_text(operand.number),
        _state(operand.number),
        term,
        share,
        operand.selects,
    )


def _state(number: Any) -> why_messages.NumberState:
    if number is None:
        return "unknown"
    state: why_messages.NumberState = state_of(number)  # type: ignore[assignment]
    return state


def node_at(book: ExecutionIndex, seq: int) -> int:
    """The node of an execution or edit; 0 if the recording does not contain it."""
    executions = book.recording.executions(seq - 1, seq)
    if executions:
        return executions[0].node
    edit = book.edits.get(seq)
    return book.producer.get(edit.value, 0) if edit is not None else 0


async def spread(run: Run, request: why_messages.AskSpread) -> why_messages.SpreadAnswer:
    """Answer `AskSpread`.

    Raises:
        NodescopeError: The step is not in the recording.
    """

    def ask(recording: Recording) -> why_messages.SpreadAnswer:
        book = book_of(run, recording)
        replay = Replay(recording, request.step, book=book, patience_s=PATIENCE_S)
        report = chains.spread(recording, request.step, replay=replay)
        births = tuple(
            why_messages.BornValue(
                birth.node, node_at(book, birth.seq), birth.seq, birth.at, birth.kind, birth.words,
                birth.ranges, born_label(birth, nth), fate_words(birth), str(birth.source or ""),
            )
            for nth, birth in enumerate(report.births[:MOST_BORN])
        )  # fmt: skip
        heals = tuple(
            why_messages.HealedValue(node.node, node_at(book, node.seq), node.seq, node.words)
            for node in report.healed[:MOST_BORN]
        )
        return why_messages.SpreadAnswer(
            report.step, report.executions, report.touched, report.known, births,
            len(report.births), heals, len(report.healed), others_words(report.births),
        )  # fmt: skip

    return await run.study.call(ask)
