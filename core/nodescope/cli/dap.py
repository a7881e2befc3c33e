"""``nodescope dap``: the Debug Adapter Protocol on standard streams, or on a port.

Invariant: on standard streams nothing but messages is written to standard output. A port is open on
loopback only, to one editor after another.
"""

from __future__ import annotations

import argparse
import io
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from nodescope import api
from nodescope.cli.terminal_commands import BY_NAME, Console
from nodescope.dap.adapter import Adapter
from nodescope.dap.attaching import Door
from nodescope.dap.debuggee import Debuggee
from nodescope.dap.framing import Channel
from nodescope.debug.controller import Controller
from nodescope.errors import UsageError


def dap(options: argparse.Namespace) -> int:
    """Serve editors; the exit status."""
    if options.port is None:
        # What anything else prints must not get between the messages.
        writer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        Adapter(Channel(sys.stdin.buffer, writer)).serve()
        return 0
    try:
        listener = socket.create_server(("127.0.0.1", options.port))
    except OSError as error:
        raise UsageError(f"port {options.port} cannot be used: {error.strerror}") from None
    with listener:
        print(f"nodescope: debug adapter on 127.0.0.1:{listener.getsockname()[1]}",
              file=sys.stderr, flush=True)  # fmt: skip
        while True:
            connection, _ = listener.accept()
            channel = Channel.of(connection)
            Adapter(channel).serve()
            channel.close()


def reached(observed: api.Run, where: tuple[str, int, str, bool]) -> Debuggee:
    """The debuggee of a run, connected with its adapter, which has configured everything."""
    host, port, token, ends = where
    controller = observed.controller()
    debuggee = Debuggee(controller, ends=ends, console=console_of(controller))
    debuggee.connect(host, port, token)
    return debuggee


def let_in(observed: api.Run) -> Door:
    """Let editors come to a run, one after another."""
    controller = observed.controller(attend=False)
    return Door(controller, observed.info.name, console_of(controller))


def console_of(controller: Controller) -> Callable[[str], str | None]:
    """The terminal debugger's commands, for an editor's console: a line in, what it says out.

    None for what is no command. What is both, such as ``step`` or ``step * 2``, is the expression.
    """
    said: list[str] = []
    console = Console(controller, said.append)

    def run(line: str) -> str | None:
        word, _, rest = line.partition(" ")
        spec = BY_NAME.get(word)
        if spec is None or (rest.strip() and not spec.arguments):
            return None
        said.clear()
        console.run(line)
        return "\n".join(said)

    return run


def lasting_streams() -> None:
    """Let standard streams outlive who reads them: a program runs on when its adapter is killed."""
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
