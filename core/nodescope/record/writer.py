"""Writer: the one connection that writes and checkpoints a recording.

A busy program holds the interpreter lock, and SQLite's module releases it at every statement; each
time it may take milliseconds to get it back. So rows are written in few, long statements.

Invariant: used by one thread at a time. A batch is written whole or not at all, and structure is
written before anything that refers to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from nodescope.console_output import printable
from nodescope.errors import RecordingError
from nodescope.record.files.descriptors import Held, held, high, intact
from nodescope.record.files.disk_space import Reserve
from nodescope.record.files.ownership import (
    beside,
    end_writing,
    open_here,
    release,
    remember,
    vouch,
)
from nodescope.record.files.page_checksums import seal
from nodescope.record.kept.stored_arrays import StoredArrays
from nodescope.record.new_file import HINT, LARGE_PAGE_BYTES, PAGE_BYTES, begin, connect, create
from nodescope.record.rows import HAS_SUMMARY, UNWRITTEN, WANTED, Dropped
from nodescope.record.timed import packing
from nodescope.record.timed.collected import unpacked

# A log longer than this is merged into the file and then overwritten from its start. The system
# thus reuses the memory in which it caches the log, and merging reads it from the CPU's caches.
_WAL_BYTES: Final = 16_384_000
# How many large pages SQLite keeps in memory. With 2 MiB, its default, elements push the pages of
# other tables out into the log while a batch is written, again and again: it takes twice the space.
_LARGE_PAGES: Final = 64
# Rows of a long statement, and of the longest; SQLite accepts 32,766 parameters.
_ROWS, _MOST_ROWS = 256, 1024
_ZEROS: Final = "INSERT INTO chunk VALUES (?, ?, zeroblob(?))"


class Writer:
    """Creates a recording and appends batches.

    Args:
        path: The file. An existing recording is replaced, any other file is refused.
        budget_bytes: Beyond this, the oldest full arrays are deleted; may be raised.
        page_bytes: The size of the file's pages.

    Attributes:
        logs: Whether batches are written into a log beside the file first.

    Raises:
        RecordingError: The file cannot be created.
    """

    def __init__(self, path: Path, *, budget_bytes: int, page_bytes: int = PAGE_BYTES) -> None:
        self.path = path
        self.arrays = StoredArrays(self, budget_bytes)
        # Number of statements so far, as a sign of progress; a repeated statement does not count.
        self.moves = 0
        self._moved = self._settled = 0  # statements of this batch, and up to its start
        self.logs = True
        create(path)
        try:
            begin(path, page_bytes)
            with high():  # all three files are opened here, and stay open
                self._db = connect(path)
                self._db.execute("PRAGMA synchronous=NORMAL")
                self._db.execute("PRAGMA temp_store=MEMORY")
                if page_bytes == LARGE_PAGE_BYTES:
                    self._db.execute(f"PRAGMA cache_size={_LARGE_PAGES}")
                self._db.execute("SELECT 1 FROM sqlite_schema").fetchall()
                self._reserve = Reserve(path.parent)
            self._descriptors = held([f"{path}{suffix}" for suffix in ("", "-wal", "-shm")])
            self._db.execute(f"PRAGMA wal_autocheckpoint={_WAL_BYTES // page_bytes}").fetchall()
            self._inode = path.stat().st_ino
            self._vouched = vouch(path, writing=True)
        except (sqlite3.Error, OSError) as error:
            raise RecordingError(
                f"cannot write the recording {path}: {error}", hint=HINT
            ) from error

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for a forked child that must never close it."""
        return self._db

    def begin(self) -> None:
        """Start a batch.

        Raises:
            RecordingError: The program closed our files.
        """
        self._look()
        self.arrays.begin()
        self._moved = 0
        if self.logs:
            self._db.execute("BEGIN IMMEDIATE")
            return
        with high():  # the first change opens a journal
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("UPDATE progress SET seq = seq")
        self._descriptors = (*self._own_descriptors(), *held([f"{self.path}-journal"]))

    def roll_back(self) -> None:
        """Undo the failed batch, so that it can be written again."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        if not self.logs:
            self._descriptors = self._own_descriptors()
        self.arrays.roll_back()

    def insert(self, table: str, rows: Sequence[tuple[Any, ...]], *, replace: bool = False) -> None:
        """Insert rows of equal width into a table, in few statements; with ``replace``,
        overwrite.
        """
        if not rows:
            return
        width = len(rows[0])
        marks = f"({','.join('?' * width)})"
        into = "INSERT OR REPLACE INTO" if replace else "INSERT INTO"
        start = 0
        while start < len(rows):
            room = _room(len(rows) - start)
            part = rows[start : start + room]
            start += room
            values = list(chain.from_iterable(part))
            if room == 1:  # for a single row, SQLite copies the cells fewer times this way
                statement = f"{into} {table} VALUES {marks}"
            else:
                values += [0] * ((room - len(part)) * width)
                values.append(len(part))
                rows_of = f"VALUES {','.join([marks] * room)}"
                statement = f"{into} {table} SELECT * FROM ({rows_of}) LIMIT ?"
            try:
                self._db.execute(statement, values)
            except UnicodeEncodeError:  # names may hold bytes that are not valid Unicode
                self._db.execute(statement, list(map(_readable, values)))
            self._moved += 1
            self.moves = max(self.moves, self._settled + self._moved)

    def insert_chunk(self, number: int, part: int, data: bytes | memoryview) -> None:
        """Insert a chunk. Written into zeros, it is copied once, otherwise three times."""
        row = self._db.execute(_ZEROS, (number, part, len(data))).lastrowid
        assert row is not None
        with self._db.blobopen("chunk", "data", row) as blob:
            blob.write(data)
        self._moved += 1
        self.moves = max(self.moves, self._settled + self._moved)

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement of the batch; return its rows."""
        return self._db.execute(statement, parameters).fetchall()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement of the batch."""
        self._db.execute(statement, list(map(_readable, parameters)))

    def forget_executions(self, nodes: Iterable[int]) -> None:
        """Delete the earlier execution rows of nodes of which only the latest is kept."""
        marks = ",".join(map(str, nodes))
        self._db.execute(f"DELETE FROM execution WHERE node IN ({marks})")

    def add_flags(self, flags: Mapping[int, int]) -> None:
        """Add bits to the flags of written executions, by seq."""
        self._take_out(flags)
        for bits in set(flags.values()):
            seqs = ",".join(str(seq) for seq, has in flags.items() if has == bits)
            self._db.execute(f"UPDATE execution SET flags = flags | {bits} WHERE seq IN ({seqs})")

    def flag_unwritten(self, first: int, last: int) -> None:
        """Note that wanted elements of executions in a range were not written, nor will be."""
        self._db.execute(
            "UPDATE execution SET flags = flags & ~?1 | ?2 "
            "WHERE seq BETWEEN ?3 AND ?4 AND flags & ?1",
            (WANTED, UNWRITTEN, first, last),
        )
        among = self._db.execute(
            "SELECT * FROM timed WHERE last_seq >= ? AND first_seq <= ?", (first, last)
        ).fetchall()
        flagged = [packing.flagged(row, HAS_SUMMARY | UNWRITTEN) for row in among]
        self.insert("timed", flagged, replace=True)

    def _take_out(self, seqs: Iterable[int]) -> None:
        """Give executions in the table ``timed`` rows of their own, which take precedence."""
        rows: list[tuple[int, ...]] = []
        last, together = -1, dict[int, tuple[int, ...]]()
        for seq in sorted(seqs):
            if seq > last:
                among = self._db.execute(
                    "SELECT * FROM timed WHERE first_seq <= ? ORDER BY first_seq DESC LIMIT 1",
                    (seq,),
                ).fetchall()
                last = among[0][1] if among else -1
                executions = unpacked(among[0]).tolist() if last >= seq else []
                together = {row[0]: tuple(row) for row in executions}
            if seq in together:
                rows.append(together[seq])
        marks = ",".join("?" * 8)
        self._db.executemany(f"INSERT OR IGNORE INTO execution VALUES ({marks})", rows)

    def added(
        self, parts: Sequence[tuple[str, Sequence[tuple[Any, ...]]]], seq: int, time_ns: int,
        dropped: Dropped,
    ) -> bool:  # fmt: skip
        """Insert rows into their tables in one batch; False if they could not be written."""
        try:
            self.begin()
            for table, rows in parts:
                self.insert(table, rows)
            self.commit(seq, time_ns, dropped)
        except sqlite3.Error:
            self.roll_back()
            return False
        return True

    def commit(self, seq: int, time_ns: int, dropped: Dropped) -> None:
        """End the batch; from now on readers see it.

        Raises:
            RecordingError: The file was deleted or replaced during the run.
        """
        self._db.execute(
            "UPDATE progress SET seq=?, time_ns=?, dropped_blobs=?, dropped_summaries=?, "
            "dropped_executions=?",
            (seq, time_ns, dropped.blobs, dropped.summaries, dropped.executions),
        )
        self._look()  # nearly all of the batch is written now
        self._db.execute("COMMIT")
        self.arrays.committed()
        if not self.logs:
            self._descriptors = self._own_descriptors()  # the journal is closed and deleted
        self._settled = self.moves = self.moves + 1
        try:
            in_place = self.path.stat().st_ino == self._inode
        except OSError:
            in_place = False
        if not in_place:
            raise RecordingError(f"the recording {self.path} was deleted or moved")

    def _look(self) -> None:
        """Check that the files that SQLite has open are still those of the recording."""
        if not intact(self._descriptors):
            raise RecordingError(
                f"the program closed the files of its recording {self.path}",
                hint="what was written before is intact",
            )

    def merge_log(self) -> bool:
        """Merge the log into the main file, as far as space and readers allow.

        Returns:
            Whether the next batch overwrites the log from its start, so that it needs no further
            space.
        """
        try:
            (busy, pages, merged), *_ = self._db.execute(
                "PRAGMA wal_checkpoint(PASSIVE)"
            ).fetchall()
        except sqlite3.Error:  # the main file cannot grow either
            return False
        return not busy and 0 < pages == merged

    def leave_log(self) -> bool:
        """Merge the log into the file, and write into the file directly from now on.

        Returns:
            Whether that is so: not if something is reading. Then the main file is complete, and the
            log beside it is empty.
        """
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            mode = self._db.execute("PRAGMA journal_mode=DELETE").fetchone()
        except sqlite3.OperationalError:
            return False
        self.logs = mode != ("delete",)
        if not self.logs:
            self._descriptors = self._own_descriptors()
        return not self.logs

    def _own_descriptors(self) -> tuple[Held, ...]:
        """The descriptors of the file itself, without those of the files beside it."""
        return tuple([own for own in self._descriptors if own[2] == self._inode])

    def release_reserve(self) -> None:
        """Give back the disk space that was set aside for the end of the recording."""
        self._reserve.release()

    def abandon(self) -> None:
        """Close after a fault, as far as possible."""
        self.arrays.forget()
        self._reserve.release()
        end_writing(self._vouched)
        if not intact(self._descriptors):
            # Their descriptors may belong to the program by now: they are neither written nor
            # closed. To SQLite the file stays open, by its inode number, which no other file may
            # get: that takes a descriptor.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._db))
            with contextlib.suppress(OSError), high():
                os.open(self.path, os.O_RDONLY)
            return
        try:
            self._db.close()
        except sqlite3.Error:
            pass

    def finish(self) -> None:
        """Close, and leave one portable file unless a reader prevents it.

        Raises:
            RecordingError: The program closed our files.
        """
        self._look()
        self._reserve.release()
        self.leave_log()
        self._db.close()
        end_writing(self._vouched)
        if not os.path.lexists(beside(self.path, "-wal")):
            if not open_here(self.path):
                seal(self.path)
            remember(self.path)
            release(self._vouched)


def _readable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _room(rows: int) -> int:
    """The number of rows that the next statement has room for: 1024, 256, 64, 16, 4 or 1.

    Compiling a statement takes SQLite twice as long as running it, so there are few distinct ones,
    which are compiled once. Long statements are few: each releases the interpreter lock several
    times, and a busy program keeps it for 5 ms each time.
    """
    if rows > _ROWS:
        return _MOST_ROWS if rows > 2 * _ROWS else _ROWS
    room: int = 1 << (rows - 1).bit_length()
    return room if room.bit_length() % 2 else 2 * room  # a power of 4
