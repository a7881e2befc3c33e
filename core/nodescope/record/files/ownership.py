"""Ownership: which recordings this user's nodescope wrote, and may therefore write again.

A recording from elsewhere is data; nothing in it can prove ownership. Ownership is known by other
means. While the program is connected to this process or runs in it: by the file's identity and its
path, as a file that is deleted leaves its identity to another one. Afterwards: by a ledger in the
user's own folder, with the file's identity, size and times as nodescope left them. Change times are
set by the kernel alone: a file that anybody else wrote, moved or replaced is not in the ledger.

Invariant: in doubt, a recording is not ours. The ledger never fails a program.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from nodescope.console_output import path_of
from nodescope.plain_files import read_plain

_MOST: Final = 4096
"""The most entries in the ledger; the oldest half makes room."""
_SELDOM: Final = 32
"""The ledger is pruned about once in this many times, so it may have this many more entries."""
_ENTRY_BYTES: Final = 1 << 10

Key = tuple[int, int]
"""Device and inode number of a file."""


class Vouched(NamedTuple):
    """A file that was vouched for: its identity, and its path without links."""

    key: Key
    path: str


_lock = threading.Lock()
_vouched: dict[Vouched, int] = {}
_written: set[Key] = set()
_read: dict[Key, int] = {}


def state_folder() -> Path:
    """The folder for nodescope's state across runs; it may not exist."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "nodescope"


def beside(path: Path, suffix: str) -> Path:
    """The path of a file that SQLite keeps beside a recording: ``-wal``, ``-shm`` or
    ``-journal``.
    """
    return path.with_name(path.name + suffix)


def vouch(path: Path, *, writing: bool = False) -> Vouched | None:
    """Vouch for a file whose program is connected to this process or runs in it.

    Args:
        path: The recording.
        writing: Whether a writer of this very process has it open, until `end_writing`.

    Returns:
        What to `release` afterwards; None if the file does not exist.
    """
    vouched = _identity(path_of(path))
    if vouched is not None:
        with _lock:
            _vouched[vouched] = _vouched.get(vouched, 0) + 1
            if writing:
                _written.add(vouched.key)
    return vouched


def release(vouched: Vouched | None) -> None:
    """Take back one `vouch`."""
    with _lock:
        if vouched is not None and vouched in _vouched:
            _vouched[vouched] -= 1
            if not _vouched[vouched]:
                del _vouched[vouched]


def end_writing(vouched: Vouched | None) -> None:
    """Note that this process's writer has closed the file."""
    with _lock:
        if vouched is not None:
            _written.discard(vouched.key)


def written_here(path: Path) -> bool:
    """Whether a writer of this process has the file open.

    If so, nothing else in this process may open and close the file except through SQLite: closing
    any descriptor of a file releases all locks that the process holds on it.
    """
    key = _key(path)
    with _lock:
        return key is not None and key in _written


def begin_reading(path: Path) -> Key | None:
    """Note that a connection of this process is about to open the file and lock it."""
    key = _key(path)
    if key is not None:
        with _lock:
            _read[key] = _read.get(key, 0) + 1
    return key


def end_reading(key: Key | None) -> None:
    """Note that the connection has been closed."""
    with _lock:
        if key is not None and key in _read:
            _read[key] -= 1
            if not _read[key]:
                del _read[key]


def open_here(path: Path) -> bool:
    """Whether a connection of this process holds locks on the file; see `written_here`."""
    key = _key(path)
    with _lock:
        return key is not None and (key in _written or key in _read)


def writing() -> bool:
    """Whether a writer of this process, which is then the program's process, has any file open."""
    return bool(_written)


def in_place(path: Path) -> bool:
    """Whether SQLite may use a file and its log in place, because they belong to this user.

    The files beside it must also be plain files of this user without a second name: a link would
    redirect writes elsewhere.
    """
    if not _alone(path):
        return False
    with _lock:
        if _identity(path) in _vouched:
            return True
    return stamped(path) and not _has_log(path)


def stamped(path: Path) -> bool:
    """Whether a file is as nodescope left it: finished, and without a log beside it."""
    return _alone(path, ("",)) and _stamped(path)


def _has_log(path: Path) -> bool:
    try:
        return os.lstat(beside(path, "-wal")).st_size > 0
    except OSError:
        return False


def remember(path: Path) -> None:
    """Note a file's state in the ledger. Call this once the file is no longer written."""
    try:
        folder = _ledger(make=True)
        stamp = _stamp(path)
        if folder is None or stamp is None:
            return
        name, text = stamp
        fresh = folder / f".{os.getpid()}-{threading.get_ident()}"
        fresh.write_text(text)
        fresh.replace(folder / name)
        if time.monotonic_ns() // 1000 % _SELDOM == 0:  # pruning takes milliseconds
            _prune(folder)
    except (OSError, ValueError, RuntimeError):
        pass  # then it does not count as ours, and branches are kept elsewhere


def _stamped(path: Path) -> bool:
    try:
        folder = _ledger(make=False)
        stamp = _stamp(path)
        return (
            folder is not None
            and stamp is not None
            and read_plain(folder / stamp[0], _ENTRY_BYTES) == stamp[1].encode()
        )
    except (OSError, ValueError, RuntimeError):
        return False


def _stamp(path: Path) -> tuple[str, str] | None:
    """Name and content of a file's ledger entry."""
    at = os.stat(path)
    if not stat.S_ISREG(at.st_mode):
        return None
    return f"{at.st_dev:x}-{at.st_ino:x}", f"{at.st_size} {at.st_mtime_ns} {at.st_ctime_ns}\n"


def _ledger(*, make: bool) -> Path | None:
    """The ledger's folder, if it is writable by this user only."""
    folder = state_folder() / "made"
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    at = os.lstat(folder)
    is_private = not hasattr(os, "geteuid") or (
        at.st_uid == os.geteuid() and not at.st_mode & 0o022
    )
    return folder if stat.S_ISDIR(at.st_mode) and is_private else None


def _prune(folder: Path) -> None:
    entries = list(os.scandir(folder))
    if len(entries) <= _MOST:
        return
    entries.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
    for entry in entries[: _MOST // 2]:
        os.unlink(entry.path)


def _alone(path: Path, suffixes: tuple[str, ...] = ("", "-wal", "-shm")) -> bool:
    """Whether the file and its log are plain files of this user with a single name."""
    for suffix in suffixes:
        try:
            at = os.lstat(beside(path, suffix)) if suffix else os.stat(path)
        except OSError:
            if not suffix:
                return False
            continue
        is_own = not hasattr(os, "geteuid") or at.st_uid == os.geteuid()
        if not (stat.S_ISREG(at.st_mode) and at.st_nlink == 1 and is_own):
            return False
    return not os.path.lexists(beside(path, "-journal"))


def _identity(path: Path) -> Vouched | None:
    key = _key(path)
    return None if key is None else Vouched(key, os.path.realpath(path))


def _key(path: Path) -> Key | None:
    try:
        at = os.stat(path)
    except (OSError, ValueError):
        return None
    return at.st_dev, at.st_ino
