"""Malicious recordings: small files whose content never ends.

A page of a table refers to others. Here, each of a few levels refers to the next hundreds of times.
"""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

LEVELS = 8
_INTERIOR, _LEAF = 5, 13


def endless_table(path: Path, table: str) -> Path:
    """Let a table that fits into a page be that page, again and again."""
    database = sqlite3.connect(path)
    ((root,),) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
    database.close()
    content, page = _read(path)
    first = (root - 1) * page
    leaf = bytes(content[first : first + page])
    assert leaf[0] == _LEAF
    content[first : first + page] = _levels(content, page, leaf)
    return _write(path, content, page)


def endless_schema(path: Path) -> Path:
    """Let the schema end with the same row, again and again."""
    database = sqlite3.connect(path)
    row = database.execute(
        "SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE sql IS NULL"
    ).fetchone()
    database.close()
    content, page = _read(path)
    assert content[100] == _INTERIOR
    texts = [text.encode() for text in row[:3]]
    # Serial types of the row: texts, then an integer and NULL.
    kinds = b"".join(_varint(13 + 2 * len(text)) for text in texts) + b"\4\0"
    record = _varint(len(kinds) + 1) + kinds + b"".join(texts) + struct.pack(">i", row[3])
    cell = _varint(len(record)) + _varint(200) + record
    at = page - len(cell)
    leaf = bytearray(page)
    leaf[:10] = struct.pack(">BHHHBH", _LEAF, 0, 1, at, 0, at)
    leaf[at:] = cell
    last = content[108:112]
    top = bytearray(_levels(content, page, bytes(leaf)))
    number = _append(content, page, bytes(top))
    content[108:112] = struct.pack(
        ">I", _append(content, page, _interior(page, [int.from_bytes(last, "big")], number))
    )
    return _write(path, content, page)


def _levels(content: bytearray, page: int, leaf: bytes) -> bytes:
    """Append levels above a leaf; the uppermost page, which is not appended."""
    number = _append(content, page, leaf)
    for _ in range(LEVELS):
        top = _interior(page, [number] * (page // 9), number)
        number = _append(content, page, top)
    return top


def _interior(page: int, children: list[int], last: int) -> bytes:
    cells = [struct.pack(">I", child) + _varint(200) for child in children]
    size = len(cells[0])
    start = page - size * len(cells)
    pointers = [page - size * (index + 1) for index in range(len(cells))]
    head = struct.pack(">BHHHBI", _INTERIOR, 0, len(cells), start, 0, last)
    head += struct.pack(f">{len(cells)}H", *pointers)
    return head.ljust(start, b"\0") + b"".join(reversed(cells))


def _append(content: bytearray, page: int, new: bytes) -> int:
    content += new
    return len(content) // page


def _read(path: Path) -> tuple[bytearray, int]:
    """Its pages without the seal, and their size."""
    content = path.read_bytes()
    page = int.from_bytes(content[16:18], "big")
    return bytearray(content[: page * int.from_bytes(content[28:32], "big")]), page


def _write(path: Path, content: bytearray, page: int) -> Path:
    content[28:32] = struct.pack(">I", len(content) // page)
    path.write_bytes(content)
    return path


def _varint(number: int) -> bytes:
    assert 0 <= number < 1 << 14
    return bytes([number]) if number < 128 else bytes([0x80 | number >> 7, number & 127])
