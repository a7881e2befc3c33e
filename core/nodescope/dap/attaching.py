"""Attaching: how an editor's adapter finds and connects to a running program.

A program that accepts editors listens on a port of the loopback interface, and writes a file with
its address and a token that only its own user can read. It serves one editor after another; without
an editor the program runs, unless it is stopped before its first node.

Invariant: nobody connects without the token; a leaving editor's breakpoints are removed.
"""

from __future__ import annotations

import contextlib
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
from nodescope.dap.inspection import ConsoleCommands
from nodescope.debug.controller import Controller
from nodescope.errors import UsageError
from nodescope.link.owner import is_foreign
from nodescope.plain_files import read_plain
from nodescope.record.files.descriptors import Own, moved

FOLDER: Final = Path(".nodescope", "attach")
_GREET_S: Final = 10.0
_PLACE_BYTES: Final = 1 << 16


class AttachPoint(msgspec.Struct, frozen=True):
    """The address where a program lets editors in."""

    pid: int
    port: int
    token: str
    name: str


class EditorListener:
    """The program's side: lets editors in, one after another.

    Args:
        controller: The run's controller, not attended yet.
        name: The program's name, for messages.
        console: Runs the terminal debugger's commands.

    Raises:
        UsageError: The file with the address cannot be written.
    """

    def __init__(self, controller: Controller, name: str, console: ConsoleCommands) -> None:
        self._controller = controller
        self._console = console
        self._listener = moved(socket.create_server(("127.0.0.1", 0)), Own)
        self._guest: Debuggee | None = None
        port = self._listener.getsockname()[1]
        self._place = AttachPoint(os.getpid(), port, secrets.token_hex(16), name)
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
        """Stop accepting editors, because the program has ended."""
        self._file.unlink(missing_ok=True)
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # some systems do not allow this for a listener
        self._listener.close()
        if self._guest is not None:
            self._guest.finish()

    def _work(self) -> None:
        while True:
            try:
                connection = moved(self._listener.accept()[0], Own)
            except OSError:
                return  # the listener was closed
            if is_foreign(connection):  # otherwise other users could keep it busy
                connection.close()
                continue
            connection.settimeout(_GREET_S)
            channel = Channel.of(connection)
            request = channel.read() or {}
            arguments = request.get("arguments")
            token = str(arguments.get("token") if isinstance(arguments, dict) else "")
            if secrets.compare_digest(token.encode(), self._place.token.encode()):
                connection.settimeout(None)
                channel.respond(request)
                self._guest = Debuggee(self._controller, console=self._console)
                self._guest.visit(channel)
            channel.close()


class Attach(msgspec.Struct, frozen=True, rename="camel"):
    """The arguments of ``attach``. Additional ones from the editor are ignored.

    Attributes:
        cwd: The folder in which the program was started; without it, the adapter's.
        process_id: The program; needed only if several of them wait in that folder.
    """

    cwd: str | None = None
    process_id: int | None = None


class AttachedProgram:
    """A program to which an editor has attached, and the channel to its debuggee."""

    def __init__(self, place: AttachPoint) -> None:
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
                             hint="another editor may be attached")  # fmt: skip
        connection.settimeout(None)

    def interrupt(self) -> None:
        """Interrupt the program as Ctrl-C would."""
        self._signal(signal.SIGINT)

    def end(self) -> None:
        """End the program."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        try:
            os.kill(self.place.pid, number)
        except OSError:
            pass  # the program has ended


def attached(arguments: dict[str, Any]) -> AttachedProgram:
    """Find the requested program, and attach to it.

    Raises:
        UsageError: There is no such program, or several match; the message says what to do.
    """
    try:
        request = msgspec.convert(arguments, Attach)
    except msgspec.ValidationError as error:
        raise UsageError(f"attach: {error}") from None
    folder = Path(request.cwd or ".") / FOLDER
    places = [place for file in sorted(folder.glob("*.json")) if (place := _read(file)) is not None]
    if request.process_id is not None:
        places = [candidate for candidate in places if candidate.pid == request.process_id]
    if not places:
        description = (
            f"process {request.process_id}" if request.process_id is not None else "no program"
        )
        raise UsageError(f"attach: {description} waits for an editor in {folder}",
                         hint="start it with nodescope run --editor")  # fmt: skip
    if len(places) > 1:
        programs = ", ".join(f"{program.pid} ({program.name})" for program in places)
        raise UsageError(
            f"attach: several programs wait: {programs}", hint="choose one with processId"
        )
    return AttachedProgram(places[0])


def _read(file: Path) -> AttachPoint | None:
    """The content of a file; None, with the file removed, if its program is gone."""
    try:
        place = msgspec.json.decode(read_plain(file, _PLACE_BYTES, links=False), type=AttachPoint)
        if place.pid <= 0:  # a negative number would name a process group
            raise ProcessLookupError
        os.kill(place.pid, 0)
    except (ProcessLookupError, OverflowError, msgspec.DecodeError):
        with contextlib.suppress(OSError):
            file.unlink()
        return None
    except OSError:
        return None
    return place
