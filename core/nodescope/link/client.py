"""Link: the debuggee's connection to the server, in its own threads.

It sends state, not history: the newest commit, the newest session, and answers. So the queue is
naturally bounded, and reconnecting means sending the newest state again.

Invariant: no method waits for the network, except `connect` and `goodbye`, each for a bounded time.
A slow, lost or misbehaving server costs the program nothing. The link knows neither gate nor
recorder, only callables.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import numpy as np
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from nodescope.arrays import ops_of, to_numpy
from nodescope.arrays.planes import placed
from nodescope.errors import ConditionError, LinkError, NodescopeError
from nodescope.events import Array
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import TensorSpec
from nodescope.link import proof
from nodescope.link.messages import (
    CommandTaken,
    Committed,
    Controllers,
    Do,
    FromDebuggee,
    FromServer,
    Goodbye,
    Hello,
    LiveValue,
    Observed,
    ReadLive,
    Refused,
    SessionUpdate,
    Trouble,
    Welcome,
)
from nodescope.processes import refused
from nodescope.protocol import PROTOCOL_VERSION, Command, RunInfo, SessionInfo
from nodescope.record.files.descriptors import Own, high, moved

MAX_FRAME_BYTES: Final = 16 << 20
# Room for the message around the elements of a live value.
MAX_LIVE_BYTES: Final = MAX_FRAME_BYTES - 4096
MAX_ANSWERS: Final = 1024
# A server that does not answer a ping within these two limits is dead: at most 5 s together.
PING_INTERVAL_S: Final = 2.0
PING_TIMEOUT_S: Final = 2.5
BACKOFF_S: Final = (0.1, 2.0)
# The longest wait for the library's thread to start.
_OPENING_S: Final = 1.0

_encode_text = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FromServer).decode
_FAILURES: Final = (OSError, TimeoutError, WebSocketException, LinkError)


def _encode(message: FromDebuggee) -> bytes:
    try:
        return _encode_text(message)
    except UnicodeEncodeError:
        # Names in the program may hold bytes that are not valid Unicode.
        plain = msgspec.to_builtins(message, builtin_types=(bytes,))
        return _encode_text(_escaped(plain))


def _escaped(plain: Any) -> Any:
    if isinstance(plain, str):
        return plain.encode("utf-8", "backslashreplace").decode()
    if isinstance(plain, dict):
        return {_escaped(key): _escaped(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_escaped(element) for element in plain]
    return plain


@dataclass(frozen=True)
class Handlers:
    """Callbacks of the link, called on its own thread.

    Attributes:
        command: Executes a command; a `NodescopeError` becomes the answer.
        controllers: Called with the number of pages that follow this run now.
        live_value: Returns the array of a value id that the stopped program still holds, or None.
        up: Called when the server has accepted this run, for the first time or again.
        lost: Called when the server is gone.
        warn: Prints a one-line message.
    """

    command: Callable[[Command], None]
    controllers: Callable[[int], None]
    live_value: Callable[[int], Array | None]
    up: Callable[[], None]
    lost: Callable[[], None]
    warn: Callable[[str], None]


# `Link` reports its own state in a line; the library would log to the program's stderr.
_UNHEARD: Final = logging.getLogger("nodescope.link")
_UNHEARD.setLevel(logging.CRITICAL + 1)


class _Socket(Own):
    """A socket that signals its first use by the library's own thread."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.used = threading.Event()
        self._opener = threading.get_ident()
        super().__init__(*args, **options)

    def fileno(self) -> int:
        """As in a socket."""
        if threading.get_ident() != self._opener:
            self.used.set()
        return super().fileno()


class _Connection(ClientConnection):
    """A connection that ends silently if the program has closed its descriptors."""

    def __init__(self, sock: _Socket, *args: Any, **options: Any) -> None:
        # The library opens descriptors here and later in its thread; these get high numbers as
        # well.
        with high():
            super().__init__(sock, *args, **options)
            sock.used.wait(_OPENING_S)

    def recv_events(self) -> None:
        try:
            super().recv_events()
        except OSError:
            pass  # in a thread of the library, whose traceback would be printed in the program


