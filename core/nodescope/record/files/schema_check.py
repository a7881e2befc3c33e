"""Schema validation: whether a file's schema is exactly the recording's own.

SQLite executes what a schema contains: views stand in for tables, triggers fire on writes, defaults
and checks are expressions. So none of these are accepted. Tables and indexes of plain columns,
which a later nodescope may have added, are accepted and never queried.

Invariant: everything is derived from the schema's text, without a second list of tables.
"""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache
from typing import Final

from nodescope.record import schema_1
from nodescope.record.schema import EARLIER, SCHEMA

_NAME: Final = r"[a-z_][a-z0-9_]*"
_COLUMN: Final = rf"{_NAME} (?:INTEGER|REAL|TEXT|BLOB)(?: PRIMARY KEY)?(?: NOT NULL)?"
_KEY: Final = rf"(?:, PRIMARY KEY \({_NAME}(?:, {_NAME})*\))?"
_PLAIN: Final = re.compile(
    rf"CREATE TABLE {_NAME} \({_COLUMN}(?:, {_COLUMN})*{_KEY}\) STRICT(?:, WITHOUT ROWID)?"
    rf"|CREATE (?:UNIQUE )?INDEX {_NAME} ON {_NAME} \({_NAME}(?:, {_NAME})*\)"
)
_MOST_OBJECTS: Final = 200
_MOST_TEXT: Final = 10_000


def objection(database: sqlite3.Connection) -> str:
    """The first part of a file's schema that does not belong in a recording, or ``""``.

    Raises:
        sqlite3.Error: The schema cannot be read.
    """
    rows = database.execute(
        "SELECT type, substr(name, 1, 100), substr(tbl_name, 1, 100), substr(sql, 1, ?) "
        "FROM sqlite_schema LIMIT ?",
        (_MOST_TEXT, _MOST_OBJECTS + 1),
    ).fetchall()
    if len(rows) > _MOST_OBJECTS:
        return f"it has more than {_MOST_OBJECTS} tables and indexes"
    return next(filter(None, (_about(*row) for row in rows)), "")


@lru_cache(maxsize=256)
def _about(kind: object, name: object, table: object, text: object) -> str:
    """The objection to one object of a schema, as text."""
    if not (isinstance(kind, str) and isinstance(name, str) and isinstance(table, str)):
        return "it has a table without a name"
    if kind == "index" and text is None and name.startswith(f"sqlite_autoindex_{table}_"):
        return ""
    known_statements = _known()
    statement = _plain(text) if isinstance(text, str) else ""
    if (kind, name) in known_statements:
        return (
            ""
            if statement in known_statements[kind, name]
            else f"its {kind} {name} is not as nodescope writes it"
        )
    plain = (
        kind in ("table", "index")
        and len(statement) < _MOST_TEXT
        and _PLAIN.fullmatch(statement)
        and re.match(rf"CREATE (?:UNIQUE )?{kind.upper()} {re.escape(name)} ", statement)
    )
    article = "an" if kind == "index" else "a"
    return "" if plain else f"it has {article} {kind} {name!r}, which recordings do not have"


@lru_cache(maxsize=1)
def _known() -> dict[tuple[str, str], frozenset[str]]:
    """All definitions that any release of nodescope has used, by kind and name."""
    texts: dict[tuple[str, str], set[str]] = {}
    for statement in (*SCHEMA.split(";"), *EARLIER, *schema_1.EARLIER):
        plain_statement = _plain(statement.replace("IF NOT EXISTS ", ""))
        match = re.match(rf"CREATE (?:UNIQUE )?(TABLE|INDEX) ({_NAME}) ", plain_statement)
        if match:
            texts.setdefault((match[1].lower(), match[2]), set()).add(plain_statement)
    return {key: frozenset(value) for key, value in texts.items()}


def _plain(text: str) -> str:
    """A statement without its line breaks."""
    joined = " ".join(text.split())
    return joined.replace("( ", "(").replace(" )", ")")
