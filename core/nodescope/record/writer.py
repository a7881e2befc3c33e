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
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from nodescope.arrays import dtype_name
from nodescope.console_output import printable
from nodescope.errors import RecordingError
from nodescope.events import Array
from nodescope.record.files.descriptors import held, high, intact
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
from nodescope.record.kept.packing import Pack, arrays_of, seed_of, taken
from nodescope.record.new_file import HINT, PAGE_BYTES, begin, connect, create
from nodescope.record.rows import Dropped
from nodescope.record.schema import CHUNK_BYTES, SUMS, array_sum, chunk_sum, shape_text
from nodescope.record.timed.collected import unpacked

# A log longer than this is merged into the file and then overwritten from its start. The system
# thus reuses the memory in which it caches the log, and merging reads it from the CPU's caches.
_WAL_BYTES: Final = 16_384_000
# How many large pages SQLite keeps in memory. With 2 MiB, its default, elements push the pages of
# other tables out into the log while a batch is written, again and again: it takes twice the space.
_LARGE_PAGES: Final = 64
# Rows of a long statement, and of the longest; SQLite accepts 32,766 parameters.
_ROWS, _MOST_ROWS = 256, 1024
# The most numbers written into a statement.
_MOST = 2048
# One statement inserts chunks of up to about this size in total.
_CHUNKS_BYTES = 4 << 20
_LARGE_CHUNK: Final = 1 << 16  # a chunk of this size or more has its own statement
_ZEROS: Final = "INSERT INTO chunk VALUES (?, ?, zeroblob(?))"

Blob = tuple[int, int, int]
"""The size, the seq and the value of a stored array."""

Accepted = dict[int, tuple[int, int, Array]]
"""Arrays to be written, with value and seq, by number."""

_SPARSEST: Final = 1 << 20  # thinning out keeps at least one in this many arrays of a weight
_SMALLEST: Final = 64  # a lasting array counts as at least this many bytes
_PACK: Final = -1  # in place of a value's id: the blob is a pack of several arrays


