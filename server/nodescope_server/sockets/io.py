"""WebSocket operations that both endpoints share.

Invariant: no send lasts longer than its deadline, and no error of a peer leaves this module: a lost
connection reads as None and discards messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

SEND_DEADLINE_S = 5.0
MAX_FRAME_BYTES = 16 * 1024 * 1024


class GoneError(Exception):
    """The peer went away or reads no more."""


async def receive(socket: WebSocket) -> bytes | None:
    """The next binary message; None once the connection has ended.

    A text message ends it: the protocol is binary.
    """
    try:
        message = await socket.receive()
    except (RuntimeError, WebSocketDisconnect):
        return None
    if message["type"] != "websocket.receive":
        return None
    data = message.get("bytes")
    if data is None:
        await close(socket, 1003, "only binary messages are accepted")
        return None
    return bytes(data)


async def send(socket: WebSocket, data: bytes, deadline_s: float) -> None:
    """Send a binary message.

    Raises:
        GoneError: The peer is gone, or did not take the message in time.
    """
    try:
        async with asyncio.timeout(deadline_s):
            await socket.send_bytes(data)
    except TimeoutError:
        raise GoneError(f"the client read nothing for {deadline_s:g} s") from None
    except (RuntimeError, WebSocketDisconnect, OSError) as error:
        raise GoneError(str(error)) from error


async def close(socket: WebSocket, code: int, reason: str = "") -> None:
    """Close the connection if open. Reasons are cut to the 123 bytes that a frame carries."""
    if WebSocketState.DISCONNECTED in (socket.client_state, socket.application_state):
        return
    short = reason.encode()[:123].decode(errors="ignore")
    try:
        async with asyncio.timeout(1.0):
            await socket.close(code, short)
    except (TimeoutError, RuntimeError, WebSocketDisconnect, OSError):
        pass  # already closed


async def first_of(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts concurrently; when one ends or the peer is gone, end the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        expected = (GoneError, asyncio.CancelledError)
        if isinstance(result, BaseException) and not isinstance(result, expected):
            raise result
