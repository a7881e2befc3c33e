"""What-if: a recorded value is replaced, and its dependents are rerun.

Invariant: the recorded run is not changed; ops are run, never the program. Nodes that could not be
rerun are listed with the reason.
"""

from __future__ import annotations

import itertools
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from nodescope.debug.edits.apply import describe_edit, edited
from nodescope.debug.replay import Blocked, Branch, ChangedValue, ExecutionIndex, Replay
from nodescope.errors import RecordingError, ReplayError, UsageError
from nodescope.events import Array
from nodescope.protocol import SetValue
from nodescope.record.branches import BranchRow, keep, read_branches
from nodescope.record.branches import drop as dropped
from nodescope.record.branches import rename as renamed
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from nodescope_server.handlers.array_diff import elements, farthest
from nodescope_server.handlers.why import PATIENCE_S, book_of, node_at, why_answer
from nodescope_server.runs.branches import ComputedBranch, KeptBranch, named
from nodescope_server.runs.runs import Run
from nodescope_server.wire import why_messages as wire

T = TypeVar("T")

MOST_CHANGES = 400
MOST_BLOCKED = 60
MOST_SUMMARISED = 128 << 20
_OTHER = "Recomputed now, it differs from when it was made."


async def make_branch(run: Run, request: wire.WhatIf) -> wire.BranchAnswer:
    """Answer `wire.WhatIf`.

    Raises:
        NodescopeError: The edit is invalid, the value is unavailable, or the branch cannot be
            made.
    """
    await _read(run)
    if request.parent:
        run.branches.get(request.parent)
    label = named(request.name) if request.name.strip() else ""
    number = run.branches.next_id()
    line = run.branches.line(request.parent)

    def ask(recording: Recording) -> tuple[list[KeptBranch], KeptBranch]:
        book = book_of(run, recording)
        opened = _opened(book, line)
        seq = book.last_seq if request.seq is None else request.seq
        row = _Wish(number, label, request.parent, seq, request.edit, request.steps)
        return opened, _grown(book, row, opened[-1].branch if opened else None)

    opened, new = await run.study.call(ask)
    row = await _write(run, lambda path: keep(path, new.row))
    new = replace(new, row=row or new.row)
    for branch in (*opened, new):
        run.branches.add(branch)
    return _answer(new)


async def value_in(run: Run, number: int, value: int, seq: int | None) -> BranchValue | None:
    """A value as of a moment in a branch; None if the branch does not change it.

    Raises:
        NodescopeError: The branch was deleted, or cannot be computed again.
    """

    def ask(recording: Recording, branch: Branch | None) -> BranchValue | None:
        book = book_of(run, recording)
        source = book.source(value, (book.last_seq if seq is None else seq) + 1)
        if branch is None or source is None:
            return None
        key = (value, source.seq)
        array, stuck = branch.overlay.get(key), branch.stuck.get(key, "")
        if array is None and not stuck:
            return None
        return BranchValue(source.seq, source.execution.step, array, stuck)

    return await _ask_in(run, number, ask)


async def why_in(run: Run, request: wire.AskWhy) -> wire.WhyAnswer:
    """Answer `wire.AskWhy` about a branch.

    Raises:
        NodescopeError: As `why`; the branch was deleted, or cannot be computed again.
    """
    return await _ask_in(
        run,
        request.branch,
        lambda recording, branch: why_answer(run, recording, request, branch),
    )


async def _ask_in(run: Run, number: int, question: Callable[[Recording, Branch | None], T]) -> T:
    """Ask about a branch, which is computed again if necessary. Raises `NodescopeError`."""
    await _read(run)
    run.branches.get(number)
    line = run.branches.line(number)

    def ask(recording: Recording) -> tuple[list[KeptBranch], T]:
        opened = _opened(book_of(run, recording), line)
        return opened, question(recording, opened[-1].branch)

    opened, answer = await run.study.call(ask)
    for branch in opened:
        run.branches.add(branch)
    return answer


async def listed(run: Run) -> wire.BranchList:
    """Answer `wire.GetBranches`."""
    await _read(run)
    return run.branches.all()


async def detail(run: Run, number: int) -> wire.BranchAnswer:
    """Answer `wire.GetBranch`, recomputing it if necessary. Raises `NodescopeError`."""
    await _read(run)
    branch = run.branches.get(number)
    if branch.shown is None:
        line = run.branches.line(number)
        opened = await run.study.call(lambda recording: _opened(book_of(run, recording), line))
        for branch in opened:
            run.branches.add(branch)
        branch = opened[-1]
    return _answer(branch)


