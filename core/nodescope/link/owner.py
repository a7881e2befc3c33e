"""The owner of the process at the other end of a local connection.

A port of the loopback interface is open to every user of the machine. Linux lists its connections
with the user who made each one.

Invariant: an unknown owner is reported as unknown, never guessed; a connection that was already
closed by its maker counts as nobody's, because the list shows 0 for it.
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
_MAPPED: Final = "0000000000000000FFFF0000"  # an IPv4 address within an IPv6 one


def can_tell() -> bool:
    """Whether this system says who made a connection."""
    try:
        return bool(TABLES[0].read_bytes())
    except OSError:
        return False


def owner_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user id of whoever connected from ``client`` to ``server``; None if it is not known.

    Args:
        client: IPv4 address and port of the end in question, as `socket.getpeername` gives it.
        server: Those of our end.
    """
    try:
        client_text, server_text = _written(*client), _written(*server)
    except ValueError:
        return None
    for table, prefix in zip(TABLES, ("", _MAPPED), strict=True):
        pattern = f" {prefix}{client_text} {prefix}{server_text} {_ESTABLISHED} "
        try:
            lines = table.read_text("ascii").splitlines()
        except OSError:
            continue
        for line in lines:
            if pattern in line:
                fields = line.split()
                # Without an inode it has no process any more.
                return int(fields[7]) if fields[9] != "0" else None
    return None


def is_this_users(connection: socket.socket) -> bool:
    """Whether an accepted connection was made by this user, or by root, who may do anything."""
    try:
        return is_users(connection.getpeername(), connection.getsockname())
    except OSError:
        return False  # it is gone already


def is_users(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """As `is_this_users`, of a connection's two ends."""
    owner = owner_of(client, server)
    return owner is not None and owner in (os.geteuid(), 0)


def is_foreign(connection: socket.socket) -> bool:
    """Whether it is known to be another user's: a token need not even be asked for."""
    return can_tell() and not is_this_users(connection)


def _written(host: str, port: int) -> str:
    """As the kernel writes it: the address as a number of this machine's byte order."""
    number = int.from_bytes(IPv4Address(host).packed, sys.byteorder)
    return f"{number:08X}:{port:04X}"
