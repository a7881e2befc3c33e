"""What if: a recorded value is another one, and what depends on it is run again.

Invariant: what the run recorded stays as it is; ops are run, never the program. What could not be
run again is listed with the reason.
"""

from __future__ import annotations

import itertools
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from nodescope.debug.edits import edited, told
from nodescope.debug.replay import Blocked, Book, Branch, Change, Replay
from nodescope.errors import RecordingError, ReplayError, UsageError
from nodescope.protocol import SetValue
from nodescope.record.branches import BranchRow, keep, kept
from nodescope.record.branches import drop as dropped
from nodescope.record.branches import rename as renamed
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from nodescope_server import wire_why as wire
from nodescope_server.branches import Kept, Shown, named
from nodescope_server.differences import elements, farthest
from nodescope_server.reasons import PATIENCE_S, book_of, node_at
from nodescope_server.runs import Run

T = TypeVar("T")

MOST_CHANGES = 400
MOST_BLOCKED = 60
MOST_SUMMARISED = 128 << 20
_OTHER = "Recomputed now, it differs from when it was made."


async def fork(run: Run, request: wire.Fork) -> wire.BranchAnswer:
    """Answer `wire.Fork`.

    Raises:
        NodescopeError: The edit does not fit, the value cannot be had, or the branch cannot be
            forked from.
    """
    await _read(run)
    if request.parent:
        run.branches.get(request.parent)
    label = named(request.name) if request.name.strip() else ""
    number = run.branches.next_id()
    line = run.branches.line(request.parent)

    def ask(recording: Recording) -> tuple[list[Kept], Kept]:
        book = book_of(run, recording)
        opened = _opened(book, line)
        seq = book.last_seq if request.seq is None else request.seq
        row = _Wish(number, label, request.parent, seq, request.edit, request.steps)
        return opened, _grown(book, row, opened[-1].branch if opened else None)

    opened, new = await run.study.call(ask)
    row = await _write(run, lambda path: keep(path, new.row))
    new = replace(new, row=row or new.row)
    for each in (*opened, new):
        run.branches.add(each)
    return _answer(new)


async def listed(run: Run) -> wire.BranchList:
    """Answer `wire.GetBranches`."""
    await _read(run)
    return run.branches.all()


async def detail(run: Run, number: int) -> wire.BranchAnswer:
    """Answer `wire.GetBranch`: computed again if it has to be. Raises `NodescopeError`."""
    await _read(run)
    found = run.branches.get(number)
    if found.shown is None:
        line = run.branches.line(number)
        opened = await run.study.call(lambda each: _opened(book_of(run, each), line))
        for each in opened:
            run.branches.add(each)
        found = opened[-1]
    return _answer(found)


async def rename(run: Run, number: int, name: str) -> wire.BranchList:
    """Answer `wire.RenameBranch`. Raises `NodescopeError`."""
    await _read(run)
    name = run.branches.rename(number, name)
    await _write(run, lambda path: renamed(path, number, name))
    return run.branches.all()


async def drop(run: Run, number: int) -> wire.BranchList:
    """Answer `wire.DropBranch`. Raises `NodescopeError`."""
    await _read(run)
    gone = run.branches.drop(number)
    await _write(run, lambda path: dropped(path, gone))
    return run.branches.all()


async def _read(run: Run) -> None:
    """Take in the branches that the recording holds, at the first time."""
    if run.branches.read:
        return
    try:
        rows = await run.study.call(kept)
    except RecordingError as error:
        rows = []
        run.branches.note(f"earlier branches: {error.message}")
    run.branches.take(rows)


async def _write(run: Run, change: Callable[[Path], T]) -> T | None:
    """Write to the recording; where that cannot be, branches live as long as the server."""
    try:
        return await run.study.call(lambda recording: change(recording.path))
    except RecordingError as error:
        run.branches.note(f"branches made here end with the server: {error.message}")
        return None


def _answer(found: Kept) -> wire.BranchAnswer:
    """A branch that was computed, as the page has it."""
    shown = found.shown
    assert shown is not None
    return wire.BranchAnswer(found.info, shown.changes, shown.unlisted, shown.blocked, shown.redone)


class _Wish(NamedTuple):
    """What a branch is to be: see `BranchRow`, and `wire.Fork` for ``steps``."""

    number: int
    name: str
    parent: int
    seq: int
    edit: SetValue
    steps: int | None = 0
    until: int = 0


