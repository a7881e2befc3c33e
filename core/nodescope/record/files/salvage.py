"""Salvage: copies the intact part of a truncated or damaged recording into a new file.

Missing pages cause SQLite errors at the rows on them; the search continues after them. Pages that
the file's seal shows to be damaged count as missing; the first page is restored. Rows that refer to
missing data are left out, so that nothing in the new file is incomplete.

Invariant: the damaged file is only read. The work is bounded in time and in attempts, the new file
by the size of the damaged one.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from nodescope.errors import RecordingError
from nodescope.record.files.connection_limits import QueryGuard, guard, is_interrupted
from nodescope.record.files.page_checksums import faults, read_seal
from nodescope.record.files.schema_check import objection
from nodescope.record.kept.packing import taken
from nodescope.record.measured.measured_table import values_of
from nodescope.record.measured.packing import unpacked as measured
from nodescope.record.schema import APPLICATION_ID, SCHEMA
from nodescope.record.schema_1 import statements
from nodescope.record.timed.collected import unpacked
from nodescope.record.timed.packing import NODE

PATIENCE_S: Final = 20.0
_ROWS: Final = 500
_PART_BYTES: Final = 8 << 20
_MOST_TRIES: Final = 20_000
# The size of a new file without rows, and some more.
_FEW_PAGES: Final = 256
_Row = tuple[Any, ...]

# Rows that refer to missing rows, deleted in this order.
_CONSISTENT: Final = """
DELETE FROM value WHERE producer IS NOT NULL AND producer NOT IN (SELECT id FROM node);
DELETE FROM execution WHERE node NOT IN (SELECT id FROM node);
DELETE FROM gradient WHERE value NOT IN (SELECT id FROM value)
  OR gradient NOT IN (SELECT id FROM value);
DELETE FROM summary WHERE value NOT IN (SELECT id FROM value);
DELETE FROM blob WHERE nbytes <> coalesce(
  (SELECT sum(length(data)) FROM chunk WHERE chunk.blob = blob.id), 0)
  OR NOT EXISTS (SELECT 1 FROM summary AS s WHERE s.value = blob.value AND s.seq = blob.seq)
  AND NOT EXISTS (SELECT 1 FROM measured WHERE blob.seq BETWEEN first_seq AND last_seq);
DELETE FROM pack WHERE nbytes <> coalesce(
  (SELECT sum(length(data)) FROM chunk WHERE chunk.blob = pack.blob), 0);
