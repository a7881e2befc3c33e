"""Origin of a file: the user's code, nodescope's own, or a library's.

Invariant: the origin follows from the path alone; no file is read.
"""

from __future__ import annotations

import functools
import os
import sysconfig
from pathlib import Path
from typing import Final

OURS: Final = "nodescope"


@functools.lru_cache(maxsize=64)
def _folders(file: str) -> tuple[str, ...]:
    """The folder of a file, as given and resolved: an installation may be a link."""
    paths = (os.path.abspath(file), os.path.realpath(file))
    return tuple(dict.fromkeys(os.path.join(os.path.dirname(path), "") for path in paths))


_OWN: Final = _folders(__file__)
_internal: tuple[str, ...] = _OWN
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
def is_ours(file: str) -> bool:
    """Whether a code object's file is nodescope's own."""
    return file.startswith(_OWN)


def folders_of(part: str) -> tuple[str, ...]:
    """The folders of a part of nodescope, such as ``cli``, as prefixes of file names."""
    return tuple(os.path.join(folder, part, "") for folder in _OWN)


@functools.lru_cache(maxsize=4096)
def is_internal(file: str) -> bool:
    """Whether a file belongs to nodescope, or to a package whose functions it observes, such as
    NumPy.

    The line that calls such a file is the user's line.
    """
    return file.startswith(_internal)


def add_internal_package(file: str) -> None:
    """Make `is_internal` true for the files of a package, given its ``__init__``."""
    global _internal
    _internal = tuple(dict.fromkeys((*_internal, *_folders(file))))
    is_internal.cache_clear()


@functools.lru_cache(maxsize=4096)
def origin(file: str) -> str:
    """The top-level package that a source file belongs to; ``""`` if it is the user's own.

    A module of the standard library has its own name, such as ``queue``; notebook cells and lines
    at a prompt are the user's.
    """
    if is_ours(file):
        return OURS
    for folder in _PACKAGES:
        before, separator, inside = file.rpartition(folder)
        if separator and before:
            return _first(inside)
    if file.startswith("<frozen "):
        return _first(file[8:].rstrip(">").replace(".", "/"))
    for folder in _STDLIB:
        if file.startswith(folder):
            return _first(file[len(folder) :])
    return "python" if file.startswith(_SCRIPTS) else ""


def is_users(file: str) -> bool:
    """Whether a source file is the user's own: neither nodescope's, nor a package's."""
    return not is_internal(file) and not origin(file)


def _first(inside: str) -> str:
    return inside.split("/", 1)[0].removesuffix(".py")
