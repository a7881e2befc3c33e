"""What if: a recorded value is another one, and what depends on it is run again.

Invariant: the recording stays as it is; ops are run, never the program. What could not be run again
is listed with the reason.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

from nodescope.debug.edits import edited, told
from nodescope.debug.replay import Blocked, Book, Branch, Change, Replay
from nodescope.errors import ReplayError, UsageError
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from nodescope_server import wire_why as wire
from nodescope_server.branches import MAX_BRANCHES, Kept, named
from nodescope_server.differences import element, farthest
from nodescope_server.reasons import PATIENCE_S, book_of, node_at
from nodescope_server.runs import Run

MOST_CHANGES = 400
MOST_BLOCKED = 60
MOST_SUMMARISED = 128 << 20


async def fork(run: Run, request: wire.Fork) -> wire.BranchAnswer:
    """Answer `wire.Fork`.

    Raises:
        NodescopeError: The edit does not fit, the value cannot be had, or the branch cannot be
            forked from.
    """
    parent = run.branches.get(request.parent) if request.parent else None
    if parent is not None and parent.branch is None:
        raise UsageError(f"{parent.info.name}: its arrays were too large to be kept",
                         hint="fork from what was recorded")  # fmt: skip
    if len(run.branches.line(request.parent)) >= MAX_BRANCHES - 1:
        raise UsageError("branches of branches end here", hint="fork from what was recorded")
    label = named(request.name) if request.name.strip() else ""
    number = run.branches.next_id()
    base = parent.branch if parent is not None else None

    def ask(recording: Recording) -> Kept:
        return _grown(book_of(run, recording), request, number, label, base)

    kept = run.branches.add(await run.study.call(ask))
    return answer(kept)


def answer(kept: Kept) -> wire.BranchAnswer:
    """A branch as the page has it."""
    return wire.BranchAnswer(kept.info, kept.changes, kept.unlisted, kept.blocked, kept.redone)


def _grown(book: Book, request: wire.Fork, number: int, label: str, base: Branch | None) -> Kept:
    edit = request.edit
    seq = book.last_seq if request.seq is None else request.seq
    replay = Replay(book.recording, seq=seq, book=book, patience_s=PATIENCE_S)
    until, replay.last = max(_until(book, replay.step, request.steps), seq), seq
    if base is not None:
        last = book.step_of(base.until)
        if not base.step <= replay.step <= last:
            raise UsageError(
                f"this branch was run {_span(base.step, last)}, and the moment is in step "
                f"{replay.step}",
                hint="fork at a moment of a step that it has, or from what was recorded",
            )
        until = max(until, base.until)
        replay.branches[base.name] = base
    writer = book.writer(edit.value, seq + 1)
    name = book.values.get(edit.value, f"value {edit.value}")
    if writer is None:
        raise ReplayError(f"{name} was not computed up to here")
    old = base.overlay.get((edit.value, writer.seq)) if base is not None else None
    if old is None:
        old = replay.value(edit.value, seq).array
    branch = replay.fork(
        {edit.value: edited(old, edit)},
        name=str(number),
        until=until,
        parent=base.name if base is not None else None,
    )
    computed = [each for each in branch.changes if not each.edited]
    words = told(edit, name)
    own = sum(each.new.nbytes for each in branch.changes)
    info = wire.BranchInfo(
        id=number,
        name=label or words,
        parent=request.parent,
        step=branch.step,
        last_step=book.step_of(branch.until),
        seq=seq,
        edit=words,
        node=writer.node,
        changed=len({(each.node, each.seq) for each in computed}),
        same=len(branch.same),
        blocked=len(branch.blocked),
        nbytes=own,
        forkable=True,
    )
    shown = _first(branch.changes)
    step_of = _steps(book)
    return Kept(
        info,
        tuple(_changed(book, each, step_of(each.seq)) for each in shown),
        len(branch.changes) - len(shown),
        tuple(_blocked(book, each) for each in branch.blocked[:MOST_BLOCKED]),
        _redone(branch, book),
        replace(branch, changes=(), blocked=(), same=()),
    )


def _first(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Those that are looked into: as many as are useful, in bytes as in number.

    Of too many, scalars come first: of several steps, they tell how it went on.
    """
    order = sorted(changes, key=lambda each: not each.edited and each.new.size > 1)
    sizes = itertools.accumulate(each.new.nbytes for each in order[:MOST_CHANGES])
    count = sum(1 for size in sizes if size <= MOST_SUMMARISED)
    chosen = {id(each) for each in order[: max(count, 1)]}
    return tuple(each for each in changes if id(each) in chosen)


def _until(book: Book, step: int, more: int | None) -> int:
    """The last seq of the training step that is so many further on, or of the last one."""
    last = book.last_step()
    wanted = last if more is None else min(step + max(more, 0), last)
    return book.step_range(max(wanted, step))[1]


def _steps(book: Book) -> Callable[[int], int]:
    """Gives the training step of a seq."""
    rows = sorted((row.start_seq, row.step) for row in book.recording.steps())
    starts = [start for start, _ in rows]
    return lambda seq: rows[at - 1][1] if (at := bisect_right(starts, seq)) else 0


def _span(first: int, last: int) -> str:
    return f"in step {first}" if first == last else f"from step {first} to {last}"


def _redone(branch: Branch, book: Book) -> str:
    last = book.step_of(branch.until)
    ran = len(branch.same) + len([each for each in branch.changes if not each.edited])
    if not ran and not branch.blocked:
        return (
            f"Nothing that was recorded up to the end of step {last} depends on it; what "
            "the program computes later was not run."
        )
    end = last >= book.last_step()
    later = "is as it was" if end else "and later steps, are as they were"
    comma = "" if end else ","
    return (
        f"Run again {_span(branch.step, last)}: what depends on it, up to seq {branch.until:,}. "
        f"What Python read from tensors and decided by it{comma} {later}."
    )


def _changed(book: Book, each: Change, step: int) -> wire.ChangedValue:
    node = node_at(book, each.seq)
    difference = each.difference
    at, largest = farthest(each.old, each.new)
    if at is None:
        at, largest = difference.at, None
    return wire.ChangedValue(
        name=book.values.get(each.value, each.node),
        node=node,
        value=each.value,
        seq=each.seq,
        step=step,
        phase=book.node(node, each.seq).phase if node else "other",
        old=summarise(each.old),
        new=summarise(each.new),
        differ=difference.count,
        size=difference.size,
        largest=largest,
        at=at,
        before=element(each.old, at),
        after=element(each.new, at),
        edited=each.edited,
    )


def _blocked(book: Book, each: Blocked) -> wire.BlockedNode:
    return wire.BlockedNode(each.node, node_at(book, each.seq), each.seq, each.reason)
