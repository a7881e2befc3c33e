"""Branches of a run: what was tried, kept with names as a tree.

Each is kept in the recording as its recipe; the arrays of the latest ones are at hand, those of the
others are computed again when they are asked for.

Invariant: bounded in number and bytes; nothing is thrown away but by a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from nodescope.debug.replay import Branch
from nodescope.errors import ReplayError, UsageError
from nodescope.record.branches import BranchRow
from nodescope_server.wire import why_messages as wire

MAX_BRANCHES = 64
MAX_BYTES = 256 << 20
MAX_NAME = 60
_MOST_NOTES = 4


@dataclass(frozen=True)
class ComputedBranch:
    """What is shown of a branch that was computed: see `wire.BranchAnswer`."""

    changes: tuple[wire.ChangedValue, ...]
    unlisted: int
    blocked: tuple[wire.BlockedNode, ...]
    redone: str
    changed_values: tuple[tuple[int, int], ...]
    blocked_nodes: tuple[int, ...]


@dataclass(frozen=True)
class KeptBranch:
    """A branch.

    Attributes:
        row: Its recipe.
        shown: None until it was computed here.
        branch: Its arrays, to fork from; None while they are not at hand.
    """

    row: BranchRow
    shown: ComputedBranch | None = None
    branch: Branch | None = None

    @property
    def info(self) -> wire.BranchInfo:
        """As it is listed."""
        row = self.row
        return wire.BranchInfo(
            id=row.id,
            name=row.name,
            parent=row.parent,
            step=row.step,
            last_step=row.last_step,
            seq=row.at_seq,
            edit=row.how,
            node=row.node,
            changed=row.changed,
            same=row.same,
            blocked=row.blocked,
            nbytes=row.nbytes,
        )


class Branches:
    """The branches of one run; used by the event loop alone.

    Attributes:
        read: Whether those in the recording were taken in.
    """

    def __init__(self) -> None:
        self.read = False
        self._kept: dict[int, KeptBranch] = {}
        self._last = 0
        self._notes: list[str] = []

    def all(self) -> wire.BranchList:
        """All of them, parents before what was forked from them."""
        return wire.BranchList(
            tuple(branch.info for branch in self._kept.values()), tuple(self._notes)
        )

    def take(self, rows: Iterable[BranchRow]) -> None:
        """Take in what the recording holds."""
        self.read = True
        for row in rows:
            self._kept.setdefault(row.id, KeptBranch(row))
            self._last = max(self._last, row.id)

    def get(self, number: int) -> KeptBranch:
        """One of them. Raises `ReplayError` if there is none."""
        branch = self._kept.get(number)
        if branch is None:
            raise ReplayError("this branch was deleted", hint="see the list of branches")
        return branch

    def next_id(self) -> int:
        """An id that was never used here. Raises `UsageError` if there are too many branches."""
        if len(self._kept) >= MAX_BRANCHES:
            raise UsageError(
                f"{MAX_BRANCHES} branches are kept at most",
                hint="delete one that is not needed",
            )
        self._last += 1
        return self._last

    def line(self, number: int) -> list[KeptBranch]:
        """A branch and those that it came from, the one forked from what was recorded first."""
        line: list[KeptBranch] = []
        while number in self._kept:
            line.append(self._kept[number])
            number = line[-1].row.parent
        return line[::-1]

    def add(self, new: KeptBranch) -> None:
        """Keep a branch, or what was computed of it; the arrays of older ones make room."""
        self._kept[new.row.id] = replace(new, row=self._named(new.row))
        self._last = max(self._last, new.row.id)
        held_branches = [branch for branch in self._kept.values() if branch.branch is not None]
        total = sum(branch.row.nbytes for branch in held_branches)
        # What was just made goes last, even if it is larger than all that may be held.
        for branch in sorted(
            held_branches, key=lambda candidate: (candidate.row.id == new.row.id, candidate.row.id)
        ):
            if total <= MAX_BYTES:
                break
            total -= branch.row.nbytes
            self._kept[branch.row.id] = replace(branch, branch=None)

    def rename(self, number: int, name: str) -> str:
        """The name as it is kept. Raises `ReplayError` or `UsageError`: there is none."""
        branch = self.get(number)
        name = named(name)
        self._kept[number] = replace(branch, row=msgspec.structs.replace(branch.row, name=name))
        return name

    def drop(self, number: int) -> list[int]:
        """Throw one away, with those that were forked from it; their ids. Raises `ReplayError`."""
        dropped = [self.get(number).row.id]
        for kept_branch in list(self._kept.values()):  # parents come before their children
            if kept_branch.row.parent in dropped:
                dropped.append(kept_branch.row.id)
        for branch in dropped:
            del self._kept[branch]
        return dropped

    def note(self, text: str) -> None:
        """Say something beside the list, once."""
        if text not in self._notes:
            self._notes = [*self._notes, text][-_MOST_NOTES:]

    def _named(self, row: BranchRow) -> BranchRow:
        before = self._kept.get(row.id)  # it may have been renamed while it was computed again
        return row if before is None else msgspec.structs.replace(row, name=before.row.name)


def named(name: str) -> str:
    """A name as it is kept. Raises `UsageError` if nothing is left of it."""
    label = " ".join(name.split())[:MAX_NAME]
    if not label:
        raise UsageError("a branch needs a name")
    return label
