"""Recent recordings: paths of those that this user's programs wrote last, wherever they are.

The list is kept in the user's state folder, one path a line, newest at the end. It holds no
content: everything shown about a recording is read from the file itself.

Invariant: bounded, readable by its owner alone, and never trusted: a malformed line is skipped and
a missing file is left out. Its faults never reach the program.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from nodescope.plain_files import is_plain
from nodescope.record.files.ownership import state_folder
from nodescope.record.schema import SUFFIX

MOST: Final = 200
"""The number of paths kept."""

_LONGEST: Final = 4000
_MOST_BYTES: Final = 1 << 20

_path = msgspec.json.Decoder(str).decode


def place() -> Path:
    """The path of the list, which may not exist."""
    return state_folder() / "recent"


def remember(recording: Path) -> None:
    """Put a recording at the head of the list."""
    try:
        line = msgspec.json.encode(str(recording.absolute())) + b"\n"
        if len(line) > _LONGEST:
            return
        path = place()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Short appends are atomic, so programs that start at the same time need no lock.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        flags |= getattr(os, "O_NONBLOCK", 0)
        handle = os.open(path, flags, 0o600)
        try:
            os.write(handle, line)
            long = os.fstat(handle).st_size > MOST * 2 * 100
        finally:
            os.close(handle)
        if long:
            _shorten(path)
    except (OSError, ValueError, RuntimeError):
        pass  # without a state folder, there is no list


def recent() -> tuple[Path, ...]:
    """Recordings that still exist, latest first, each once."""
    try:
        path = place()
        if not is_plain(path):
            return ()
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _MOST_BYTES))
            lines = file.read(_MOST_BYTES).splitlines()
    except (OSError, ValueError, RuntimeError):
        return ()
    paths: dict[str, None] = {}
    for line in reversed(lines):
        try:
            text = _path(line)
        except (msgspec.MsgspecError, ValueError):
            continue
        if os.path.isabs(text) and "\0" not in text:
            paths.setdefault(text)
        if len(paths) >= MOST:
            break
    return tuple(Path(name) for name in paths if os.path.isfile(name))


def recordings_of(folder: Path) -> dict[Path, bool]:
    """The recordings in a folder and in ``.nodescope/runs`` below it, with whether runs left them
    there.

    A recording in the folder itself may have come from anywhere.
    """
    recordings: dict[Path, bool] = {}
    for place, ours in ((folder / ".nodescope" / "runs", True), (folder, False)):
        try:
            with os.scandir(place) as entries:
                names = [e.name for e in entries if e.name.endswith(SUFFIX) and e.is_file()]
        except OSError:
            continue
        recordings |= {place / name: ours for name in names}
    return recordings


def _shorten(path: Path) -> None:
    lines = [msgspec.json.encode(str(recording)) for recording in reversed(recent())]
    handle, fresh = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(b"".join(line + b"\n" for line in lines))
    os.replace(fresh, path)
