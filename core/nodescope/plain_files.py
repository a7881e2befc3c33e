"""Plain files: reads small files of possibly foreign origin, without ever blocking or reading
endlessly, and checks whether other users can write to a folder.

A path from outside may lead to a pipe, to an endless device, or to a file of any size. Every
such path is read by `read_plain`.

Invariant: imports only what Python has already loaded itself; see `nodescope.processes`.
"""

from __future__ import annotations

import errno
import os
import stat

_PART = 1 << 20


def read_plain(path: str | os.PathLike[str], most_bytes: int, *, links: bool = True) -> bytes:
    """The content of a plain file.

    Args:
        path: The file's path.
        most_bytes: A larger file is not read.
        links: Whether the path itself may be a symbolic link.

    Raises:
        OSError: The file cannot be read, is not a plain file, or is too large; ``strerror`` says
            which.
        ValueError: The path contains a null character.
    """
    if not stat.S_ISREG((os.stat if links else os.lstat)(path).st_mode):
        raise _refused(path, errno.EINVAL, "it is not a plain file")
    # The path may lead to another file by now: opening a pipe must not wait for a writer.
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    if not links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags)
    try:
        at = os.fstat(descriptor)
        if not stat.S_ISREG(at.st_mode):
            raise _refused(path, errno.EINVAL, "it is not a plain file")
        parts: list[bytes] = []
        left = most_bytes + 1
        while left > 0 and at.st_size <= most_bytes:
            part = os.read(descriptor, min(left, _PART))
            if not part:
                return b"".join(parts)
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    raise _refused(path, errno.EFBIG, f"it is larger than {_size(most_bytes)}")


def is_plain(path: str | os.PathLike[str], most_bytes: int | None = None) -> bool:
    """Whether a path leads to a plain file of at most ``most_bytes``."""
    try:
        at = os.stat(path)
        fits = most_bytes is None or at.st_size <= most_bytes
        return stat.S_ISREG(at.st_mode) and fits
    except (OSError, ValueError):
        return False


_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def distrusted(folder: str | os.PathLike[str], *, within: bool = False) -> str:
    """Why code in a folder must not be run, or ``""``: other users who can write there could run
    code as this user.

    Args:
        folder: The folder, which exists.
        within: Whether it is a parent of the code's folder: other users may then write there if
            they cannot remove files that are not theirs (a sticky folder, such as ``/tmp``).

    Raises:
        OSError: The folder cannot be read.
    """
    if not hasattr(os, "geteuid"):
        return ""
    at = os.stat(folder)
    name = os.fspath(folder)
    if at.st_uid not in (os.geteuid(), 0):
        return f"the cache {name} belongs to another user (id {at.st_uid})"
    others = stat.S_IWOTH if within else _OTHERS
    if at.st_mode & others and not (within and at.st_mode & stat.S_ISVTX):
        return f"the cache {name} can be written by others (mode {at.st_mode & 0o777:o})"
    return ""


def _refused(path: str | os.PathLike[str], code: int, reason: str) -> OSError:
    return OSError(code, reason, os.fspath(path))


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"
