"""Listening: the socket, and how uvicorn serves it.

Invariant: 127.0.0.1 only; peers that send nothing, or read nothing, are dropped.
"""

from __future__ import annotations

import asyncio
import errno
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nodescope_server.app import App
from nodescope_server.sockets.io import MAX_FRAME_BYTES

MORE_PORTS = 50
REQUEST_S = 10.0


def bind(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1, at ``port`` or the next free of the 50 after it.

    Raises:
        OSError: No port is free, or listening is not allowed.
    """
    for candidate in [0] if port == 0 else range(port, min(port + MORE_PORTS, 65535) + 1):
        # The protocol is given explicitly: only then does asyncio set TCP_NODELAY; without it, each
        # small message waits 40 ms for the acknowledgement of the previous one.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # Connections of a server that has just ended do not block its port; a listener does.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", candidate))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        return prepared(listener)
    raise OSError(errno.EADDRINUSE, f"it and the {MORE_PORTS} ports after it are taken")


def adopted(descriptor: int) -> socket.socket:
    """The listening socket passed on by the parent process.

    Raises:
        OSError: The descriptor is not a socket.
    """
    return prepared(
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, descriptor)
    )


def prepared(listener: socket.socket) -> socket.socket:
    """The socket, prepared for serving."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # The kernel drops peers that acknowledge nothing, or read nothing, for this long.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
    listener.setblocking(False)
    return listener


def uvicorn_config(app: App) -> uvicorn.Config:
    """uvicorn's settings: pure Python parsers, no logs, frames up to 16 MiB, no compression."""
    return uvicorn.Config(
        app,
        http=_Punctual,
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        workers=1,  # whatever WEB_CONCURRENCY says
    )


class _Punctual(H11Protocol):
    """HTTP with a limit of ten seconds for each request to arrive, so that idle clients do not use
    up the connections.

    Uvicorn itself closes a connection only if no byte of a next request has arrived.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaited: asyncio.TimerHandle | None = None
        self._await()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._done()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Start or stop the timeout of an incomplete request."""
        if self.transport.get_protocol() is not self:
            self._done()  # it is a WebSocket now
        elif self.conn.their_state is h11.SEND_BODY or (
            self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        ):
            if self._awaited is None:
                self._await()
        else:
            self._done()

    def _await(self) -> None:
        self._awaited = self.loop.call_later(REQUEST_S, self._overdue)

    def _done(self) -> None:
        if self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None

    def _overdue(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def allow_many_files() -> None:
    """Raise the soft limit of 1,024 files: each connection and each recording is an open file."""
    try:
        import resource
    except ImportError:  # not a Unix system: no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = 16_384 if hard == resource.RLIM_INFINITY else min(16_384, hard)
    if soft != resource.RLIM_INFINITY and soft < raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
