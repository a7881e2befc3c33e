"""Branches of a run: what-if results, kept by name as a tree.

The recording stores each branch as a recipe. The arrays of the latest branches are in memory; those
of the others are recomputed on demand.

Invariant: bounded in number and bytes; only the user deletes branches.
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
    """The data shown for a computed branch: see `wire.BranchAnswer`."""

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
        shown: The data shown; None until computed by this server.
        branch: Its arrays, from which child branches start; None while not in memory.
    """

    row: BranchRow
    shown: ComputedBranch | None = None
    branch: Branch | None = None

    @property
    def info(self) -> wire.BranchInfo:
        """Its entry in the list."""
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
    """The branches of one run; used only by the event loop.

    Attributes:
        read: Whether those in the recording have been read.
    """

    def __init__(self) -> None:
        self.read = False
        self._kept: dict[int, KeptBranch] = {}
        self._last = 0
        self._notes: list[str] = []

    def all(self) -> wire.BranchList:
        """All branches, each after its parent."""
        return wire.BranchList(
            tuple(branch.info for branch in self._kept.values()), tuple(self._notes)
        )

    def take(self, rows: Iterable[BranchRow]) -> None:
        """Take in the recording's branches."""
        self.read = True
        for row in rows:
            self._kept.setdefault(row.id, KeptBranch(row))
            self._last = max(self._last, row.id)

    def get(self, number: int) -> KeptBranch:
        """A branch. Raises `ReplayError` if it does not exist."""
        branch = self._kept.get(number)
        if branch is None:
            raise ReplayError("this branch was deleted", hint="see the list of branches")
        return branch

    def next_id(self) -> int:
        """An id never used before. Raises `UsageError` if there are too many branches."""
        if len(self._kept) >= MAX_BRANCHES:
            raise UsageError(
                f"{MAX_BRANCHES} branches are kept at most",
                hint="delete one that is not needed",
            )
        self._last += 1
        return self._last

    def line(self, number: int) -> list[KeptBranch]:
        """A branch and its ancestors, beginning with the one that starts from the recorded run."""
        line: list[KeptBranch] = []
        while number in self._kept:
            line.append(self._kept[number])
            number = line[-1].row.parent
        return line[::-1]

    def add(self, new: KeptBranch) -> None:
        """Keep a branch, or its computed data; arrays of older branches are dropped if needed."""
        self._kept[new.row.id] = replace(new, row=self._named(new.row))
        self._last = max(self._last, new.row.id)
        held_branches = [branch for branch in self._kept.values() if branch.branch is not None]
        total = sum(branch.row.nbytes for branch in held_branches)
        # The newest is dropped last, even if it is larger than the whole limit.
        for branch in sorted(
            held_branches, key=lambda candidate: (candidate.row.id == new.row.id, candidate.row.id)
        ):
            if total <= MAX_BYTES:
                break
            total -= branch.row.nbytes
            self._kept[branch.row.id] = replace(branch, branch=None)

    def rename(self, number: int, name: str) -> str:
        """Rename a branch; return the name as stored. Raises `ReplayError` or `UsageError`."""
        branch = self.get(number)
        name = named(name)
        self._kept[number] = replace(branch, row=msgspec.structs.replace(branch.row, name=name))
        return name

    def drop(self, number: int) -> list[int]:
        """Delete a branch and its descendants; return their ids. Raises `ReplayError`."""
        dropped = [self.get(number).row.id]
        for kept_branch in list(self._kept.values()):  # parents come before their children
            if kept_branch.row.parent in dropped:
                dropped.append(kept_branch.row.id)
        for branch in dropped:
            del self._kept[branch]
        return dropped

    def note(self, text: str) -> None:
        """Add a remark to the list, once."""
        if text not in self._notes:
            self._notes = [*self._notes, text][-_MOST_NOTES:]

    def _named(self, row: BranchRow) -> BranchRow:
        before = self._kept.get(row.id)  # it may have been renamed while it was being recomputed
        return row if before is None else msgspec.structs.replace(row, name=before.row.name)


def named(name: str) -> str:
    """A name in its stored form. Raises `UsageError` if nothing is left of it."""
    label = " ".join(name.split())[:MAX_NAME]
    if not label:
        raise UsageError("a branch needs a name")
    return label