def _opened(book: Book, line: list[Kept]) -> list[Kept]:
    """A line of branches with the arrays of the last one at hand; those that were computed."""
    start = next((at for at in reversed(range(len(line))) if line[at].branch is not None), 0)
    found: list[Kept] = []
    base: Branch | None = None
    for each in line[start:]:
        if each.branch is None or (each is line[-1] and each.shown is None):
            each = _again(book, each.row, base)
        base = each.branch
        found.append(each)
    return found


def _again(book: Book, row: BranchRow, base: Branch | None) -> Kept:
    """A branch, computed again from its recipe."""
    wish = _Wish(row.id, row.name, row.parent, row.at_seq, row.edit, until=row.until_seq)
    found = _grown(book, wish, base)
    assert found.shown is not None
    shown = found.shown
    if found.row.digest != row.digest:
        shown = replace(shown, redone=f"{_OTHER} {shown.redone}")
    return Kept(row, shown, found.branch)


def _grown(book: Book, wish: _Wish, base: Branch | None) -> Kept:
    edit, seq = wish.edit, wish.seq
    replay = Replay(book.recording, seq=seq, book=book, patience_s=PATIENCE_S)
    # What is computed again ends where it did: the recording may have grown within its last step.
    until = wish.until or max(_until(book, replay.step, wish.steps), seq)
    replay.last = seq
    if base is not None:
        last = book.step_of(base.until)
        if not base.step <= replay.step <= last:
            raise UsageError(
                f"this branch was run {_span(base.step, last)}, and the moment is in step "
                f"{replay.step}",
                hint="fork at a moment within those steps, or from the recording",
            )
        until = max(until, base.until)
        replay.branches[base.name] = base
    source = book.source(edit.value, seq + 1)
    name = book.values.get(edit.value, f"value {edit.value}")
    if source is None:
        raise ReplayError(f"{name} has not been computed at this moment")
    old = base.overlay.get((edit.value, source.seq)) if base is not None else None
    if old is None:
        old = replay.value(edit.value, seq).array
    branch = replay.fork(
        {edit.value: edited(old, edit)},
        name=str(wish.number),
        until=until,
        parent=base.name if base is not None else None,
    )
    computed = [each for each in branch.changes if not each.edited]
    words = told(edit, name)
    row = BranchRow(
        id=wish.number,
        parent=wish.parent,
        name=wish.name or words,
        step=branch.step,
        last_step=book.step_of(branch.until),
        at_seq=seq,
        until_seq=branch.until,
        made_unix_ns=time.time_ns(),
        how=words,
        edit=edit,
        node=source.execution.node,
        changed=len({(each.node, each.seq) for each in computed}),
        same=len(branch.same),
        blocked=len(branch.blocked),
        nbytes=sum(each.new.nbytes for each in branch.changes),
        digest=branch.digest(),
    )
    some = _first(branch.changes)
    step_of = _steps(book)
    shown = Shown(
        tuple(_changed(book, each, step_of(each.seq)) for each in some),
        len(branch.changes) - len(some),
        tuple(_blocked(book, each) for each in branch.blocked[:MOST_BLOCKED]),
        _redone(branch, book),
    )
    return Kept(row, shown, replace(branch, changes=(), blocked=(), same=()))


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
            f"Nothing recorded up to the end of step {last} depends on it; later steps were "
            "not re-run."
        )
    end = last >= book.last_step()
    later = "is as it was" if end else "and later steps, are as they were"
    comma = "" if end else ","
    return (
        f"Re-run {_span(branch.step, last)}: everything that depends on it, up to event "
        f"{branch.until:,}. What Python read from tensors and decided based on it{comma} "
        f"{later}."
    )


def _changed(book: Book, each: Change, step: int) -> wire.ChangedValue:
    node = node_at(book, each.seq)
    difference = each.difference
    at, largest = farthest(each.old, each.new)
    if at is None:
        at, largest = difference.at, None
    before, after = elements(each.old, each.new, at)
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
        before=before,
        after=after,
        edited=each.edited,
    )


def _blocked(book: Book, each: Blocked) -> wire.BlockedNode:
    return wire.BlockedNode(each.node, node_at(book, each.seq), each.seq, each.reason)