async def rename(run: Run, number: int, name: str) -> wire.BranchList:
    """Answer `wire.RenameBranch`. Raises `NodescopeError`."""
    await _read(run)
    name = run.branches.rename(number, name)
    await _write(run, lambda path: renamed(path, number, name))
    return run.branches.all()


async def drop(run: Run, number: int) -> wire.BranchList:
    """Answer `wire.DropBranch`. Raises `NodescopeError`."""
    await _read(run)
    dropped_ids = run.branches.drop(number)
    await _write(run, lambda path: dropped(path, dropped_ids))
    return run.branches.all()


async def _read(run: Run) -> None:
    """Read the recording's branches on first use."""
    if run.branches.read:
        return
    try:
        rows = await run.study.call(read_branches)
    except RecordingError as error:
        rows = []
        run.branches.note(f"earlier branches: {error.message}")
    run.branches.take(rows)


async def _write(run: Run, change: Callable[[Path], T]) -> T | None:
    """Write to the recording; if that fails, branches last as long as the server."""
    try:
        return await run.study.call(lambda recording: change(recording.path))
    except RecordingError as error:
        run.branches.note(f"branches made here end with the server: {error.message}")
        return None


def _answer(branch: KeptBranch) -> wire.BranchAnswer:
    """The answer for a computed branch."""
    computed = branch.shown
    assert computed is not None
    return wire.BranchAnswer(
        branch.info,
        computed.changes,
        computed.unlisted,
        computed.blocked,
        computed.redone,
        computed.changed_values,
        computed.blocked_nodes,
    )


class BranchValue(NamedTuple):
    """A value that differs in a branch.

    Attributes:
        seq, step: The recorded execution that the branch recomputed.
        array: None if it could not be computed; ``stuck`` says why.
    """

    seq: int
    step: int
    array: Array | None
    stuck: str


class _Wish(NamedTuple):
    """The specification of a branch: see `BranchRow`, and `wire.WhatIf` for ``steps``."""

    number: int
    name: str
    parent: int
    seq: int
    edit: SetValue
    steps: int | None = 0
    until: int = 0


def _opened(book: ExecutionIndex, line: list[KeptBranch]) -> list[KeptBranch]:
    """Recompute a line of branches so that the last one has its arrays; return the computed
    ones.
    """
    start = next((at for at in reversed(range(len(line))) if line[at].branch is not None), 0)
    branches: list[KeptBranch] = []
    base: Branch | None = None
    for kept_branch in line[start:]:
        if kept_branch.branch is None or (kept_branch is line[-1] and kept_branch.shown is None):
            kept_branch = _again(book, kept_branch.row, base)
        base = kept_branch.branch
        branches.append(kept_branch)
    return branches


def _again(book: ExecutionIndex, row: BranchRow, base: Branch | None) -> KeptBranch:
    """A branch recomputed from its recipe."""
    wish = _Wish(row.id, row.name, row.parent, row.at_seq, row.edit, until=row.until_seq)
    grown = _grown(book, wish, base)
    assert grown.shown is not None
    answer = grown.shown
    if grown.row.digest != row.digest:
        answer = replace(answer, redone=f"{_OTHER} {answer.redone}")
    return KeptBranch(row, answer, grown.branch)


def _grown(book: ExecutionIndex, wish: _Wish, base: Branch | None) -> KeptBranch:
    edit, seq = wish.edit, wish.seq
    replay = Replay(book.recording, seq=seq, book=book, patience_s=PATIENCE_S)
    # A recomputed branch ends where it first ended, even if the recording has grown since then.
    until = wish.until or max(_until(book, replay.step, wish.steps), seq)
    replay.last = seq
    if base is not None:
        last = book.step_of(base.until)
        if not base.step <= replay.step <= last:
            raise UsageError(
                f"this branch was run {_span(base.step, last)}, and the moment is in step "
                f"{replay.step}",
                hint="start at a moment within those steps, or from the recording",
            )
        until = max(until, base.until)
        replay.branches[base.name] = base
    source = book.source(edit.value, seq + 1)
    name = book.values.get(edit.value, f"value {edit.value}")
    if source is None:
        raise ReplayError(f"{name} has not been computed yet at this point")
    old = base.overlay.get((edit.value, source.seq)) if base is not None else None
    if old is None:
        old = replay.value(edit.value, seq).array
    branch = replay.what_if(
        {edit.value: edited(old, edit)},
        name=str(wish.number),
        until=until,
        parent=base.name if base is not None else None,
    )
    computed = [change for change in branch.changes if not change.edited]
    words = describe_edit(edit, name)
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
        changed=len({(change.node, change.seq) for change in computed}),
        same=len(branch.same),
        blocked=len(branch.blocked),
        nbytes=sum(change.new.nbytes for change in branch.changes),
        digest=branch.digest(),
    )
    first_changes = _first(branch.changes)
    step_of = _steps(book)
    answer = ComputedBranch(
        tuple(_changed(book, change, step_of(change.seq)) for change in first_changes),
        len(branch.changes) - len(first_changes),
        tuple(_blocked(book, node) for node in branch.blocked[:MOST_BLOCKED]),
        _redone(branch, book),
        _changed_values(book, branch.changes),
        _blocked_nodes(book, branch.blocked),
    )
    return KeptBranch(row, answer, replace(branch, changes=(), blocked=(), same=()))


