"""The address of this user's server, for programs that attach by themselves.

Invariant: the file is readable by its owner alone, and its token appears nowhere else.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from nodescope.errors import LinkError
from nodescope.plain_files import read_plain

TOKEN_VARIABLE: Final = "NODESCOPE_LINK_TOKEN"
_MOST_BYTES: Final = 1 << 16
ADDRESS_VARIABLE: Final = "NODESCOPE_LINK"


class Address(msgspec.Struct, frozen=True):
    """``ws://127.0.0.1:7711/link`` and the bearer token that it requires."""

    link: str
    token: str


def place() -> Path:
    """The file in which a server that waits for programs publishes its address."""
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nodescope" / "server.json"


def publish(address: Address) -> Path:
    """Write the file, mode 0600, replacing that of another server."""
    path = place()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(address))
    fresh.replace(path)
    return path


def withdraw(address: Address) -> None:
    """Remove the file, unless it belongs to another server by now."""
    try:
        if find() == address:
            place().unlink()
    except (LinkError, OSError):
        pass


def find(link: str | None = None) -> Address:
    """The server to attach to: ``link``, else the environment's, else the one that published its
    address.

    Raises:
        LinkError: No server is known, or no token for it.
    """
    link = link or os.environ.get(ADDRESS_VARIABLE)
    token = os.environ.get(TOKEN_VARIABLE, "")
    if link and token:
        return Address(link, token)
    try:
        published = msgspec.json.decode(read_plain(place(), _MOST_BYTES), type=Address)
    except (OSError, msgspec.MsgspecError):
        raise LinkError(
            "no nodescope server found", hint="start one with 'nodescope serve'"
        ) from None
    if link and link != published.link:
        raise LinkError(f"no token for {link} is known", hint=f"set {TOKEN_VARIABLE}")
    return published
