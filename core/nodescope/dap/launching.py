"""Launching: starts the program that an editor requests, as a child that connects back to the
adapter.

Invariant: the child is the interpreter named by the editor, running ``nodescope run --dap``; its
streams are pipes, which the adapter drains until the end.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from nodescope.dap.debuggee import VARIABLE
from nodescope.dap.framing import Channel
from nodescope.errors import UsageError
from nodescope.events import LEVELS, Level
from nodescope.link.owner import is_foreign
from nodescope.processes import program_command

# How long a program may take to contact the adapter: it imports NumPy first.
START_S: Final = 120.0
_LOOK_S: Final = 0.1
# How long a new connection may take to identify itself; others wait for that long.
GREET_S: Final = 10.0


class Launch(msgspec.Struct, frozen=True, rename="camel"):
    """The arguments of ``launch``. Additional ones from the editor are ignored.

    Attributes:
        program: The script.
        stop_on_entry: Whether to stop before its first node.
        level: The capture level; None for the default of `nodescope run`.
        record: The recording's file; by default, a new one in ``.nodescope/runs``.
        python: The interpreter; by default, the adapter's.
        no_debug: Whether to run without stopping.
        terminate_on_loss: Whether to end the program if the adapter is lost; otherwise it
            continues.
    """

    program: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: dict[str, str | None] = {}
    stop_on_entry: bool = False
    level: Level | None = None
    record: str | None = None
    python: str | None = None
    no_debug: bool = False
    terminate_on_loss: bool = False


def launch_of(arguments: dict[str, Any]) -> Launch:
    """Validate the arguments sent by an editor.

    Raises:
        UsageError: An argument is missing or invalid; the message names it.
    """
    try:
        launch = msgspec.convert(arguments, Launch)
    except msgspec.ValidationError as error:
        hint = f"levels are {', '.join(LEVELS)}" if "level" in str(error) else ""
        raise UsageError(f"launch: {error}", hint=hint) from None
    folder = launch.cwd or "."
    if not Path(folder).is_dir():
        raise UsageError(f"launch: no folder {folder!r}")
    if not Path(folder, launch.program).is_file():
        raise UsageError(f"launch: no program {launch.program!r}")
    return launch


class Child:
    """A started program, and the channel to its debuggee."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._token = secrets.token_hex(16)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        lost = "terminate" if launch.terminate_on_loss else "continue"
        changed = {key: value for key, value in launch.env.items() if value is not None}
        removed = {key for key, value in launch.env.items() if value is None}
        inherited = {key: value for key, value in os.environ.items() if key not in removed}
        try:
            self.process = subprocess.Popen(
                self._command(),
                cwd=launch.cwd,
                env={**inherited, **changed, VARIABLE: f"127.0.0.1 {port} {self._token} {lost}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Signals from the adapter's terminal are not meant for the program.
                start_new_session=True,
            )
        except OSError as error:
            self._listener.close()
            raise UsageError(f"launch: cannot start {self._command()[0]!r}: {error}") from None
        self.channel: Channel | None = None

    def _command(self) -> list[str]:
        launch = self.launch
        command = program_command("nodescope.cli", "run", "--dap", python=launch.python)
        if launch.level is not None:
            command += ["--level", launch.level]
        if not launch.stop_on_entry:
            command.append("--no-stop-on-entry")
        if launch.record is not None:
            command += ["--record", launch.record]
        return [*command, "--", launch.program, *launch.args]

    @property
    def streams(self) -> tuple[tuple[str, BinaryIO], ...]:
        """The program's output streams, by DAP category."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return (
            ("stdout", self.process.stdout),  # type: ignore[return-value]
            ("stderr", self.process.stderr),
        )

    def connected(self) -> Channel | None:
        """Wait for the program's debuggee; None if the program ended before."""
        try:
            for _ in range(int(START_S / _LOOK_S)):
                if self.process.poll() is not None:
                    return None
                if not select.select([self._listener], [], [], _LOOK_S)[0]:
                    continue
                connection, _ = self._listener.accept()
                if is_foreign(connection):
                    connection.close()
                    continue
                connection.settimeout(GREET_S)
                channel = Channel.of(connection)
                hello = channel.read() or {}
                token = str((hello.get("body") or {}).get("token"))
                if secrets.compare_digest(token.encode(), self._token.encode()):
                    connection.settimeout(None)
                    self.channel = channel
                    return channel
                channel.close()
        finally:
            self._listener.close()
        self.end()
        return None

    def interrupt(self) -> None:
        """Interrupt the program as Ctrl-C would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def end(self, patience_s: float = 5.0) -> None:
        """End the program: politely at first, then by force."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        killer = threading.Timer(patience_s, self.process.kill)
        killer.daemon = True
        killer.start()
        self.process.wait()
        killer.cancel()