def _first(changes: tuple[ChangedValue, ...]) -> tuple[ChangedValue, ...]:
    """The changes to show: limited in number and bytes.

    If there are too many, scalars come first, because they show how the run develops over steps.
    """
    order = sorted(changes, key=lambda change: not change.edited and change.new.size > 1)
    sizes = itertools.accumulate(change.new.nbytes for change in order[:MOST_CHANGES])
    count = sum(1 for size in sizes if size <= MOST_SUMMARISED)
    chosen = {id(change) for change in order[: max(count, 1)]}
    return tuple(change for change in changes if id(change) in chosen)


def _changed_values(
    book: ExecutionIndex, changes: tuple[ChangedValue, ...]
) -> tuple[tuple[int, int], ...]:
    """Node and value of all changes, each pair once, whatever the step.

    A value that was set to the same bits does not count as a change.
    """
    seqs = {
        (change.node, change.value): change.seq
        for change in changes
        if not change.edited or change.difference.count or change.difference.note
    }
    return tuple((node_at(book, seq), value) for (_, value), seq in seqs.items())


def _blocked_nodes(book: ExecutionIndex, blocked: tuple[Blocked, ...]) -> tuple[int, ...]:
    """All nodes that could not be rerun, each once."""
    seqs = {node.node: node.seq for node in blocked}
    return tuple(node_at(book, seq) for seq in seqs.values())


def _until(book: ExecutionIndex, step: int, further_steps: int | None) -> int:
    """The last seq of the training step ``further_steps`` later, or of the last one."""
    last = book.last_step()
    last_wanted = last if further_steps is None else min(step + max(further_steps, 0), last)
    return book.step_range(max(last_wanted, step))[1]


def _steps(book: ExecutionIndex) -> Callable[[int], int]:
    """A function that returns the training step of a seq."""
    rows = sorted((row.start_seq, row.step) for row in book.recording.steps())
    starts = [start for start, _ in rows]
    return lambda seq: rows[at - 1][1] if (at := bisect_right(starts, seq)) else 0


def _span(first: int, last: int) -> str:
    return f"in step {first}" if first == last else f"from step {first} to {last}"


def _redone(branch: Branch, book: ExecutionIndex) -> str:
    last = book.step_of(branch.until)
    ran = len(branch.same) + len([change for change in branch.changes if not change.edited])
    if not ran and not branch.blocked:
        if _runs_on(book, last):
            return (
                f"Nothing that has run so far in step {last} depends on it. Apply changes the "
                "program itself; or continue, and try again once the nodes after it have run."
            )
        return (
            f"Nothing recorded up to the end of step {last} depends on it; later steps were "
            "not re-run."
        )
    end = last >= book.last_step()
    later = "stay" if end else "and later steps, stay"
    comma = "" if end else ","
    return (
        f"Re-ran everything that depends on it {_span(branch.step, last)}, up to event "
        f"{branch.until:,}. Numbers that Python read from tensors, and decisions based on "
        f"them{comma} {later} as recorded."
    )


def _runs_on(book: ExecutionIndex, step: int) -> bool:
    """Whether a step is still open, so that more of its nodes may run."""
    recording = book.recording
    row = next((row for row in recording.steps() if row.step == step), None)
    return recording.run().status is None and (row is None or row.end_seq is None)


def _changed(book: ExecutionIndex, change: ChangedValue, step: int) -> wire.ChangedValue:
    node = node_at(book, change.seq)
    difference = change.difference
    at, largest = farthest(change.old, change.new)
    if at is None:
        at, largest = difference.at, None
    before, after = elements(change.old, change.new, at)
    return wire.ChangedValue(
        name=book.values.get(change.value, change.node),
        node=node,
        value=change.value,
        seq=change.seq,
        step=step,
        phase=book.node(node, change.seq).phase if node else "other",
        old=summarise(change.old),
        new=summarise(change.new),
        differ=difference.count,
        size=difference.size,
        largest=largest,
        at=at,
        before=before,
        after=after,
        edited=change.edited,
    )


def _blocked(book: ExecutionIndex, node: Blocked) -> wire.BlockedNode:
    return wire.BlockedNode(node.node, node_at(book, node.seq), node.seq, node.reason)
