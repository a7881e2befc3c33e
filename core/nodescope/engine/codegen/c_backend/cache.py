"""The cache of compiled libraries on disk: found by name, verified by a checksum, bounded in size.

Two processes may build the same library at once: each writes its own file and moves it into place;
both files are valid. A damaged file counts as missing.

Invariant: `find` returns only complete files written under this user's id; no library that may be
in use is removed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nodescope.plain_files import distrusted, read_plain

MOST_BYTES = 256 << 20
_LARGEST = 256 << 20  # limit of one library
MOST_FILES = 4096
_IN_USE_S = 600.0  # younger files are not removed: a process may be about to load them
_EVERY = 64  # publications between two checks of the size
_DIGEST = hashlib.sha256().digest_size
_COUNT = 0
_LOCK = threading.Lock()


def folder_of(environ: Mapping[str, str]) -> Path:
    """The folder for libraries, whether or not it exists."""
    named = environ.get("NODESCOPE_CACHE", "")
    if named:
        return Path(named).expanduser().absolute() / "c"
    base = environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "nodescope" / "c"


@dataclass(frozen=True, slots=True)
class Cache:
    """One folder of libraries.

    Attributes:
        folder: Its path.
        private: Whether it is this process's own, removed when the process ends.
    """

    folder: Path
    private: bool = False

    def path(self, key: str) -> Path:
        """The library of a key, whether or not it exists."""
        return self.folder / f"{key}.so"

    def find(self, key: str) -> Path | None:
        """The library of a key if it exists and is complete; a damaged one is removed."""
        path = self.path(key)
        try:
            content = read_plain(path, _LARGEST)
            digest = read_plain(self.sum(key), _DIGEST)
        except OSError:
            return None
        if len(digest) != _DIGEST or hashlib.sha256(content).digest() != digest:
            self.drop(key)
            return None
        try:
            os.utime(path)  # marks it as used: the least recently used are removed first
        except OSError:
            pass
        return path

    def sum(self, key: str) -> Path:
        """The path of a library's checksum."""
        return self.folder / f"{key}.sum"

    def drop(self, key: str) -> None:
        """Remove a library if it exists."""
        for path in (self.path(key), self.sum(key), self.folder / f"{key}.plan"):
            try:
                path.unlink()
            except OSError:
                pass

    def publish(self, key: str, content: bytes) -> Path:
        """Put a complete library in place atomically.

        Raises:
            OSError: The disk is full, or the folder cannot be written.
        """
        # Write the checksum last: a process that finds a new library with an old checksum rebuilds
        # it.
        self.write(self.path(key), content)
        self.write(self.sum(key), hashlib.sha256(content).digest())
        self._tidy()
        return self.path(key)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file by way of a temporary one. Raises `OSError`."""
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise

    def _tidy(self) -> None:
        global _COUNT
        with _LOCK:
            _COUNT += 1
            due = _COUNT % _EVERY == 1
        if due:
            self.evict(time.time())

    def evict(self, now: float) -> int:
        """Remove the libraries not used for the longest time until the rest fits.

        Args:
            now: Seconds since the epoch.

        Returns:
            The number of libraries removed.
        """
        files: list[tuple[float, int, str]] = []
        for entry in os.scandir(self.folder):
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # removed by another process
            if entry.name.endswith(".so"):
                files.append((info.st_mtime, info.st_size, entry.name[: -len(".so")]))
            elif entry.name.endswith(".plan"):
                files.append((info.st_mtime, info.st_size, entry.name[: -len(".plan")]))
            elif entry.name.endswith(".tmp") and now - info.st_mtime > 6 * _IN_USE_S:
                Path(entry.path).unlink(missing_ok=True)  # left by a killed process
        files.sort()
        size, count, removed = sum(entry_[1] for entry_ in files), len(files), 0
        for used, nbytes, key in files:
            if (size <= MOST_BYTES and count <= MOST_FILES) or now - used < _IN_USE_S:
                break
            self.drop(key)
            size, count, removed = size - nbytes, count - 1, removed + 1
        return removed


def opened(folder: Path) -> tuple[Cache | None, str]:
    """The cache in a folder, created if necessary; or None and the reason."""
    try:
        # Create these two one by one: ``parents=True`` ignores ``mode`` for parents.
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for directory in (folder.parent, folder):
            directory.mkdir(mode=0o700, exist_ok=True)
            reason = distrusted(directory, within=directory is not folder)
            if reason:
                return None, reason
        handle, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        return None, f"the cache {folder} cannot be written: {error.strerror or error}"
    return Cache(folder), ""
