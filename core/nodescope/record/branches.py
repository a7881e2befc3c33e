"""Branches: what was tried on a run, kept in its recording as what it is.

A branch is kept as its recipe: the edit, where it was made, and how far its dependents were run
again. From that it is computed again whenever it is looked at; a digest says whether it came out
as it did.

Invariant: nothing of what the run recorded is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from nodescope.errors import RecordingError
from nodescope.protocol import SetValue
from nodescope.record.opening import check_head
from nodescope.record.recording import Recording
from nodescope.record.schema import BRANCH

T = TypeVar("T")

_PATIENCE_S = 2.0


class BranchRow(msgspec.Struct, frozen=True):
    """A branch as it is kept.

    Attributes:
        id: Positive.
        parent: Id of the branch that it was forked from; 0 for what was recorded.
        step, at_seq: The moment at which it was forked.
        last_step, until_seq: How far what depends on the edit was run again.
        made_unix_ns: When.
        how: The edit in words.
        edit: The edit itself.
        node: Id of the node whose value was changed.
        changed, same, blocked: Nodes that gave something else, the same bits as before, and that
            could not be run again.
        nbytes: Of the arrays that were others.
        digest: Of these arrays.
    """

    id: int
    parent: int
    name: str
    step: int
    last_step: int
    at_seq: int
    until_seq: int
    made_unix_ns: int
    how: str
    edit: SetValue
    node: int
    changed: int
    same: int
    blocked: int
    nbytes: int
    digest: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BranchRow).decode


def kept(recording: Recording) -> list[BranchRow]:
    """The branches of a run, parents before what was forked from them.

    Raises:
        RecordingError: The recording is damaged.
    """
    try:
        return [
            msgspec.structs.replace(_decode(data), name=name) for name, data in recording.branches()
        ]
    except msgspec.MsgspecError as error:
        raise RecordingError(
            f"{recording.path}: a branch cannot be read ({error})", hint="the file is damaged"
        ) from error


def keep(path: Path, row: BranchRow) -> BranchRow:
    """Keep a branch in a recording, whether its program still writes it or not.

    Whoever reads the file meanwhile is not disturbed: pages of other tables never move.

    Returns:
        The branch as it is kept: with a free id, if another server took its own meanwhile.

    Raises:
        RecordingError: The file cannot be written.
    """

    def insert(database: sqlite3.Connection) -> BranchRow:
        taken = "SELECT max(id), max(id = ?) FROM branch"
        last, there = database.execute(taken, (row.id,)).fetchone()
        found = msgspec.structs.replace(row, id=last + 1) if there else row
        columns = (found.id, found.parent, found.name, found.step, found.at_seq, found.how)
        database.execute("INSERT INTO branch VALUES (?,?,?,?,?,?,?)", (*columns, _encode(found)))
        return found

    return _write(path, insert)


def rename(path: Path, number: int, name: str) -> None:
    """Give a branch another name. Raises `RecordingError`."""
    statement = "UPDATE branch SET name=? WHERE id=?"
    _write(path, lambda database: database.execute(statement, (name, number)))


def drop(path: Path, numbers: Iterable[int]) -> None:
    """Throw branches away. Raises `RecordingError`."""
    rows = [(each,) for each in numbers]
    _write(path, lambda database: database.executemany("DELETE FROM branch WHERE id=?", rows))


def _write(path: Path, change: Callable[[sqlite3.Connection], T]) -> T:
    check_head(path)
    try:
        uri = f"{path.absolute().as_uri()}?mode=rw"
        database = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE_S)
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute(BRANCH)
            found = change(database)
            database.execute("COMMIT")
            return found
        finally:
            database.close()
    except sqlite3.Error as error:
        raise RecordingError(
            f"{path} cannot be written ({error})",
            hint="copy it to a place that can be written, and open the copy",
        ) from error
