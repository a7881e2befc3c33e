"""What if: a recorded value is another one, and what depends on it is run again.

Invariant: the recording stays as it is; ops are run, never the program. What could not be run again
is listed with the reason.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from nodescope.debug.edits import edited, told
from nodescope.debug.replay import Blocked, Book, Branch, Change, Replay
from nodescope.debug.why.births import told as number
from nodescope.errors import ReplayError, UsageError
from nodescope.events import Array
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from nodescope_server import wire_why as wire
from nodescope_server.branches import MAX_BRANCHES, Kept, named
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
    until, replay.last = replay.book.step_range(replay.step)[1], seq
    if base is not None:
        if base.step != replay.step:
            raise UsageError(
                f"this branch was forked in step {base.step}, and the moment is in step "
                f"{replay.step}",
                hint="fork at a moment of the same step, or from what was recorded",
            )
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
        until=max(until, seq),
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
    return Kept(
        info,
        tuple(_changed(book, each) for each in shown),
        len(branch.changes) - len(shown),
        tuple(_blocked(book, each) for each in branch.blocked[:MOST_BLOCKED]),
        _redone(branch, seq),
        replace(branch, changes=(), blocked=(), same=()),
    )


def _first(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Those that are looked into: as many as are useful, in bytes as in number."""
    sizes = itertools.accumulate(each.new.nbytes for each in changes[:MOST_CHANGES])
    count = sum(1 for size in sizes if size <= MOST_SUMMARISED)
    return changes[: max(count, 1)]


def _redone(branch: Branch, seq: int) -> str:
    ran = len(branch.same) + len([each for each in branch.changes if not each.edited])
    if not ran and not branch.blocked:
        return (
            f"Nothing that was recorded up to the end of step {branch.step} depends on it; what "
            "the program computes later was not run."
        )
    return (
        f"Run again: what depends on it, up to seq {branch.until:,} of step {branch.step}. What "
        "Python read from tensors and decided by it, and later steps, are as they were."
    )


def _changed(book: Book, each: Change) -> wire.ChangedValue:
    node = node_at(book, each.seq)
    difference = each.difference
    at, largest = _farthest(each.old, each.new)
    if at is None:
        at, largest = difference.at, None
    return wire.ChangedValue(
        name=book.values.get(each.value, each.node),
        node=node,
        value=each.value,
        seq=each.seq,
        phase=book.node(node, each.seq).phase if node else "other",
        old=summarise(each.old),
        new=summarise(each.new),
        differ=difference.count,
        size=difference.size,
        largest=largest,
        at=at,
        before=_element(each.old, at),
        after=_element(each.new, at),
        edited=each.edited,
    )


def _element(array: Array, at: tuple[int, ...]) -> str:
    return number(array[at].item()) if len(at) == array.ndim and array.size else ""


def _farthest(one: Array, other: Array) -> tuple[tuple[int, ...] | None, float | None]:
    """The element with the largest finite difference, and that."""
    if one.shape != other.shape or one.dtype.kind not in "fciub" or not one.size:
        return None, None
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        gaps = np.abs(np.subtract(one, other, dtype=wide, casting="unsafe"))
    finite = np.isfinite(gaps)
    if not finite.any():
        return None, None
    position = int(np.argmax(np.where(finite, gaps, -1.0)))
    at = tuple(int(each) for each in np.unravel_index(position, one.shape))
    largest = float(gaps[at])
    return (at, largest) if largest > 0 else (None, None)


def _blocked(book: Book, each: Blocked) -> wire.BlockedNode:
    return wire.BlockedNode(each.node, node_at(book, each.seq), each.seq, each.reason)
