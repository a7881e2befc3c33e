"""Seal: the checksums of all pages of a finished recording, and a copy of its first page.

They follow the last page, where SQLite does not look, and are written after the program has ended.
A regular change of the file (storing a branch) raises a counter of SQLite, and the seal is then out
of date until the file is sealed again.

Layout, little-endian: the first page; a CRC-32 per page; `_TAIL`: page size, number of pages, the
CRC-32 of the seal up to here, four bytes of padding, `_MAGIC`.

Invariant: a seal is an aid. A file without a seal, or with a damaged one, is read without it.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope.native import crc32_of_pages

_MAGIC: Final = b"nodescope seal 1"
_TAIL: Final = struct.Struct("<III4x16s")
_SAID: Final = struct.Struct("<II")
_PART: Final = 1 << 20
_HEAD: Final = 100
# Larger files are not sealed: the program would wait for the seal at its end.
MOST_BYTES: Final = 4 << 30

Sums = NDArray[np.uint32]


class Seal(NamedTuple):
    """The seal of a file.

    Attributes:
        page: The page size in bytes.
        first: The first page.
        sums: The CRC-32 of each page.
    """

    page: int
    first: bytes
    sums: Sums


def seal(path: Path) -> bool:
    """Write or renew the seal of a recording; call this while nothing in this process has it open.

    Returns:
        Whether the file is sealed: not if it is larger than `MOST_BYTES` or the disk is full.
    """
    try:
        with path.open("r+b") as file:
            page, pages = _size(file.read(_HEAD))
            end = page * pages
            if not end or end > MOST_BYTES or os.fstat(file.fileno()).st_size < end:
                return False
            sums = _sums(file, page, pages)
            file.seek(0)
            content = file.read(page) + sums.astype("<u4").tobytes() + _SAID.pack(page, pages)
            tail = _TAIL.pack(page, pages, zlib.crc32(content), _MAGIC)
            try:
                file.seek(end)
                file.write(content[: -_SAID.size] + tail)
                file.flush()
            except OSError:
                os.ftruncate(file.fileno(), end)
                raise
            file.truncate()
    except (OSError, ValueError):
        return False
    return True


def read_seal(path: Path) -> Seal | None:
    """The seal of a file; None if it is missing, damaged, or of another state of the file."""
    try:
        at = os.stat(path)
        if not stat.S_ISREG(at.st_mode) or at.st_size < _TAIL.size:
            return None
        with path.open("rb") as file:
            file.seek(at.st_size - _TAIL.size)
            page, pages, crc, magic = _TAIL.unpack(file.read(_TAIL.size))
            start = page * pages
            if magic != _MAGIC or at.st_size != start + page + 4 * pages + _TAIL.size or not start:
                return None
            file.seek(start)
            content = file.read(page + 4 * pages)
            if zlib.crc32(content + _SAID.pack(page, pages)) != crc:
                return None
            file.seek(0)
            head = file.read(_HEAD)
    except (OSError, ValueError, struct.error):
        return None
    first, sums = content[:page], np.frombuffer(content[page:], "<u4").astype(np.uint32)
    if _size(first) != (page, pages) or _changed_since(head, first):
        return None
    return Seal(page, first, sums)


def faults(path: Path, of: Seal) -> list[int]:
    """The pages, counted from 0, that differ from the seal.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        sums = _sums(file, of.page, len(of.sums))
    return [int(page) for page in np.flatnonzero(sums != of.sums)]


def _sums(file: Any, page: int, pages: int) -> Sums:
    sums = np.zeros(pages, np.uint32)
    pages_at_once = min(max(_PART // page, 1), pages)
    memory = memoryview(bytearray(page * pages_at_once))  # fresh memory takes longer than reading
    file.seek(0)
    for first in range(0, pages, pages_at_once):
        part = memory[: page * min(pages_at_once, pages - first)]
        part = part[: file.readinto(part)]
        of_part = np.frombuffer(crc32_of_pages(part, page), np.uint32)
        sums[first : first + len(of_part)] = of_part
    return sums


def _size(head: bytes) -> tuple[int, int]:
    """Page size and number of pages in SQLite's header; zeros if they are invalid."""
    if len(head) < _HEAD:
        return 0, 0
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    if page < 512 or page & (page - 1):
        return 0, 0
    return page, int.from_bytes(head[28:32], "big")


def _changed_since(head: bytes, first: bytes) -> bool:
    """Whether SQLite wrote the file after it was sealed, judging by its two change counters."""
    return head[:18] == first[:18] and head[24:28] == head[92:96] != first[24:28]
