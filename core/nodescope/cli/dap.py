"""``nodescope dap``: the Debug Adapter Protocol on standard streams, a port, or a Unix socket.

Invariant: on standard streams, nothing but messages is written to standard output. Anyone who can
talk to the adapter can start programs, so only its own user may: a port listens on loopback only
and rejects other users, a Unix socket is that user's file. It serves one editor after another.
"""

from __future__ import annotations

import argparse
import io
import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodescope import api
from nodescope.cli.terminal_commands import BY_NAME, Console
from nodescope.console_output import say
from nodescope.dap.adapter import DebugAdapter
from nodescope.dap.attaching import EditorListener
from nodescope.dap.debuggee import Debuggee
from nodescope.dap.framing import Channel
from nodescope.debug.controller import Controller
from nodescope.errors import UsageError
from nodescope.link.owner import can_tell, is_this_users


def dap(options: argparse.Namespace) -> int:
    """Serve editors; return the exit status."""
    if options.port is None and options.socket is None:
        # Other output must not get between the messages.
        writer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        DebugAdapter(Channel(sys.stdin.buffer, writer)).serve()
        return 0
    if options.port is not None and options.socket is not None:
        raise UsageError("--port and --socket cannot be combined", hint="leave out one of them")
    listener = _on_port(options.port) if options.socket is None else _on_file(options.socket)
    try:
        while True:
            connection, _ = listener.accept()
            if options.socket is None and not is_this_users(connection):
                connection.close()
                say("refused a connection from another user")
                continue
            channel = Channel.of(connection)
            DebugAdapter(channel).serve()
            channel.close()
    finally:
        listener.close()
        if options.socket is not None:
            options.socket.unlink(missing_ok=True)


def _on_port(port: int) -> socket.socket:
    if not can_tell():
        raise UsageError(
            "--port: this system does not say which user connects to it, and any could",
            hint="use --socket FILE, or no option for standard streams",
        )
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}") from None
    say(f"debug adapter on 127.0.0.1:{listener.getsockname()[1]}")
    return listener


def _on_file(path: Path) -> socket.socket:
    """A Unix socket that only this user can connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # it is never open to other users, not even for a moment
    try:
        _remove_stale(path)
        listener.bind(str(path))
        listener.listen()
    except (OSError, ValueError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--socket: {str(path)!r} cannot be used: {reason}") from None
    finally:
        os.umask(mask)
    say(f"debug adapter on {path}")
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the socket of an adapter that was killed; anything else stays."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(str(path))
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass


def reached(observed: api.Run, address: tuple[str, int, str, bool]) -> Debuggee:
    """The debuggee of a run, connected to its adapter, which has configured everything."""
    host, port, token, ends = address
    controller = observed.controller()
    debuggee = Debuggee(controller, ends=ends, console=console_of(controller))
    debuggee.connect(host, port, token)
    return debuggee


def let_in(observed: api.Run) -> EditorListener:
    """Let editors attach to a run, one after another."""
    controller = observed.controller(attend=False)
    return EditorListener(controller, observed.info.name, console_of(controller))


def console_of(controller: Controller) -> Callable[[str], str | None]:
    """The terminal debugger's commands for an editor's console: a function from a line to its
    output.

    The function returns None for a line that is not a command. A line that could be both, such as
    ``step`` or ``step * 2``, is an expression.
    """
    output: list[str] = []
    console = Console(controller, output.append)

    def run(line: str) -> str | None:
        word, _, argument_text = line.partition(" ")
        spec = BY_NAME.get(word)
        if spec is None or (argument_text.strip() and not spec.arguments):
            return None
        output.clear()
        console.run(line)
        return "\n".join(output)

    return run


def lasting_streams() -> None:
    """Let standard streams outlive their reader: a program continues when its adapter is killed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        stream.flush()
        raw = _Lasting(stream.fileno(), "wb", closefd=False)
        lasting = io.TextIOWrapper(
            io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True
        )
        setattr(sys, name, lasting)
        setattr(sys, f"__{name}__", lasting)


class _Lasting(io.FileIO):
    def write(self, data: Any) -> Any:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)
