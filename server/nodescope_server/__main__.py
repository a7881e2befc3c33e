"""``python -m nodescope_server``: listens, prints its address as one line of JSON, ends with its
parent.

Invariant: one line on stdout, when the server is reachable; no token in any log; SIGTERM, SIGINT
and the end of the parent end it within two seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from nodescope.console_output import say
from nodescope.errors import NodescopeError
from nodescope_server.app import App, Config, create_app
from nodescope_server.listen import adopted, allow_many_files, bind, uvicorn_config

DEFAULT_PORT = 7711
TOKEN_VARIABLE = "NODESCOPE_LINK_TOKEN"
_PARENT_INTERVAL_S = 0.5
_QUIET_CHECKS = 6
# How long a page may take to confirm that its connection is closed, and how often that is checked.
GOODBYE_S = 1.0
_LOOK_S = 0.01
# More turns than an event loop takes to accept a connection, which are three.
_ACCEPTED_TURNS = 10


class Ready(msgspec.Struct, frozen=True):
    """The line on stdout. Programs connect to ``link`` with the token from the environment.

    Attributes:
        url: The address for a user, who may pass it to any browser.
        personal: The address for a browser that nodescope starts for this user. Other users can
            read it in the browser's arguments.
    """

    url: str
    personal: str
    link: str
    port: int
    pid: int


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop; return the exit status."""
    options = _parse(arguments)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)
    try:
        listener = bind(options.port) if options.listener is None else adopted(options.listener)
    except OSError as error:
        print(f"nodescope: cannot listen on port {options.port}: {error}", file=sys.stderr)
        return 1
    port = listener.getsockname()[1]
    if port != options.port and options.port and not options.quiet:
        print(f"nodescope: port {options.port} is taken, using {port} instead", file=sys.stderr)
    # Removed from the environment, so that nothing started from here can read it.
    bearer = os.environ.pop(TOKEN_VARIABLE, "")
    app = create_app(Config(port=port, bearer=bearer, folder=options.folder, waits=options.waits))
    server = _Server(app)
    allow_many_files()

    def on_signal(number: int, frame: object) -> None:
        # While serving, uvicorn handles signals itself and raises them again when it ends; this
        # handler ignores those.
        if not server.should_exit:
            os._exit(0)  # does not wait for a thread that is still opening a recording

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, on_signal)
    try:
        asyncio.run(_serve(server, app, listener, options))
    except NodescopeError as error:
        say(str(error))
        return 1
    return 0


class _Server(uvicorn.Server):
    """A server that notifies the pages at its end, so that they do not wait for it to come back."""

    def __init__(self, app: App) -> None:
        super().__init__(uvicorn_config(app))
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    async def main_loop(self) -> None:
        """Run until the end: uvicorn checks ten times a second, a signal ends it at once."""
        self._loop = asyncio.get_running_loop()
        looking = asyncio.ensure_future(super().main_loop())
        stopping = asyncio.ensure_future(self._told.wait())
        await asyncio.wait((looking, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not looking.cancel():
            looking.result()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send the latest state to the pages; then close the connections with code 1012.

        A page may be sending at that moment. A socket that is closed with unread data is reset, and
        the page then sees a broken connection instead of the 1012. Without an open page, the server
        ends at once, because commands wait for it.
        """
        watched = self._app.runs.watched
        await self._app.farewell()
        if not watched:
            await self.lifespan.shutdown()
            return
        try:
            async with asyncio.timeout(GOODBYE_S):
                await asyncio.sleep(_LOOK_S)
                while any(map(_is_closing, self.server_state.connections)):
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            pass  # a frozen page
        await self._accept_no_more()
        await super().shutdown(sockets)

    async def _accept_no_more(self) -> None:
        """Leave no connection half accepted, which the end of the server would not close.

        A browser would use it for the next server on this port, whose token is unknown here.
        """
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for listener in (opened for server in self.servers for opened in server.sockets):
                loop.remove_reader(listener)
        for _ in range(_ACCEPTED_TURNS):
            await asyncio.sleep(0)


def _is_closing(connection: object) -> bool:
    """Whether a WebSocket was closed on this side, but not yet by its peer."""
    return isinstance(connection, WebSocketsSansIOProtocol) and connection.close_sent


async def _serve(
    server: uvicorn.Server, app: App, listener: socket.socket, options: argparse.Namespace
) -> None:
    for path in options.open:
        await app.runs.open(path)
    port = listener.getsockname()[1]
    parent = asyncio.ensure_future(_end_with(options.parent_pid, server, app))
    announce = asyncio.ensure_future(_announce(app, server, port))
    try:
        await server.serve(sockets=[listener])
    finally:
        parent.cancel()
        announce.cancel()


async def _announce(app: App, server: uvicorn.Server, port: int) -> None:
    while not server.started:
        await asyncio.sleep(0.005)
    host = f"127.0.0.1:{port}"
    url, personal = (
        f"http://{host}/?token={app.keys.mint(personal=personal_only)}"
        for personal_only in (False, True)
    )
    ready = Ready(url, personal, f"ws://{host}/link", port, os.getpid())
    print(msgspec.json.encode(ready).decode(), flush=True)


async def _end_with(parent: int | None, server: uvicorn.Server, app: App) -> None:
    """Stop the server once the process ``parent`` is gone and no page is open any more.

    The recording of a killed program stays available to pages that are debugging it.
    """
    if parent is None:
        return
    await _gone(parent)
    # A page being reloaded is away for a moment.
    quiet = 0 if app.runs.watched else _QUIET_CHECKS
    while quiet < _QUIET_CHECKS:
        await asyncio.sleep(_PARENT_INTERVAL_S)
        quiet = 0 if app.runs.watched else quiet + 1
    server.should_exit = True


async def _gone(parent: int) -> None:
    """Wait until the process ``parent`` has ended."""
    if hasattr(os, "pidfd_open"):
        try:
            ended = asyncio.Event()
            handle = os.pidfd_open(parent)
        except ProcessLookupError:
            return
        except OSError:
            pass  # an old kernel: poll from time to time
        else:
            loop = asyncio.get_running_loop()
            loop.add_reader(handle, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(handle)
                os.close(handle)
            return
    is_child = os.getppid() == parent
    while _is_alive(parent) and (os.getppid() == parent or not is_child):
        await asyncio.sleep(_PARENT_INTERVAL_S)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, under another user
    return True


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m nodescope_server",
        description="The server of nodescope; 'nodescope run' and 'nodescope open' start it.",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 takes any free one")
    parser.add_argument(
        "--listener", type=int, metavar="FD", help="a socket that listens, instead of the port"
    )
    parser.add_argument(
        "--open", type=Path, action="append", default=[], metavar="FILE", help="a recording"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="list the recordings in this folder"
    )
    parser.add_argument("--waits", action="store_true", help="programs may attach by themselves")
    parser.add_argument("--parent-pid", type=int, metavar="PID", help="end when this one ends")
    parser.add_argument("--quiet", action="store_true", help="say nothing on stderr")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Unlike SystemExit, this does not wait for threads that read a recording or draw an export.
    os._exit(status)
