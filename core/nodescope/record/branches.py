"""Branches of a run, stored in its recording as recipes.

A recording that is not this user's own (`ours`) is never written: its branches are stored in a file
in the user's own folder, identified by the run that the recording names.

A recipe is the edit, where it was made, and how far its dependents were rerun. The branch is
recomputed from it whenever it is viewed; a digest shows whether the result is the same.

Invariant: nothing that the run recorded is changed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from nodescope.errors import RecordingError
from nodescope.protocol import RunInfo, SetValue
from nodescope.record.files.connection_limits import guard
from nodescope.record.files.ownership import beside, in_place, open_here, remember, state_folder
from nodescope.record.files.page_checksums import seal
from nodescope.record.files.schema_check import objection
from nodescope.record.recording import Recording
from nodescope.record.schema import BRANCH
from nodescope.record.validate import check_head

T = TypeVar("T")

_PATIENCE_S = 2.0
# The seal of a larger file is not renewed: keeping a branch would take too long.
_SEALED_BYTES = 64 << 20


class BranchRow(msgspec.Struct, frozen=True):
    """A stored branch.

    Attributes:
        id: Positive.
        parent: Id of the branch from which this one starts; 0 for the recorded run.
        step, at_seq: The moment at which it starts.
        last_step, until_seq: How far the dependents of the edit were rerun.
        made_unix_ns: Time of creation.
        how: Description of the edit.
        edit: The edit itself.
        node: Id of the node whose value was changed.
        changed, same, blocked: Numbers of nodes whose results changed, stayed bit-identical, and
            that could not be rerun.
        nbytes: Size of the arrays that changed.
        digest: Digest of these arrays.
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


def read_branches(recording: Recording) -> list[BranchRow]:
    """The branches of a run, each after its parent.

    Raises:
        RecordingError: The recording is damaged.
    """
    rows: dict[int, BranchRow] = {}
    try:
        for name, data in recording.branches():
            row = msgspec.structs.replace(_decode(data), name=name)
            rows[row.id] = row
        for number, name, data in _read(recording.run()):
            if data:
                rows[number] = msgspec.structs.replace(_decode(data), name=name)
            else:
                rows.pop(number, None)
    except msgspec.MsgspecError as error:
        raise RecordingError(
            f"{recording.path}: a branch cannot be read ({error})", hint="the file is damaged"
        ) from error
    return sorted(rows.values(), key=lambda row: row.id)


def keep(path: Path, row: BranchRow) -> BranchRow:
    """Store a branch of a recording, whether or not its program is still writing it.

    Concurrent readers of the file are not disturbed: pages of other tables never move.

    Returns:
        The branch as stored: with a new id if another server has taken the given one.

    Raises:
        RecordingError: The branch cannot be written.
    """

    def insert(database: sqlite3.Connection, recorded: list[BranchRow]) -> BranchRow:
        used = {number for (number,) in database.execute("SELECT id FROM branch")}
        used.update(other.id for other in recorded)
        free = msgspec.structs.replace(row, id=max(used) + 1) if row.id in used else row
        _insert(database, free)
        return free

    return _write(path, insert)


def rename(path: Path, number: int, name: str) -> None:
    """Rename a branch. Raises `RecordingError`."""

    def change(database: sqlite3.Connection, recorded: list[BranchRow]) -> None:
        statement = "UPDATE branch SET name=? WHERE id=?"
        if not database.execute(statement, (name, number)).rowcount:
            for other in recorded:
                if other.id == number:
                    _insert(database, msgspec.structs.replace(other, name=name))

    _write(path, change)


def drop(path: Path, numbers: Iterable[int]) -> None:
    """Delete branches. Raises `RecordingError`."""
    dropped = set(numbers)

    def change(database: sqlite3.Connection, recorded: list[BranchRow]) -> None:
        database.executemany("DELETE FROM branch WHERE id=?", [(number,) for number in dropped])
        for other in recorded:
            if other.id in dropped:
                _insert(database, other, data=b"")

    _write(path, change)


def _insert(database: sqlite3.Connection, row: BranchRow, data: bytes | None = None) -> None:
    columns = (row.id, row.parent, row.name, row.step, row.at_seq, row.how)
    content = _encode(row) if data is None else data
    database.execute("INSERT INTO branch VALUES (?,?,?,?,?,?,?)", (*columns, content))


def _own(run: RunInfo) -> Path:
    """This user's own file for the branches of a run; it may not exist."""
    identity = repr((run.id, run.name, run.pid, run.started_unix_ns)).encode("utf-8", "replace")
    digest = hashlib.blake2b(identity, digest_size=16).hexdigest()
    return state_folder() / "branches" / f"{digest}.db"


def _read(run: RunInfo) -> list[tuple[int, str, bytes]]:
    """The branches of a run in this user's own file; none if there is no folder for it."""
    try:
        own_file = _own(run)
        if not own_file.is_file():
            return []
    except (OSError, RuntimeError):
        return []
    try:
        database = sqlite3.connect(f"{own_file.absolute().as_uri()}?mode=ro", uri=True, timeout=2.0)
        try:
            with guard(database):
                rows: list[tuple[int, str, bytes]] = database.execute(
                    "SELECT id, name, data FROM branch ORDER BY id"
                ).fetchall()
            return rows
        finally:
            database.close()
    except sqlite3.Error as error:
        raise RecordingError(f"{own_file} cannot be read ({error})") from error


def _write(path: Path, change: Callable[[sqlite3.Connection, list[BranchRow]], T]) -> T:
    """Run ``change(database, others)`` on this user's file; ``others`` are the recording's
    branches.
    """
    real = Path(os.path.realpath(path))
    recorded: list[BranchRow] = []
    ours = in_place(real)
    if not ours:
        with Recording.open(path) as recording:
            run = recording.run()
            for name, data in recording.branches():
                try:
                    recorded.append(msgspec.structs.replace(_decode(data), name=name))
                except msgspec.MsgspecError:
                    continue  # `read_branches` reports it
        try:
            target, mode = _own(run), "rwc"
        except RuntimeError as error:  # no home folder
            raise RecordingError(
                f"a branch of {path} cannot be kept: {error}",
                hint="set XDG_STATE_HOME to a writable folder",
            ) from error
    else:
        if not open_here(real):
            check_head(real)
        target, mode = real, "rw"
    try:
        if not ours:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        uri = f"{target.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE_S)
        try:
            with guard(database):
                fault = objection(database)
                if fault:
                    raise RecordingError(f"{target} is not a nodescope recording: {fault}")
                database.execute("BEGIN IMMEDIATE")
                database.execute(BRANCH)
                result = change(database, recorded)
                database.execute("COMMIT")
        finally:
            database.close()
    except (sqlite3.Error, OSError) as error:
        raise RecordingError(
            f"{target} cannot be written ({error})",
            hint="copy the recording to a writable folder, and open the copy"
            if ours
            else "branches of a recording from elsewhere are kept there",
        ) from error
    if ours and not os.path.lexists(beside(real, "-wal")):
        if not open_here(real) and real.stat().st_size <= _SEALED_BYTES:
            seal(real)
        remember(real)
    return result
