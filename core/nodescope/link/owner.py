"""The owner of the process at the other end of a local connection.

A port of the loopback interface is open to every user of the machine. Linux lists its connections,
each with the user who made it.

Invariant: an unknown owner is reported as unknown, never guessed; a connection already closed by
its maker counts as unowned, because the list shows 0 for it.
"""

from __future__ import annotations

import os
import socket
import sys
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_ESTABLISHED: Final = "01"
# How often the list is read: the kernel gives it in pieces, and may leave out a connection while
# others are made and closed.
_READINGS: Final = 3
_MAPPED: Final = "0000000000000000FFFF0000"  # an IPv4 address within an IPv6 one


def can_tell() -> bool:
    """Whether this system reports who made a connection."""
    try:
        return bool(TABLES[0].read_bytes())
    except OSError:
        return False


def owner_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user id of the process that connected from ``client`` to ``server``; None if unknown.

    Args:
        client: IPv4 address and port of the other end, as from `socket.getpeername`.
        server: Address and port of our end.
    """
    try:
        client_text, server_text = _written(*client), _written(*server)
    except ValueError:
        return None
    for _ in range(_READINGS):
        for table, prefix in zip(TABLES, ("", _MAPPED), strict=True):
            pattern = f" {prefix}{client_text} {prefix}{server_text} "
            try:
                lines = table.read_text("ascii").splitlines()
            except OSError:
                continue
            for line in lines:
                if pattern in line:
                    fields = line.split()
                    # Without an inode, the socket has no process any more.
                    known = fields[3] == _ESTABLISHED and fields[9] != "0"
                    return int(fields[7]) if known else None
    return None


def is_this_users(connection: socket.socket) -> bool:
    """Whether an accepted connection was made by this user, or by root."""
    try:
        return is_users(connection.getpeername(), connection.getsockname())
    except OSError:
        return False  # the connection is already gone


def is_users(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Like `is_this_users`, for the two ends of a connection."""
    owner = owner_of(client, server)
    return owner is not None and owner in (os.geteuid(), 0)


def is_foreign(connection: socket.socket) -> bool:
    """Whether a connection is known to be another user's, so that its token need not be
    requested.
    """
    return can_tell() and not is_this_users(connection)


def _written(host: str, port: int) -> str:
    """An address in the kernel's notation: a number in this machine's byte order."""
    number = int.from_bytes(IPv4Address(host).packed, sys.byteorder)
    return f"{number:08X}:{port:04X}"
