"""Whose code a file is: the user's, nodescope's own, or a library's.

Invariant: told by the path alone; no file is read.
"""

from __future__ import annotations

import functools
import sysconfig
from pathlib import Path
from typing import Final

OURS: Final = "nodescope"

_OWN: Final = str(Path(__file__).resolve().parent) + "/"
_STDLIB: Final = tuple(
    {
        str(Path(path)) + "/"
        for name in ("stdlib", "platstdlib")
        if (path := sysconfig.get_path(name))
    }
)
_SCRIPTS: Final = str(Path(sysconfig.get_path("scripts") or "/nowhere")) + "/"
_PACKAGES: Final = ("/site-packages/", "/dist-packages/")


@functools.lru_cache(maxsize=4096)
def origin(file: str) -> str:
    """The top-level package that a source file belongs to; ``""`` if it is the user's own.

    Modules of the standard library are named as they are, ``queue``; cells of a notebook and lines
    at a prompt are the user's.
    """
    if file.startswith(_OWN):
        return OURS
    for folder in _PACKAGES:
        before, found, inside = file.rpartition(folder)
        if found and before:
            return _first(inside)
    if file.startswith("<frozen "):
        return _first(file[8:].rstrip(">").replace(".", "/"))
    for folder in _STDLIB:
        if file.startswith(folder):
            return _first(file[len(folder) :])
    return "python" if file.startswith(_SCRIPTS) else ""


def _first(inside: str) -> str:
    return inside.split("/", 1)[0].removesuffix(".py")
