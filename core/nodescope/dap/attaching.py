"""Attaching: how an editor's adapter finds a program that runs, and comes in.

A program that lets editors in listens on a port of the loopback interface, and leaves a file that
says where, with a token that only its own user can read. Editors come one after another; without
one the program runs, unless it is stopped before its first node.

Invariant: nobody comes in without the token; who leaves takes the breakpoints along.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from pathlib import Path
from typing import Any, Final

import msgspec

from nodescope.dap.debuggee import Debuggee
from nodescope.dap.framing import Channel
from nodescope.dap.looking import Console
from nodescope.debug.controller import Controller
from nodescope.errors import UsageError
from nodescope.link.owner import is_foreign

FOLDER: Final = Path(".nodescope", "attach")
_GREET_S: Final = 10.0


class Place(msgspec.Struct, frozen=True):
    """Where a program lets editors in."""

    pid: int
    port: int
    token: str
    name: str


class Door:
    """The program's side: lets editors in, one after another.

    Args:
        controller: Of the run; nobody has attended to it yet.
        name: Of the program, for messages.
        console: Runs the terminal debugger's commands.

    Raises:
        UsageError: The file that says where cannot be written.
    """

    def __init__(self, controller: Controller, name: str, console: Console) -> None:
        self._controller = controller
        self._console = console
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._guest: Debuggee | None = None
        port = self._listener.getsockname()[1]
        self._place = Place(os.getpid(), port, secrets.token_hex(16), name)
        self._file = (FOLDER / f"{os.getpid()}.json").absolute()
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(self._place))
        except OSError as error:
            self._listener.close()
            raise UsageError(f"cannot write {self._file}: {error.strerror}") from None
        threading.Thread(target=self._work, name="nodescope-door", daemon=True).start()

    def close(self) -> None:
        """The program has ended: nobody comes in any more."""
        self._file.unlink(missing_ok=True)
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not every system lets one do that to a listener
        self._listener.close()
        if self._guest is not None:
            self._guest.finish()

    def _work(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            if is_foreign(connection):  # else others could keep the door busy
                connection.close()
                continue
            connection.settimeout(_GREET_S)
            channel = Channel.of(connection)
            request = channel.read() or {}
            given = request.get("arguments")
            told = str(given.get("token") if isinstance(given, dict) else "")
            if secrets.compare_digest(told.encode(), self._place.token.encode()):
                connection.settimeout(None)
                channel.respond(request)
                self._guest = Debuggee(self._controller, console=self._console)
                self._guest.visit(channel)
            channel.close()


class Attach(msgspec.Struct, frozen=True, rename="camel"):
    """The arguments of ``attach``. What editors add is ignored.

    Attributes:
        cwd: The folder in which the program was started; without it, the adapter's.
        process_id: Which program; needed only if several of them wait there.
    """

    cwd: str | None = None
    process_id: int | None = None


class Attached:
    """A program that an editor has come to, and the channel to its debuggee."""

    def __init__(self, place: Place) -> None:
        self.place = place
        try:
            connection = socket.create_connection(("127.0.0.1", place.port), _GREET_S)
        except OSError as error:
            raise UsageError(f"attach: process {place.pid} does not respond: {error}") from None
        self.channel = Channel.of(connection)
        self.channel.request("attach", {"token": place.token})
        if not (self.channel.read() or {}).get("success"):
            self.channel.close()
            raise UsageError(f"attach: process {place.pid} refuses connections",
                             hint="another editor may be there")  # fmt: skip
        connection.settimeout(None)

    def interrupt(self) -> None:
        """As Ctrl-C would."""
        self._signal(signal.SIGINT)

    def end(self) -> None:
        """End it."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        try:
            os.kill(self.place.pid, number)
        except OSError:
            pass  # it has ended


def attached(given: dict[str, Any]) -> Attached:
    """Find the program that is meant, and come in.

    Raises:
        UsageError: There is none, or it is not clear which; the message says what to do.
    """
    try:
        wanted = msgspec.convert(given, Attach)
    except msgspec.ValidationError as error:
        raise UsageError(f"attach: {error}") from None
    folder = Path(wanted.cwd or ".") / FOLDER
    found = [place for each in sorted(folder.glob("*.json")) if (place := _read(each)) is not None]
    if wanted.process_id is not None:
        found = [each for each in found if each.pid == wanted.process_id]
    if not found:
        which = f"process {wanted.process_id}" if wanted.process_id is not None else "no program"
        raise UsageError(f"attach: {which} waits for an editor in {folder}",
                         hint="start it with nodescope run --editor")  # fmt: skip
    if len(found) > 1:
        known = ", ".join(f"{each.pid} ({each.name})" for each in found)
        raise UsageError(
            f"attach: several programs wait: {known}", hint="choose one with processId"
        )
    return Attached(found[0])


def _read(file: Path) -> Place | None:
    """What a file says; None, and the file is gone, if its program is."""
    try:
        place = msgspec.json.decode(file.read_bytes(), type=Place)
        os.kill(place.pid, 0)
    except (ProcessLookupError, msgspec.DecodeError):
        file.unlink(missing_ok=True)
        return None
    except OSError:
        return None
    return place