class Link:
    """One run's connection to the server.

    Args:
        url: ``ws://127.0.0.1:7711/link``.
        token: The bearer token of the server.
        run: Information on this run; sent on each connection.
        version: The version of nodescope, for messages.
        handlers: The callbacks.
    """

    def __init__(
        self, url: str, token: str, run: RunInfo, handlers: Handlers, *, version: str
    ) -> None:
        self._url = url
        self._token = token
        self._hello = Hello(PROTOCOL_VERSION, version, run)
        self._handlers = handlers
        self._changed = threading.Condition()
        self._connection: ClientConnection | None = None
        self._committed = 0
        self._session: SessionInfo | None = None
        self._unsent_commit = self._owes = False
        self._unsent_session = False
        self._trouble = ""
        self._unsent_trouble = self._unsent_frameworks = False
        self._answers: deque[FromDebuggee] = deque(maxlen=MAX_ANSWERS)
        self._goodbye: Goodbye | None = None
        self._said_goodbye = False
        self._ended = False
        self._why = ""

    # ------------------------------------------------------------ the program's side

    @property
    def connected(self) -> bool:
        """Whether the server has accepted this run and is reachable."""
        return self._connection is not None

    def connect(self, timeout_s: float = 0.25, *, patience_s: float = 2.0) -> None:
        """Try to reach the server, then keep the connection up in the background.

        Args:
            timeout_s: The longest wait if nothing listens.
            patience_s: The longest wait for an answer of a listener: the machine may be busy.

        Raises:
            LinkError: The server is not there, does not answer in time, or refuses; the link is
                inert.
        """
        parts = urlsplit(self._url)
        try:
            socket.create_connection((parts.hostname, parts.port), timeout_s).close()
        except (OSError, ValueError):
            self._ended = True
            raise self._unreached() from None
        try:
            threading.Thread(
                target=self._run, args=(patience_s,), name="nodescope-link", daemon=True
            ).start()
        except RuntimeError as error:
            self._ended = True
            raise LinkError(refused(error) or str(error)) from None
        with self._changed:
            self._changed.wait_for(lambda: self.connected or self._ended, patience_s)
            if self.connected:
                return
            self._ended = True
            self._changed.notify_all()
        raise self._unreached()

    def _unreached(self) -> LinkError:
        return LinkError(
            self._why or f"no nodescope server responds at {self._url}",
            hint="" if self._why else "start one with 'nodescope serve'",
        )

    def committed(self, seq: int, *, owes: bool = False) -> None:
        """Report that records up to ``seq`` are readable. If the recorder ``owes`` elements, some
        are not readable yet.
        """
        with self._changed:
            self._committed = max(seq, self._committed)
            self._owes = owes
            self._unsent_commit = True
            self._changed.notify_all()

    def trouble(self, text: str) -> None:
        """Report a fault of the recording; empty when it is resolved."""
        with self._changed:
            self._trouble = text
            self._unsent_trouble = True
            self._changed.notify_all()

    def observed(self, frameworks: tuple[Framework, ...]) -> None:
        """Report the frameworks observed now; also part of later hellos."""
        with self._changed:
            run = msgspec.structs.replace(self._hello.run, frameworks=frameworks)
            self._hello = msgspec.structs.replace(self._hello, run=run)
            self._unsent_frameworks = True
            self._changed.notify_all()

    def session(self, info: SessionInfo) -> None:
        """Report the session's newest state. Sent after anything committed before this call."""
        with self._changed:
            self._session = info
            self._unsent_session = True
            self._changed.notify_all()

    def goodbye(self, status: int, error: str, timeout_s: float = 2.0) -> bool:
        """Report the end of the program and close; return whether the server was told in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._goodbye = Goodbye(status, error)
            self._changed.notify_all()
            # An unreachable server may soon be back, so wait briefly, but not the full time.
            patience = timeout_s if self.connected else timeout_s / 4
            self._changed.wait_for(lambda: self._said_goodbye or self._ended, patience)
            while self.connected and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            self._ended = True
            self._changed.notify_all()
            return self._said_goodbye

    def close(self) -> None:
        """Drop the connection without notice, as if the program had died."""
        with self._changed:
            self._ended = True
            connection = self._connection
            self._changed.notify_all()
        if connection is not None:
            connection.close()

    # ------------------------------------------------------------ the link's own threads

    def _run(self, timeout_s: float) -> None:
        delay = BACKOFF_S[0]
        while not self._ended:
            was_up = False
            try:
                number = proof.nonce()
                with connect(
                    self._url,
                    sock=self._reach(timeout_s),
                    additional_headers={"Authorization": self._credentials(number)},
                    compression=None,
                    max_size=MAX_FRAME_BYTES,
                    open_timeout=timeout_s,
                    close_timeout=0.5,
                    ping_interval=PING_INTERVAL_S,
                    ping_timeout=PING_TIMEOUT_S,
                    proxy=None,
                    user_agent_header=None,
                    create_connection=_Connection,
                    logger=_UNHEARD,
                ) as connection:
                    self._check(connection, number)
                    self._introduce(connection, timeout_s)
                    was_up, delay, timeout_s = True, BACKOFF_S[0], 2.0
                    self._serve(connection)
            except _FAILURES as error:
                if isinstance(error, LinkError):
                    self._why = str(error)
                    self._ended = True
            finally:
                with self._changed:
                    self._connection = None
                    self._ended = self._ended or self._said_goodbye
                    self._changed.notify_all()
            if was_up:
                self._call(self._handlers.lost)
                if self._why and self._ended:
                    self._call(lambda: self._handlers.warn(self._why))
            with self._changed:
                self._changed.wait_for(lambda: self._ended, delay)
            delay = min(2 * delay, BACKOFF_S[1])

    def _reach(self, timeout_s: float) -> _Socket:
        """A connection with a high descriptor number, out of the program's reach."""
        parts = urlsplit(self._url)
        with socket.create_connection((parts.hostname, parts.port), timeout_s) as plain:
            reached = moved(plain, _Socket)
        reached.settimeout(None)
        return reached

    def _credentials(self, number: str) -> str:
        """A proof of knowing the token that does not reveal it to the listener."""
        return f"{proof.SCHEME} {number}:{proof.proof(self._token, 'program', self._port, number)}"

    @property
    def _port(self) -> int:
        return urlsplit(self._url).port or 80

    def _check(self, connection: ClientConnection, number: str) -> None:
        """Refuse a listener that does not know the token: another process has taken the port."""
        answer = connection.response
        digest = answer.headers.get(proof.HEADER, "") if answer is not None else ""
        if not proof.is_proof(digest, self._token, "server", self._port, number):
            raise LinkError(f"the server at {self._url} is not the one that was started there")

    def _introduce(self, connection: ClientConnection, timeout_s: float) -> None:
        connection.send(_encode(self._hello))
        match self._read(connection, max(timeout_s, 1.0)):
            case Welcome():
                pass
            case Refused(reason=reason):
                raise LinkError(f"the nodescope server refused this run: {reason}")
            case _:
                raise LinkError("the server did not accept this run")
        # Before any message of this connection is handled: their news is newer than "up".
        self._call(self._handlers.up)
        with self._changed:
            if self._ended:
                raise LinkError("the connection was closed")
            self._connection = connection
            self._unsent_commit = self._committed > 0
            self._unsent_session = self._session is not None
            self._unsent_trouble = bool(self._trouble)
            # The requester on the previous connection has given up on the answer.
            self._answers.clear()
            self._changed.notify_all()

    def _serve(self, connection: ClientConnection) -> None:
        writer = threading.Thread(
            target=self._write, args=(connection,), name="nodescope-link-writer", daemon=True
        )
        try:
            writer.start()
        except RuntimeError as error:
            raise LinkError(refused(error) or str(error)) from None
        try:
            while True:
                self._handle(self._read(connection))
        finally:
            with self._changed:
                self._connection = None
                self._changed.notify_all()
            writer.join(1.0)

    def _write(self, connection: ClientConnection) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._has_news(connection))
                    if self._connection is not connection:
                        return
                    batch = self._take_news()
                for message in batch:
                    connection.send(_encode(message))
                if isinstance(batch[-1], Goodbye):
                    with self._changed:
                        self._said_goodbye = True
                        self._changed.notify_all()
                    connection.close()
                    return
        except _FAILURES:
            connection.close()  # The reader notices and reconnects.

    def _has_news(self, connection: ClientConnection) -> bool:
        return (
            self._connection is not connection
            or self._unsent_commit
            or self._unsent_session
            or self._unsent_trouble
            or self._unsent_frameworks
            or bool(self._answers)
            or self._goodbye is not None
        )

    def _take_news(self) -> list[FromDebuggee]:
        """The messages to send, in order: a stop of the session follows the commit that covers
        it.
        """
        batch: list[FromDebuggee] = []
        if self._unsent_commit:
            batch.append(Committed(self._committed, self._owes))
        if self._unsent_session and self._session is not None:
            batch.append(SessionUpdate(self._session))
        if self._unsent_trouble:
            batch.append(Trouble(self._trouble))
        if self._unsent_frameworks:
            batch.append(Observed(self._hello.run.frameworks))
        self._unsent_commit = self._unsent_session = False
        self._unsent_trouble = self._unsent_frameworks = False
        batch.extend(self._answers)
        self._answers.clear()
        if self._goodbye is not None:
            batch.append(self._goodbye)
        return batch

    def _read(self, connection: ClientConnection, timeout_s: float | None = None) -> FromServer:
        data = connection.recv(timeout_s)
        try:
            message: FromServer = _decode(data.encode() if isinstance(data, str) else data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise LinkError(
                f"the server sent a message that this version cannot read: {error}"
            ) from None
        return message

    def _handle(self, message: FromServer) -> None:
        match message:
            case Controllers(count=count):
                self._call(lambda: self._handlers.controllers(count))
            case Do(request=request, command=command):
                self._answer(self._command(request, command))
            case ReadLive():
                self._answer(self._read_live(message))
            case Refused(reason=reason):
                raise LinkError(f"the nodescope server dropped this run: {reason}")

    def _command(self, request: int, command: Command) -> CommandTaken:
        try:
            self._handlers.command(command)
        except ConditionError as error:
            # Users count from 1; the page marks the place.
            column = f" (column {error.column + 1})" if error.column >= 0 else ""
            return CommandTaken(request, error.message + column, error.hint)
        except NodescopeError as error:
            return CommandTaken(request, error.message, error.hint)
        except Exception as error:
            return CommandTaken(request, f"{type(error).__name__}: {error}", "this is a defect")
        return CommandTaken(request)

    def _read_live(self, read: ReadLive) -> LiveValue:
        missing = LiveValue(read.request, found=False)
        try:
            array = self._handlers.live_value(read.value)
            if array is None:
                return missing
            ops = ops_of(array)
            shape = ops.spec(array).shape
            place = None
            if read.plane is not None and None not in shape:
                place = placed(shape, read.plane)
                if math.prod(place.shape) == math.prod(shape):
                    place = None  # the whole array
            if place is None and ops.nbytes(array) > MAX_LIVE_BYTES:
                return missing
            part = to_numpy(array, None if place is None else place.window)
            spec = TensorSpec(part.shape if place is None else shape, part.dtype.name)
            little = np.asarray(part, part.dtype.newbyteorder("<"))
            if little.nbytes > MAX_LIVE_BYTES:
                return missing
            return LiveValue(
                read.request, found=True, spec=spec, data=little.tobytes(), whole=place is None
            )
        except Exception:
            return missing

    def _answer(self, message: FromDebuggee) -> None:
        with self._changed:
            self._answers.append(message)
            self._changed.notify_all()

    def _call(self, handler: Callable[[], None]) -> None:
        """Call a handler; its failure is reported, and the connection stays up."""
        try:
            handler()
        except Exception as error:
            try:
                self._handlers.warn(f"link: {type(error).__name__}: {error}")
            except Exception:
                pass
