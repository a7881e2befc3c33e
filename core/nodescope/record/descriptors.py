"""Descriptors: the files of a recording have numbers that no program comes upon.

A program may close descriptors that it does not know, ``os.closerange(3, 256)``, and open files
of its own, which get the lowest numbers that are free. SQLite would write pages into them. So what
SQLite opens in a program gets numbers beyond those, and before each commit it is looked at whether
they still are the files that they were.

Invariant: nothing of the program's is closed or changed. Where high numbers are not to be had,
there are low ones, and the look at them.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Final

try:
    import fcntl
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_HIGHEST: Final = 4096
"""Numbers are not looked for beyond this; the table of descriptors would grow."""

_ROOM: Final = 64
"""For what is opened beyond it."""

_PART: Final = 250
"""So many descriptors one message passes at most, 253 on Linux."""

_FAULTS: Final = (OSError, ValueError, AttributeError)

_lock = threading.Lock()

Held = tuple[int, int, int]
"""A descriptor, and device and number of its file."""


@contextlib.contextmanager
def high() -> Iterator[None]:
    """Inside, what any thread opens gets high numbers. To be left soon."""
    with _lock:
        taken: list[int] = []
        before = None
        try:
            with contextlib.suppress(*_FAULTS):
                before = _raise_limit()
                _take(taken, _floor(before))
            yield
        finally:
            for first, last in _runs(taken):
                os.closerange(first, last + 1)
            if before is not None and resource is not None:
                with contextlib.suppress(*_FAULTS):
                    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def held(paths: list[str]) -> tuple[Held, ...]:
    """The descriptors of this process that are open on these files."""
    wanted = set()
    for path in paths:
        with contextlib.suppress(*_FAULTS):
            at = os.stat(path)
            wanted.add((at.st_dev, at.st_ino))
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except _FAULTS:
        return ()
    opened: list[Held] = []
    for number in numbers:
        with contextlib.suppress(*_FAULTS):
            at = os.fstat(number)
            if (at.st_dev, at.st_ino) in wanted:
                opened.append((number, at.st_dev, at.st_ino))
    return tuple(opened)


def intact(descriptors: tuple[Held, ...]) -> bool:
    """Whether each of them still is the file that it was."""
    try:
        for number, device, inode in descriptors:
            at = os.fstat(number)
            if at.st_ino != inode or at.st_dev != device:
                return False
    except OSError:
        return False
    return True


def _raise_limit() -> tuple[int, int] | None:
    """Allow numbers beyond those that the program may use; the limits as they were."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft <= _HIGHEST and (hard == resource.RLIM_INFINITY or hard > soft):
        wanted = soft + _ROOM
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft, hard


def _floor(limits: tuple[int, int] | None) -> int:
    """The lowest number that is to be given out."""
    if limits is None or resource is None:
        return 0
    soft = limits[0] if limits[0] >= 0 else _HIGHEST
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = now - _ROOM if now >= 0 else _HIGHEST
    return max(min(soft, most, _HIGHEST), 0)


def _take(taken: list[int], floor: int) -> None:
    """Take all numbers below ``floor`` that are free.

    Many at a time: a busy program gives its interpreter away, and gets it back, at each call.
    """
    taken.append(os.open(os.devnull, os.O_RDONLY))
    # The table grows at once, not by doubling, each time of which takes the kernel milliseconds.
    os.close(fcntl.fcntl(taken[0], fcntl.F_DUPFD_CLOEXEC, floor))
    left, right = socket.socketpair()
    with left, right:
        while (few := min(floor - taken[-1], _PART)) > 0:
            numbers = array.array("i", [taken[0]] * few).tobytes()
            left.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
            flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            _, answers, _, _ = right.recvmsg(1, socket.CMSG_SPACE(len(numbers)), flags)
            got = array.array("i")
            for _level, _kind, data in answers:
                got.frombytes(data[: len(data) - len(data) % got.itemsize])
            if not got:
                break
            taken.extend(got)
    while True:  # the pair's own numbers are free again, and low
        taken.append(os.dup(taken[0]))
        if taken[-1] >= floor:
            break
    while len(taken) > 1 and max(taken) >= floor:  # what is beyond is free for what is opened now
        taken.remove(last := max(taken))
        os.close(last)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers that follow each other, as first and last."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
