"""Branches of a run: what was tried, kept with names as a tree.

Invariant: bounded in number and bytes. The oldest branch that nothing was forked from makes room,
and `notes` says so; what is kept of a large branch are its numbers, not its arrays.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import msgspec

from nodescope.debug.replay import Branch
from nodescope.errors import ReplayError, UsageError
from nodescope_server import wire_why as wire

MAX_BRANCHES = 16
MAX_BYTES = 256 << 20
MAX_NAME = 60
_MOST_NOTES = 4


@dataclass(frozen=True)
class Kept:
    """A branch and the tables that are shown of it.

    Attributes:
        branch: Its arrays, to fork from; None if they were too large.
    """

    info: wire.BranchInfo
    changes: tuple[wire.ChangedValue, ...]
    unlisted: int
    blocked: tuple[wire.BlockedNode, ...]
    redone: str
    branch: Branch | None


class Branches:
    """The branches of one run; used by the event loop alone."""

    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}
        self._ids = itertools.count(1)
        self._notes: list[str] = []

    def all(self) -> wire.BranchList:
        """All of them, parents before what was forked from them."""
        return wire.BranchList(tuple(each.info for each in self._kept.values()), tuple(self._notes))

    def get(self, number: int) -> Kept:
        """One of them. Raises `ReplayError` if there is none."""
        found = self._kept.get(number)
        if found is None:
            raise ReplayError("this branch was thrown away", hint="see the list of branches")
        return found

    def next_id(self) -> int:
        """An id that was never used."""
        return next(self._ids)

    def line(self, number: int) -> list[int]:
        """A branch and those that it came from, back to what was recorded."""
        found = []
        while number in self._kept:
            found.append(number)
            number = self._kept[number].info.parent
        return found

    def add(self, new: Kept) -> Kept:
        """Keep a branch, and make room for it; what is kept of it."""
        self._kept[new.info.id] = new
        line = self.line(new.info.id)
        while len(self._kept) > MAX_BRANCHES or self._bytes() > MAX_BYTES:
            parents = {each.info.parent for each in self._kept.values()}
            free = [each for each in self._kept if each not in parents and each not in line]
            if not free:
                break
            gone = self._kept.pop(free[0])
            self._note(
                f"{gone.info.name} was thrown away: at most {MAX_BRANCHES} branches and "
                f"{MAX_BYTES >> 20} MiB are kept"
            )
        if self._bytes() > MAX_BYTES:
            self._note(
                f"{new.info.name}: its arrays take {new.info.nbytes >> 20} MiB and are not kept; "
                "its numbers are, but no branch can be forked from it"
            )
            info = msgspec.structs.replace(new.info, nbytes=0, forkable=False)
            self._kept[info.id] = new = replace(new, info=info, branch=None)
        return new

    def rename(self, number: int, name: str) -> None:
        """Raises `ReplayError` or `UsageError`: there is none, or the name is none."""
        found = self.get(number)
        info = msgspec.structs.replace(found.info, name=named(name))
        self._kept[number] = replace(found, info=info)

    def drop(self, number: int) -> None:
        """Throw one away, with those that were forked from it. Raises `ReplayError`."""
        gone = {self.get(number).info.id}
        for each in list(self._kept.values()):  # parents come before their children
            if each.info.id in gone or each.info.parent in gone:
                gone.add(each.info.id)
                del self._kept[each.info.id]

    def _bytes(self) -> int:
        return sum(each.info.nbytes for each in self._kept.values())

    def _note(self, text: str) -> None:
        self._notes = [*self._notes, text][-_MOST_NOTES:]


def named(name: str) -> str:
    """A name as it is kept. Raises `UsageError` if nothing is left of it."""
    found = " ".join(name.split())[:MAX_NAME]
    if not found:
        raise UsageError("a branch needs a name")
    return found
