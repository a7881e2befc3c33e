"""Row texts: the text of source files, and the version of nodescope, as recorded."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from nodescope.console_output import printable
from nodescope.record.schema import MAX_SOURCE_BYTES
from nodescope.source_files import source_text


@lru_cache(maxsize=1)
def writer_version() -> str:
    """The version of nodescope that writes a recording."""
    try:
        return version("nodescope")
    except PackageNotFoundError:  # running from a source tree
        return "unknown"


def recorded_source(file: str) -> str:
    """The text of a source file or notebook cell; empty if it does not exist or is too long."""
    text = source_text(file, MAX_SOURCE_BYTES)
    return printable(text) if len(text) <= MAX_SOURCE_BYTES else ""
