"""Source files: lines of the user's code, by file names from a recording or a code object.

Such a name may lead to a pipe or an endless device, which `linecache` would read.

Invariant: a name has lines only if it is a small plain file or already in `linecache`, such as a
notebook cell.
"""

from __future__ import annotations

import io
import linecache
import tokenize
from typing import Final

from nodescope.plain_files import is_plain, read_plain

MOST_BYTES: Final = 16 << 20


def source_text(file: str, most_bytes: int = MOST_BYTES) -> str:
    """The text of a source file or notebook cell; empty if it does not exist or is too long."""
    try:
        content = io.BytesIO(read_plain(file, most_bytes))
        encoding, _ = tokenize.detect_encoding(content.readline)
        content.seek(0)
        return io.TextIOWrapper(content, encoding).read()
    except FileNotFoundError:
        text = "".join(linecache.getlines(file)) if file in linecache.cache else ""
        return text if len(text) <= most_bytes else ""
    except (OSError, SyntaxError, ValueError):
        return ""


def source_lines(file: str) -> list[str]:
    """The lines of a source file or notebook cell, as cached by `linecache`."""
    try:
        known = file in linecache.cache or is_plain(file, MOST_BYTES)
        return linecache.getlines(file) if known else []
    except MemoryError:
        return []


def source_line(file: str, line: int) -> str:
    """A line, counted from 1; empty if it does not exist."""
    lines = source_lines(file)
    return lines[line - 1] if 1 <= line <= len(lines) else ""