class Writer:
    """Creates a recording and appends batches.

    Args:
        path: The file. An existing recording is replaced, any other file is refused.
        budget_bytes: Beyond this, the oldest full arrays are deleted; may be raised.
        page_bytes: The size of the file's pages.

    Raises:
        RecordingError: The file cannot be created.
    """

    def __init__(self, path: Path, *, budget_bytes: int, page_bytes: int = PAGE_BYTES) -> None:
        self.path = path
        self.budget_bytes = budget_bytes
        self._held_bytes = 0
        self.too_large = 0  # arrays too large for a budget of this size
        # Number of statements so far, as a sign of progress; a repeated statement does not count.
        self.moves = 0
        self._moved = self._settled = 0  # statements of this batch, and up to its start
        # Blobs by number. `_blobs` may be dropped, oldest first; `_fallen` were dropped in this
        # batch; `_protected` are never dropped, see `protect`; `_lasting` last, see `keep_values`.
        self._blobs: dict[int, Blob] = {}
        self._fallen: dict[int, Blob] = {}
        self._packs: dict[int, int] = {}  # the number of arrays in each pack
        self._protected: dict[int, Blob] = {}
        self._protected_bytes = 0
        self._spans: list[tuple[int, int]] = []
        self._lasting: dict[int, Blob] = {}
        self._weight_bytes = self._loss_bytes = 0  # of lasting arrays
        self._weights: frozenset[int] = frozenset()
        self._losses: frozenset[int] = frozenset()
        self._stride, self._seen = 1, dict[int, int]()  # one in `_stride` arrays of a weight lasts
        self._last_dropped = 0  # the newest blob dropped since the last deletion
        self._cleared = 0  # dropped blobs up to this number are deleted
        self._before = (1, 0, 0, 0)
        self._next_blob = 1
        create(path)
        try:
            begin(path, page_bytes)
            with high():  # all three files are opened here, and stay open
                self._db = connect(path)
                self._db.execute("PRAGMA synchronous=NORMAL")
                self._db.execute("PRAGMA temp_store=MEMORY")
                if page_bytes > PAGE_BYTES:
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
        for number in self._fallen:
            self._packs.pop(number, None)
        self._fallen.clear()
        self._moved = 0
        self._before = (self._next_blob, self._held_bytes, self.too_large, self._cleared)
        self._db.execute("BEGIN IMMEDIATE")

    def roll_back(self) -> None:
        """Undo the failed batch, so that it can be written again."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        first, self._held_bytes, self.too_large, self._cleared = self._before
        self._last_dropped = 0
        blobs = dict(sorted({**self._fallen, **self._blobs}.items()))
        self._blobs = _before(blobs, first)
        self._protected = _before(self._protected, first)
        self._protected_bytes = sum([nbytes for nbytes, _, _ in self._protected.values()])
        self._lasting = _before(self._lasting, first)
        sizes = [(blob[2] in self._losses, _taken(blob)) for blob in self._lasting.values()]
        self._loss_bytes = sum([taken for is_loss, taken in sizes if is_loss])
        self._weight_bytes = sum([taken for is_loss, taken in sizes if not is_loss])
        self._next_blob = first
        self._fallen.clear()

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

    def _insert_chunk(self, number: int, part: int, data: bytes | memoryview) -> None:
        """Insert a chunk. Written into zeros, it is copied once, otherwise three times."""
        row = self._db.execute(_ZEROS, (number, part, len(data))).lastrowid
        assert row is not None
        with self._db.blobopen("chunk", "data", row) as blob:
            blob.write(data)
        self._moved += 1
        self.moves = max(self.moves, self._settled + self._moved)

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

    def _take_out(self, seqs: Iterable[int]) -> None:
        """Give executions in the table ``timed`` rows of their own, which take precedence."""
        rows: list[tuple[int, ...]] = []
        for seq in seqs:
            among = self._db.execute(
                "SELECT * FROM timed WHERE first_seq <= ? ORDER BY first_seq DESC LIMIT 1", (seq,)
            ).fetchall()
            if among and among[0][1] >= seq:
                rows += [tuple(row) for row in unpacked(among[0]).tolist() if row[0] == seq]
        marks = ",".join("?" * 8)
        self._db.executemany(f"INSERT OR IGNORE INTO execution VALUES ({marks})", rows)

    def protect(self, first: int, end: int) -> None:
        """Keep the arrays with ``first <= seq < end``, whatever the budget.

        At most half of the budget is protected; earlier protection takes precedence.
        """
        self._spans.append((first, end))
        for number, blob in [*self._blobs.items()]:
            if number not in self._packs and self._protects(blob[0], blob[1]):
                self._protected[number] = self._blobs.pop(number)
                self._protected_bytes += blob[0]

    def keep_values(self, weights: frozenset[int], losses: frozenset[int]) -> None:
        """Keep the arrays of these values longer than all others.

        Losses may take an eighth of the budget, and weights a quarter. If weights take more and
        space is needed, every second array of each weight is dropped, repeatedly if necessary. The
        arrays left are spread over the run and include the first.
        """
        self._weights, self._losses = weights, losses
        for number, blob in [*self._blobs.items()]:
            if self._lasts(blob):
                self._last(number, self._blobs.pop(number))

    def _lasts(self, blob: Blob) -> bool:
        """Whether to keep an array longer. Called once per array, as it counts those of weights."""
        value = blob[2]
        if value in self._losses:
            return 8 * (self._loss_bytes + _taken(blob)) <= self.budget_bytes
        if value not in self._weights:
            return False
        at = self._seen[value] = self._seen.get(value, -1) + 1
        return at % self._stride == 0

    def _last(self, number: int, blob: Blob) -> None:
        self._lasting[number] = blob
        if blob[2] in self._losses:
            self._loss_bytes += _taken(blob)
        else:
            self._weight_bytes += _taken(blob)

    def _thin_out(self) -> int:
        """Drop every second array of each weight; return how many were dropped."""
        places: dict[int, int] = {}
        dropped = []
        for number, blob in [*self._lasting.items()]:
            if blob[2] not in self._losses:
                at = places[blob[2]] = places.get(blob[2], -1) + 1
                if at % 2:
                    dropped.append(number)
                    self._fallen[number] = self._lasting.pop(number)
                    self._weight_bytes -= _taken(blob)
                    self._held_bytes -= blob[0]
        self._stride *= 2
        for column, table in (("blob", "chunk"), ("id", "blob")):
            for start in range(0, len(dropped), _MOST):
                numbers = ",".join(map(str, dropped[start : start + _MOST]))
                self._db.execute(f"DELETE FROM {table} WHERE {column} IN ({numbers})")
        return len(dropped)

    @property
    def _outlast(self) -> bool:
        """Whether weights take more than their share and can still be thinned out."""
        return 4 * self._weight_bytes > self.budget_bytes and self._stride < _SPARSEST

    def _protects(self, nbytes: int, seq: int) -> bool:
        fits = 2 * (self._protected_bytes + nbytes) <= self.budget_bytes
        return fits and any(first <= seq < end for first, end in self._spans)

    def add_blobs(self, arrays: Sequence[tuple[int, int, Array]]) -> int:
        """Store full arrays (value, seq, array) and delete the oldest ones beyond the budget.

        Returns:
            The number of arrays dropped for the budget, including any larger than the whole budget.
        """
        fallen = 0
        accepted: Accepted = {}
        for item in arrays:
            value, seq, array = item
            if array.dtype.hasobject or array.nbytes > self.budget_bytes:
                fallen += 1
                self.too_large += 1
                continue
            fallen += self._make_room(array.nbytes, accepted)
            if self._held_bytes + array.nbytes > self.budget_bytes:  # the rest must not be dropped
                fallen += 1
                continue
            blob = (array.nbytes, seq, value)
            if not self._outlives(blob):
                self._blobs[self._next_blob] = blob
            self._accept(item, accepted)
        self._write_arrays(accepted)
        return fallen

    def add_packs(self, packs: Sequence[Pack]) -> int:
        """Store packs of many arrays; otherwise like `add_blobs`."""
        fallen = 0
        accepted: Accepted = {}
        for pack in packs:
            nbytes = len(pack.elements)
            fallen += self._make_room(nbytes, accepted)
            if self._held_bytes + nbytes > self.budget_bytes:
                fallen += pack.arrays
                continue
            number = self._next_blob
            self._blobs[number] = (nbytes, pack.first_seq, _PACK)
            self._packs[number] = pack.arrays
            self._held_bytes += nbytes
            self._next_blob += 1
            row = (pack.first_seq, pack.last_seq, number, pack.arrays, nbytes, *pack[3:5])
            self.insert("pack", [row])
            elements = memoryview(pack.elements)
            seed = seed_of(pack.first_seq, pack.last_seq, pack.outputs, pack.data)
            parts = [elements[at : at + CHUNK_BYTES] for at in range(0, nbytes, CHUNK_BYTES)]
            for nth, part in enumerate(parts):
                self._insert_chunk(number, nth, part)
            sums = [(number, nth, chunk_sum(part, seed)) for nth, part in enumerate(parts)]
            self.insert("checksum", [(number, number, np.array(sums, dtype=SUMS).tobytes())])
        self._write_arrays(accepted)
        return fallen

    def _make_room(self, nbytes: int, accepted: Accepted) -> int:
        """Drop the oldest arrays until new ones fit, or nothing is left that may be dropped.

        Args:
            nbytes: How much room is needed.
            accepted: Arrays to be written. Dropped ones are removed from it; arrays of a dropped
                pack that are kept longer are added.

        Returns:
            The number of arrays dropped.
        """
        fallen = 0
        while self._held_bytes + nbytes > self.budget_bytes and (self._blobs or self._outlast):
            if self._outlast:
                fallen += self._thin_out()
                for number in self._fallen:
                    accepted.pop(number, None)
                continue
            number = next(iter(self._blobs))
            blob = self._fallen[number] = self._blobs.pop(number)
            self._held_bytes -= blob[0]
            if number in self._packs:
                fallen += self._packs[number] - self._rescue(number, blob, accepted)
            else:
                fallen += 1
                accepted.pop(number, None)
            self._last_dropped = number
        return fallen

    def _rescue(self, number: int, blob: Blob, accepted: Accepted) -> int:
        """Save the arrays of a dropped pack that are kept longer; return how many."""
        rescued = 0
        if self._spans or self._weights or self._losses:
            row = self._db.execute(
                "SELECT first_seq, last_seq, outputs, data FROM pack WHERE first_seq = ?", blob[1:2]
            ).fetchone()
            parts = self._db.execute(
                "SELECT data FROM chunk WHERE blob = ? ORDER BY part", (number,)
            ).fetchall()
            for value, seq, array in arrays_of(taken(row), b"".join(part for (part,) in parts)):
                if self._outlives((array.nbytes, seq, value)):
                    self._accept((value, seq, array), accepted)
                    rescued += 1
        self._db.execute("DELETE FROM pack WHERE first_seq = ?", blob[1:2])
        return rescued

    def _outlives(self, blob: Blob) -> bool:
        """Note the next array as protected or lasting; return False if it is neither."""
        if self._spans and self._protects(blob[0], blob[1]):
            self._protected[self._next_blob] = blob
            self._protected_bytes += blob[0]
        elif self._lasts(blob):
            self._last(self._next_blob, blob)
        else:
            return False
        return True

    def _accept(self, item: tuple[int, int, Array], accepted: Accepted) -> None:
        accepted[self._next_blob] = item
        self._held_bytes += item[2].nbytes
        self._next_blob += 1

    def _write_arrays(self, accepted: Accepted) -> None:
        """Delete the dropped arrays, and write the accepted ones."""
        if self._last_dropped:
            self._delete_up_to(self._last_dropped)
            self._last_dropped = 0
        blobs, chunks, sums, waiting = [], [], [], 0
        for number, (value, seq, array) in accepted.items():
            spec = (dtype_name(array.dtype), shape_text(array.shape), array.nbytes)
            blobs.append((number, value, seq, *spec))
            seed = array_sum(value, seq, spec[0], array.shape)
            for part, content in enumerate(_chunks_of(array)):
                sums.append((number, part, chunk_sum(content, seed)))
                if len(content) >= _LARGE_CHUNK:
                    self._insert_chunk(number, part, content)
                    continue
                chunks.append((number, part, content))
                waiting += len(content)
                if waiting >= _CHUNKS_BYTES:
                    self.insert("chunk", chunks)
                    chunks, waiting = [], 0
        self.insert("blob", blobs)
        self.insert("chunk", chunks)
        if sums:
            packed = np.array(sums, dtype=SUMS).tobytes()
            self.insert("checksum", [(sums[0][0], sums[-1][0], packed)])

    def _delete_up_to(self, last: int) -> None:
        """Delete the oldest arrays up to a number, except protected and lasting ones."""
        start, kept = self._cleared + 1, (*self._protected, *self._lasting)
        self._cleared = max(last, self._cleared)
        here = sorted([number for number in kept if start <= number <= last])
        for first, end in [*_ranges(here), (last + 1, last + 1)]:
            bounds = (start, min(first - 1, last))
            if bounds[0] <= bounds[1]:
                self._db.execute("DELETE FROM chunk WHERE blob BETWEEN ? AND ?", bounds)
                self._db.execute("DELETE FROM blob WHERE id BETWEEN ? AND ?", bounds)
                self._db.execute("DELETE FROM checksum WHERE first >= ? AND last <= ?", bounds)
            start = end + 1

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

    def release_reserve(self) -> None:
        """Give back the disk space that was set aside for the end of the recording."""
        self._reserve.release()

    def abandon(self) -> None:
        """Close after a fault, as far as possible."""
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
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._db.execute("PRAGMA journal_mode=DELETE").fetchall()
        except sqlite3.OperationalError:
            # Something is reading. The main file is complete; the log beside it is empty.
            pass
        self._db.close()
        end_writing(self._vouched)
        if not os.path.lexists(beside(self.path, "-wal")):
            if not open_here(self.path):
                seal(self.path)
            remember(self.path)
            release(self._vouched)


def _before(blobs: Mapping[int, Blob], first: int) -> dict[int, Blob]:
    """The blobs with numbers below ``first``."""
    return {number: blob for number, blob in blobs.items() if number < first}


def _taken(blob: Blob) -> int:
    """How many bytes a lasting array counts for."""
    return max(blob[0], _SMALLEST)


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, including both ends."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _readable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _chunks_of(array: Array) -> Iterator[bytes]:
    """The elements in C order, little-endian, in chunks; an empty array has no chunks."""
    if 0 < array.nbytes <= CHUNK_BYTES and array.dtype.isnative and sys.byteorder == "little":
        yield array.tobytes()  # most arrays
        return
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = little.reshape(-1).view(np.uint8)
    for start in range(0, data.size, CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES].tobytes()


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
