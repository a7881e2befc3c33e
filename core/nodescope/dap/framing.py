"""Framing: messages of the Debug Adapter Protocol over two byte streams.

Invariant: one thread reads, any thread writes, and only whole messages. A stream with any other
content is closed, never guessed at: a web page that posts to the port achieves nothing.
"""

from __future__ import annotations

import re
import socket
import threading
from typing import Any, BinaryIO, Final

import msgspec

MAX_BYTES: Final = 64 << 20
_HEADER: Final = re.compile(rb"Content-Length: *(\d{1,9})\r?\n", re.IGNORECASE)
_TYPE: Final = re.compile(rb"Content-Type:[^\r\n]*\r?\n", re.IGNORECASE)

Message = dict[str, Any]


class Channel:
    """Messages over a pair of streams.

    Args:
        connection: The socket of both streams, if there is one.
    """

    def __init__(
        self, reader: BinaryIO, writer: BinaryIO, connection: socket.socket | None = None
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()
        self._seq = 0

    @classmethod
    def of(cls, connection: socket.socket) -> Channel:
        """A channel over a connected socket."""
        return cls(connection.makefile("rb"), connection.makefile("wb"), connection)

    def read(self) -> Message | None:
        """The next message; None at the end, or if the input is not a message."""
        length = None
        try:
            while (line := self._reader.readline(200)).strip():
                if match := _HEADER.fullmatch(line):
                    length = int(match[1])
                elif not _TYPE.fullmatch(line):
                    return None
            if not line or length is None or length > MAX_BYTES:
                return None
            content = self._reader.read(length)
            if len(content) < length:
                return None
            message = msgspec.json.decode(content)
        except (OSError, ValueError, msgspec.DecodeError):
            return None
        return message if isinstance(message, dict) else None

    def send(self, message: Message) -> int:
        """Send a message; return its seq. Does nothing once the other end is gone."""
        with self._lock:
            self._seq += 1
            content = msgspec.json.encode({"seq": self._seq, **message})
            try:
                self._writer.write(b"Content-Length: %d\r\n\r\n" % len(content) + content)
                self._writer.flush()
            except (OSError, ValueError):
                pass  # the reader will find the end
            return self._seq

    def request(self, command: str, arguments: Message) -> int:
        """Send a request; return its seq."""
        return self.send({"type": "request", "command": command, "arguments": arguments})

    def respond(self, request: Message, body: Message | None = None) -> None:
        """Answer a request."""
        answer = {
            "type": "response",
            "request_seq": request.get("seq", 0),
            "success": True,
            "command": str(request.get("command", "")),
        }
        self.send(answer if body is None else {**answer, "body": body})

    def refuse(self, request: Message, text: str) -> None:
        """Answer a request with an error, which is shown to the user."""
        self.send(
            {
                "type": "response",
                "request_seq": request.get("seq", 0),
                "success": False,
                "command": str(request.get("command", "")),
                "message": text,
                "body": {"error": {"id": 1, "format": _escaped(text), "showUser": True}},
            }
        )

    def event(self, name: str, body: Message | None = None) -> None:
        """Send an event."""
        message: Message = {"type": "event", "event": name}
        self.send(message if body is None else {**message, "body": body})

    def close(self) -> None:
        """Shut a socket down in both directions; the reader finds the end."""
        if self._connection is None:
            return
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end is already gone
        # The streams stay open until the reader is done: closing them here would wait for it.
        self._connection.close()


def _escaped(text: str) -> str:
    """Text with its braces escaped: in a message's format they stand for variables."""
    return text.replace("{", "(").replace("}", ")")
