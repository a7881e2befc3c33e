"""Why a number is what it is, and what NaN and Inf did, for the page.

Invariant: answered from the recording alone, by the reader that computes, within `PATIENCE_S`; what
is missing is said in the answer.
"""

from __future__ import annotations

from typing import Any

from nodescope.debug import why as chains
from nodescope.debug.replay import Book, Replay
from nodescope.debug.why.births import state_of, told
from nodescope.debug.why.target import WHICH
from nodescope.debug.why.words import sentence
from nodescope.errors import UsageError
from nodescope.record.recording import Recording
from nodescope_server import wire_why as mine
from nodescope_server.runs import Run

# The page waits 15 s for an answer.
PATIENCE_S = 8.0
MOST_BORN = 40
_WORDS = ("", *WHICH)


def book_of(run: Run, recording: Recording) -> Book:
    """What is known of a recording's nodes, kept for as long as it does not grow."""
    book = run.book
    if book is None or book.recording is not recording or book.last_seq != recording.last_seq():
        book = run.book = Book(recording)
    return book


async def why(run: Run, request: mine.AskWhy) -> mine.WhyAnswer:
    """Answer `AskWhy`.

    Raises:
        NodescopeError: There is no such element, or its array cannot be had.
    """
    if request.which not in _WORDS:
        raise UsageError(f"no elements are {request.which!r}", hint=f"one of {_WORDS[1:]}")
    index: Any = request.index if request.index is not None else request.which or None

    def ask(recording: Recording) -> mine.WhyAnswer:
        book = book_of(run, recording)
        seq = book.last_seq if request.seq is None else request.seq
        replay = Replay(recording, seq=seq, book=book, patience_s=PATIENCE_S)
        found = chains.why(recording, request.value, index, seq=seq, replay=replay, width=1)
        groups = tuple(
            mine.WhyGroup(count, sentence(cause), _links(book, cause))
            for count, cause in found.groups
        )
        first = found.root
        return mine.WhyAnswer(first.value, first.seq, found.elements, found.followed, groups)

    return await run.study.call(ask)


def _links(book: Book, cause: chains.Cause) -> tuple[mine.WhyLink, ...]:
    end = cause.culprit()
    return tuple(_link(book, each, each is end) for each in cause.chain())


def _link(book: Book, cause: chains.Cause, culprit: bool) -> mine.WhyLink:
    source = cause.source
    return mine.WhyLink(
        kind=cause.kind,
        name=cause.name,
        op=cause.op,
        phase=cause.phase,
        node=node_at(book, cause.seq),
        value=cause.value,
        seq=cause.seq,
        step=cause.step,
        at=cause.at,
        number="" if cause.number is None else told(cause.number),
        state=_state(cause.number),
        how=cause.how,
        words=cause.words,
        operands=tuple(map(_operand, dict.fromkeys(cause.operands))),
        others=cause.others,
        birth=cause.birth.kind if cause.birth is not None else "",
        ranges=cause.ranges,
        file=source.file if source is not None else "",
        line=source.line if source is not None else 0,
        code=cause.line,
        culprit=culprit,
    )


def _operand(each: chains.Operand) -> mine.WhyOperand:
    term = "" if each.term is None else told(each.term)
    # Of a NaN or an Inf every such operand is the whole.
    finite = each.share is not None and _state(each.number) in ("finite", "zero")
    share = float(each.share or 0) if finite else None
    return mine.WhyOperand(
        each.name, each.at, told(each.number), _state(each.number), term, share, each.selects
    )


def _state(number: Any) -> mine.NumberState:
    if number is None:
        return "unknown"
    found: mine.NumberState = state_of(number)  # type: ignore[assignment]
    return found


def node_at(book: Book, seq: int) -> int:
    """The node of an execution or of what a person edited, 0 if it is not in the recording."""
    found = book.recording.executions(seq - 1, seq)
    if found:
        return found[0].node
    edit = book.edits.get(seq)
    return book.producer.get(edit.value, 0) if edit is not None else 0


async def spread(run: Run, request: mine.AskSpread) -> mine.SpreadAnswer:
    """Answer `AskSpread`.

    Raises:
        NodescopeError: The step is not in the recording.
    """

    def ask(recording: Recording) -> mine.SpreadAnswer:
        book = book_of(run, recording)
        replay = Replay(recording, request.step, book=book, patience_s=PATIENCE_S)
        found = chains.spread(recording, request.step, replay=replay)
        births = tuple(
            mine.BornValue(
                each.node, node_at(book, each.seq), each.seq, each.at, each.kind, each.words,
                each.ranges, each.reached, str(each.source or ""),
            )
            for each in found.births[:MOST_BORN]
        )  # fmt: skip
        heals = tuple(
            mine.HealedValue(each.node, node_at(book, each.seq), each.seq, each.words)
            for each in found.healed[:MOST_BORN]
        )
        return mine.SpreadAnswer(
            found.step, found.executions, found.touched, found.known, births, len(found.births),
            heals, len(found.healed),
        )  # fmt: skip

    return await run.study.call(ask)
