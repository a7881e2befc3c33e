"""Messages between debuggee and server: msgpack over one WebSocket at ``/link``.

The records themselves are not sent: the debuggee writes them to its recording and reports how far
it has committed; the server reads the same file. Live and recorded runs share this path.

Invariant: plain data, one union per direction, tagged by ``type``.
"""

from __future__ import annotations

import msgspec

from nodescope.arrays.planes import Plane
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import TensorSpec
from nodescope.protocol import Command, RunInfo, SessionInfo

# ---------------------------------------------------------------- debuggee -> server


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message, after both ends have proved that they know the token: `link.proof`."""

    protocol: int
    version: str
    run: RunInfo


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """Every record up to ``seq`` can be read from the recording.

    Attributes:
        owes: Whether elements of some records are still to be written; another message follows
            when they are written.
    """

    seq: int
    owes: bool = False


class Trouble(msgspec.Struct, frozen=True, tag="trouble"):
    """A fault of the recording, in a line; empty when it is resolved."""

    text: str


class Observed(msgspec.Struct, frozen=True, tag="observed"):
    """The frameworks observed now, more than at the program's hello."""

    frameworks: tuple[Framework, ...]


class SessionUpdate(msgspec.Struct, frozen=True, tag="session"):
    """The session's state. Everything that a stop refers to was committed before."""

    info: SessionInfo


class CommandTaken(msgspec.Struct, frozen=True, tag="command_taken"):
    """The answer to `Do`; ``error`` is empty or gives the user the reason, ``hint`` the remedy."""

    request: int
    error: str = ""
    hint: str = ""


class LiveValue(msgspec.Struct, frozen=True, tag="live_value"):
    """The answer to `ReadLive`: the elements of the value, if it is still held.

    Attributes:
        spec: The spec of the whole array.
        data: The elements, C order, little-endian: of the whole array, or of the window.
        whole: Whether ``data`` is the whole array.
    """

    request: int
    found: bool
    spec: TensorSpec | None = None
    data: bytes = b""
    whole: bool = True


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye"):
    """The program ended; the recording is complete and closed."""

    status: int
    error: str


FromDebuggee = (
    Hello | Committed | Trouble | Observed | SessionUpdate | CommandTaken | LiveValue | Goodbye
)

# ---------------------------------------------------------------- server -> debuggee


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The debuggee was accepted."""

    version: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The debuggee was refused; the reason names both versions or another cause."""

    reason: str


class Controllers(msgspec.Struct, frozen=True, tag="controllers"):
    """The number of pages that follow this run now."""

    count: int


class Do(msgspec.Struct, frozen=True, tag="do"):
    """A command for the session."""

    request: int
    command: Command


class ReadLive(msgspec.Struct, frozen=True, tag="read_live"):
    """A request for a value that the stopped program still holds (not kept in the recording).

    Attributes:
        plane: The requested window; of a large array, only this is fetched; None for the whole
            array.
    """

    request: int
    value: int
    plane: Plane | None = None


FromServer = Welcome | Refused | Controllers | Do | ReadLive
