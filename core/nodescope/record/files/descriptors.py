"""Descriptors: keeps the file descriptors of recordings and connections out of the program's reach.

A program may close descriptors that it did not open, ``os.closerange(3, 256)``, and open files of
its own, which get the lowest free numbers. SQLite would then write pages into the program's files,
and a connection its messages. So descriptors that stay open get high numbers, and they are checked
against their files before each commit or message.

Invariant: nothing of the program's is closed or changed. If high numbers are unavailable, low ones
are used, and checked.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, TypeVar

try:
    import fcntl
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_HIGHEST: Final = 1024
"""The highest floor. A program that closes higher numbers usually closes all up to its limit, and
occupying 1,000 numbers takes 0.3 ms.
"""

_ROOM: Final = 64
"""Numbers above the floor, for our own descriptors."""

_PART: Final = 250
"""The most descriptors in one message, 253 on Linux."""

_FAULTS: Final = (OSError, ValueError, AttributeError)

_lock = threading.Lock()

Held = tuple[int, int, int]
"""A descriptor, with the device and inode number of its file."""


@contextlib.contextmanager
def high() -> Iterator[None]:
    """Give high numbers to descriptors of all threads within the context. Keep it short."""
    with _lock:
        placeholders: list[int] = []
        before = None
        try:
            with contextlib.suppress(*_FAULTS):
                before = _raise_limit()
                _take(placeholders, _floor(before))
            yield
        finally:
            for first, last in _runs(placeholders):
                os.closerange(first, last + 1)
            if before is not None and resource is not None:
                with contextlib.suppress(*_FAULTS):
                    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Own(socket.socket):
    """A socket that notices when the program has closed or reused its descriptor."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        at = os.fstat(self.fileno())
        self._held = ((self.fileno(), at.st_dev, at.st_ino),)

    def accept(self) -> tuple[socket.socket, Any]:
        """As in a socket. Raises `OSError` if the descriptor is no longer ours."""
        self._look()
        return super().accept()

    def recv(self, *args: Any) -> bytes:
        """As in a socket. Raises `OSError` if the descriptor is no longer ours."""
        self._look()
        return super().recv(*args)

    def recv_into(self, *args: Any) -> int:
        """As in a socket. Raises `OSError` if the descriptor is no longer ours."""
        self._look()
        return super().recv_into(*args)

    def send(self, *args: Any) -> int:
        """As in a socket. Raises `OSError` if the descriptor is no longer ours."""
        self._look()
        return super().send(*args)

    def sendall(self, *args: Any) -> None:
        """As in a socket. Raises `OSError` if the descriptor is no longer ours."""
        self._look()
        super().sendall(*args)

    def shutdown(self, how: int) -> None:
        """As in a socket. Raises `OSError` if the descriptor is no longer ours."""
        self._look()
        super().shutdown(how)

    def close(self) -> None:
        """As in a socket; a descriptor that is no longer ours stays open."""
        if self.fileno() >= 0 and not intact(self._held):
            self.detach()
        super().close()

    def _look(self) -> None:
        if not intact(self._held):
            raise OSError(errno.EBADF, "the program closed the descriptor of this connection")


Kind = TypeVar("Kind", bound=Own)


def moved(connection: socket.socket, kind: type[Kind]) -> Kind:
    """A connection moved to a high descriptor number, if one is available.

    Args:
        connection: The original, which is closed.
        kind: The class of the new connection.
    """
    moved_socket = kind(
        connection.family, connection.type, connection.proto, fileno=_high(connection)
    )
    moved_socket.settimeout(connection.gettimeout())
    connection.close()
    return moved_socket


def _high(connection: socket.socket) -> int:
    """A new descriptor for a connection, with a high number if possible."""
    with _lock:
        before = None
        try:
            before = _raise_limit()
            return int(fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, _floor(before)))
        except (*_FAULTS, NameError):
            return connection.dup().detach()
        finally:
            if before is not None and resource is not None:
                with contextlib.suppress(*_FAULTS):
                    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def held(paths: list[str]) -> tuple[Held, ...]:
    """Descriptors of this process that are open on these files."""
    files = set()
    for path in paths:
        with contextlib.suppress(*_FAULTS):
            at = os.stat(path)
            files.add((at.st_dev, at.st_ino))
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except _FAULTS:
        return ()
    inodes = {inode for _, inode in files}
    opened: list[Held] = []
    for number in numbers:  # about a thousand while descriptors get high numbers
        try:
            at = os.fstat(number)
        except _FAULTS:
            continue
        if at.st_ino in inodes and (at.st_dev, at.st_ino) in files:
            opened.append((number, at.st_dev, at.st_ino))
    return tuple(opened)


def intact(descriptors: tuple[Held, ...]) -> bool:
    """Whether each descriptor still refers to the same file."""
    try:
        for number, device, inode in descriptors:
            at = os.fstat(number)
            if at.st_ino != inode or at.st_dev != device:
                return False
    except OSError:
        return False
    return True


def _raise_limit() -> tuple[int, int] | None:
    """Raise the limit beyond the numbers that the program may use; return the limits before."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft <= _HIGHEST and (hard == resource.RLIM_INFINITY or hard > soft):
        raised = soft + _ROOM
        if hard != resource.RLIM_INFINITY:
            raised = min(raised, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return soft, hard


def _floor(limits: tuple[int, int] | None) -> int:
    """The lowest number to be given out."""
    if limits is None or resource is None:
        return 0
    soft = limits[0] if limits[0] >= 0 else _HIGHEST
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    highest = now - _ROOM if now >= 0 else _HIGHEST
    return max(min(soft, highest, _HIGHEST), 0)


def _take(placeholders: list[int], floor: int) -> None:
    """Occupy all free numbers below ``floor`` with placeholders.

    Works on many at a time: in a busy program, each call releases and reacquires the interpreter
    lock.
    """
    placeholders.append(os.open(os.devnull, os.O_RDONLY))
    # Grow the table in one go: each doubling takes the kernel milliseconds.
    os.close(fcntl.fcntl(placeholders[0], fcntl.F_DUPFD_CLOEXEC, floor))
    left, right = socket.socketpair()
    with left, right:
        while (few := min(floor - placeholders[-1], _PART)) > 0:
            numbers = array.array("i", [placeholders[0]] * few).tobytes()
            left.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
            # Data that was sent is there. If not, somebody closed our socket, which must not block
            # anybody.
            flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0) | socket.MSG_DONTWAIT
            _, answers, _, _ = right.recvmsg(1, socket.CMSG_SPACE(len(numbers)), flags)
            received = array.array("i")
            for _level, _kind, data in answers:
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
            if not received:
                break
            placeholders.extend(received)
    while True:  # the pair's own low numbers are free again
        placeholders.append(os.dup(placeholders[0]))
        if placeholders[-1] >= floor:
            break
    # Numbers above the floor are free again for descriptors opened now.
    placeholders.sort()
    while len(placeholders) > 1 and placeholders[-1] >= floor:
        os.close(placeholders.pop())


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers, as first and last."""
    ordered = sorted(numbers)
    if ordered and ordered[-1] - ordered[0] == len(ordered) - 1:
        return [(ordered[0], ordered[-1])]
    gaps = [(one, next_one) for one, next_one in pairwise(ordered) if next_one != one + 1]
    firsts = [*ordered[:1], *(after for _, after in gaps)]
    lasts = [*(before for before, _ in gaps), *ordered[-1:]]
    return list(zip(firsts, lasts, strict=True))
