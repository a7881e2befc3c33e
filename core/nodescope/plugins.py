"""Plugins: the entry points of other packages for ops, passes, watches, adapters and more.

Python reads a file of every installed package to find those of one group; here all groups are read
together, and again only after something was installed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

_Groups = dict[str, tuple[EntryPoint, ...]]

_known: tuple[tuple[tuple[str, int], ...], Any, _Groups] | None = None


def plugins(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, such as ``nodescope.op``."""
    global _known
    folders = tuple((path, _changed_ns(path)) for path in sys.path)
    known = _known
    if known is None or known[0] != folders:
        known = _known = (folders, entry_points(), {})
    _, entries, groups = known
    if group not in groups:  # selecting one compares all
        groups[group] = tuple(entries.select(group=group))
    return groups[group]


def _changed_ns(path: str) -> int:
    with contextlib.suppress(OSError):
        return os.stat(path or ".").st_mtime_ns
    return 0