DELETE FROM chunk WHERE blob NOT IN (SELECT id FROM blob UNION SELECT blob FROM pack);
DELETE FROM branch;
"""


LOST: Final = "lost"
"""Suffix of a file beside the new one that lists tables with unreadable rows, one a line."""


def salvage(cut: Path, target: Path) -> None:
    """Write the intact part of a recording to a new file, and list the losses beside it.

    Raises:
        RecordingError: No part that could be shown is intact.
    """
    until = time.monotonic() + PATIENCE_S
    part = target.with_name("part")
    try:
        _whole_pages(cut, part)
        source = sqlite3.connect(f"{part.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            limits = guard(source)
            with limits.within(PATIENCE_S):
                # Otherwise SQLite reads nothing of a file that is shorter than before.
                source.execute("PRAGMA writable_schema=ON")
                if objection(source):
                    raise RecordingError(f"{cut} is not a nodescope recording")
                lost = _transfer(source, target, until, limits)
            target.with_name(LOST).write_text("\n".join(lost))
        finally:
            source.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RecordingError(f"no part of {cut} is intact: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _whole_pages(cut: Path, target: Path) -> None:
    """Copy a file up to its last whole page; SQLite would read the rest of the next one as zeros.

    Pages that differ from the seal are zeroed, which SQLite treats as damage.
    """
    seal = read_seal(cut)
    with cut.open("rb") as reading, target.open("wb") as writing:
        size = os.fstat(reading.fileno()).st_size
        page = int.from_bytes(reading.read(18)[16:], "big")
        page = 65536 if page == 1 else max(page, 512)
        if seal is not None:
            page, size = seal.page, seal.page * len(seal.sums)
        reading.seek(0)
        left = size - size % page
        while left > 0 and (part := reading.read(min(left, 1 << 20))):
            writing.write(part)
            left -= len(part)
        if seal is not None:
            for number in faults(cut, seal):
                writing.seek(number * page)
                writing.write(bytes(page) if number else seal.first)


def _transfer(
    source: sqlite3.Connection, target: Path, until: float, limits: QueryGuard
) -> list[str]:
    """Copy all readable rows; return the tables with unreadable ones."""
    lost: list[str] = []
    database = sqlite3.connect(target, isolation_level=None)
    try:
        database.execute(f"PRAGMA application_id={APPLICATION_ID}")
        (schema,) = source.execute("PRAGMA user_version").fetchone()
        database.execute(f"PRAGMA user_version={schema}")
        database.execute("PRAGMA synchronous=OFF")
        database.executescript(f"BEGIN;{statements(schema, SCHEMA)}COMMIT;")
        rows = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        database.execute("BEGIN")
        most_pages = 2 * _pages(source) + _FEW_PAGES
        for (table,) in rows:
            columns = _columns(database, table)
            source_columns = _columns(source, table)
            # Older steps have no `observed`: all of them were observed.
            selected = ", ".join(name if name in source_columns else "1" for name in columns)
            if not source_columns:
                continue
            marks = ",".join("?" * len(columns))
            insert = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"
            for part in _parts(source, table, selected, until, limits):
                if part is not None:
                    _insert(database, insert, part)
                if part is None or _pages(database) > most_pages:
                    lost.append(table)
                if _pages(database) > most_pages:  # its pages refer to one another
                    break
        database.execute("COMMIT")
        if _columns(source, "timed"):
            lost += _consistent_timed(database)
        if _columns(source, "measured"):
            lost += _consistent_measured(database)
        if _columns(source, "pack"):
            lost += _consistent_packs(database)
        database.executescript(f"BEGIN;{_CONSISTENT}COMMIT;")
        if lost or not database.execute("SELECT 1 FROM progress").fetchone():
            _progress(database)
    finally:
        database.close()
    return list(dict.fromkeys(lost))


def _consistent_timed(database: sqlite3.Connection) -> list[str]:
    """Delete executions in columns whose nodes are missing; return the table if it is damaged."""
    nodes = {node for (node,) in database.execute("SELECT id FROM node")}
    damaged = False
    database.execute("BEGIN")
    for (first,) in database.execute("SELECT first_seq FROM timed").fetchall():
        (row,) = database.execute("SELECT * FROM timed WHERE first_seq = ?", (first,))
        try:
            executions = unpacked(row).tolist()
        except (ValueError, OverflowError, IndexError, msgspec.MsgspecError):
            damaged, executions = True, []
        known = [cells for cells in executions if cells[NODE] in nodes]
        if len(known) < len(executions) or not executions:
            database.execute("DELETE FROM timed WHERE first_seq = ?", (first,))
            marks = ",".join("?" * 8)
            database.executemany(f"INSERT OR IGNORE INTO execution VALUES ({marks})", known)
    database.execute("COMMIT")
    return ["timed"] * damaged


def _consistent_measured(database: sqlite3.Connection) -> list[str]:
    """The same for statistics in columns whose values are missing."""
    values = np.array(
        sorted(value for (value,) in database.execute("SELECT id FROM value")), dtype=np.int64
    )
    damaged = False
    database.execute("BEGIN")
    for (first,) in database.execute("SELECT first_seq FROM measured").fetchall():
        (row,) = database.execute("SELECT * FROM measured WHERE first_seq = ?", (first,))
        try:
            statistics = measured(row[0], row[1], values_of(row[2]), row[3])
        except (ValueError, OverflowError, IndexError, msgspec.MsgspecError):
            damaged, known = True, []
        else:
            at = np.isin(statistics.values, values)
            if at.all():
                continue
            known = statistics.rows(np.flatnonzero(at))
        database.execute("DELETE FROM measured WHERE first_seq = ?", (first,))
        marks = ",".join("?" * 16)
        database.executemany(f"INSERT OR IGNORE INTO summary VALUES ({marks})", known)
    database.execute("COMMIT")
    return ["measured"] * damaged


def _consistent_packs(database: sqlite3.Connection) -> list[str]:
    """Delete arrays that do not say where they lie; return the table if there are such."""
    damaged = []
    for row in database.execute("SELECT first_seq, last_seq, outputs, data FROM pack").fetchall():
        try:
            taken(row)
        except (ValueError, OverflowError, IndexError, msgspec.MsgspecError):
            damaged.append(row[:1])
    database.executemany("DELETE FROM pack WHERE first_seq = ?", damaged)
    return ["pack"] * bool(damaged)


def _pages(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA page_count").fetchone()[0])


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def _parts(
    source: sqlite3.Connection, table: str, selected: str, until: float, limits: QueryGuard
) -> Iterator[list[_Row] | None]:
    """The readable rows of a table, in parts; None for each gap. Ends when the time is up.

    Raises:
        sqlite3.OperationalError: Ctrl-C ended the query.
    """
    # Both tables without row numbers begin with the value's id.
    key = "value" if table in ("summary", "layout") else "rowid"
    compare = ">=" if key == "value" else ">"
    last, step = -1, 1
    for _ in range(_MOST_TRIES):
        rows: list[_Row] = []
        size = 0
        before = last
        try:
            for row in source.execute(
                f"SELECT {key}, {selected} FROM {table} NOT INDEXED WHERE {key} {compare} ? "
                f"ORDER BY {key}",
                (last,),
            ):
                rows.append(row[1:])
                last = max(last, row[0])
                size += sum([len(field) for field in row if isinstance(field, bytes | str)])
                if len(rows) == _ROWS or size > _PART_BYTES:
                    yield rows
                    rows = []
                    size = 0
                    if time.monotonic() > until:
                        yield None
                        return
            ended = True
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            ended = is_interrupted(error)
            if ended and not limits.overdue:
                raise
            yield None
        if rows:
            yield rows
        if ended:
            return
        if last > before:
            step = 1
        last += step  # after the unreadable part
        step *= 2
        if last >= 1 << 62 or time.monotonic() > until:
            return


def _insert(database: sqlite3.Connection, insert: str, rows: list[_Row]) -> None:
    for row in rows:
        try:
            database.execute(insert, row)
        except (sqlite3.IntegrityError, sqlite3.DataError):
            continue  # the type differs from the one written


def _progress(database: sqlite3.Connection) -> None:
    """Write the row `progress` for the rows that are present; raise if there is nothing to show."""
    counts = [
        database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("node", "execution", "timed", "log")
    ]
    if not any(counts):
        raise RecordingError("no part of it is intact")
    progress = database.execute("SELECT * FROM progress LIMIT 1").fetchone() or (0, 0, 0, 0, 0)
    last = max(
        database.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0]
        for table in ("node", "value", "execution", "log", "document")
    )
    time_ns = database.execute(
        "SELECT coalesce(max(start_ns + duration_ns), 0) FROM execution"
    ).fetchone()[0]
    of_timed = database.execute("SELECT max(last_seq), max(end_ns) FROM timed").fetchone()
    last, time_ns = max(last, of_timed[0] or 0), max(time_ns, of_timed[1] or 0)
    database.execute("DELETE FROM progress")
    database.execute("INSERT INTO progress VALUES (?,?,?,?,?)", (last, time_ns, *progress[2:5]))
