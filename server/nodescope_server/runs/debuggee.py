"""A connected debuggee as seen by the server: requests, notifications and answers.

Invariant: this module contains no transport, and nothing waits for the debuggee without a limit.
The socket's handler drains `outbox` and passes answers to `answer`.
"""

from __future__ import annotations

import asyncio
import itertools

import msgspec

from nodescope.arrays.planes import Plane
from nodescope.errors import LinkError
from nodescope.link.messages import (
    CommandTaken,
    Controllers,
    Do,
    FromServer,
    LiveValue,
    ReadLive,
)
from nodescope.protocol import Command

ANSWER_DEADLINE_S = 10.0
_OUTBOX = 1024

encode = msgspec.msgpack.Encoder().encode


class Peer:
    """One connection of a debuggee.

    Attributes:
        outbox: Encoded messages in order; None ends the connection.
    """

    def __init__(self) -> None:
        self.outbox: asyncio.Queue[bytes | None] = asyncio.Queue(_OUTBOX)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[CommandTaken | LiveValue]] = {}
        self._closed = False

    def tell(self, message: FromServer) -> None:
        """Send without expecting an answer. A debuggee that no longer reads is disconnected."""
        self._put(encode(message))

    def attend(self, count: int) -> None:
        """Report how many browsers follow the run."""
        self.tell(Controllers(count))

    async def command(
        self, command: Command, deadline_s: float = ANSWER_DEADLINE_S
    ) -> CommandTaken:
        """Have a command executed.

        Raises:
            LinkError: The program was lost or did not answer in time.
        """
        number = next(self._numbers)
        answer = await self._ask(number, Do(number, command), deadline_s)
        assert isinstance(answer, CommandTaken)
        return answer

    async def read(
        self, value: int, plane: Plane | None = None, deadline_s: float = ANSWER_DEADLINE_S
    ) -> LiveValue:
        """Request a value that the program holds, or a window of it.

        Raises:
            LinkError: As in `do`.
        """
        number = next(self._numbers)
        answer = await self._ask(number, ReadLive(number, value, plane), deadline_s)
        assert isinstance(answer, LiveValue)
        return answer

    def answer(self, message: CommandTaken | LiveValue) -> bool:
        """Accept an answer; False if it was not, or is no longer, expected."""
        waiting = self._waiting.get(message.request)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(message)
        return True

    def close(self) -> None:
        """End all pending requests: no more answers will come."""
        self._closed = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_lost())
        self._waiting.clear()
        while self.outbox.full():
            self.outbox.get_nowait()
        self.outbox.put_nowait(None)

    async def _ask(
        self, number: int, message: Do | ReadLive, deadline_s: float
    ) -> CommandTaken | LiveValue:
        if self._closed:
            raise _lost()
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._put(encode(message))
            async with asyncio.timeout(deadline_s):
                answer: CommandTaken | LiveValue = await waiting
        except TimeoutError:
            raise LinkError(
                f"the program did not answer within {deadline_s:g} s",
                hint="it may be busy with a long computation; try again",
            ) from None
        finally:
            self._waiting.pop(number, None)
        expected = CommandTaken if isinstance(message, Do) else LiveValue
        if not isinstance(answer, expected):
            raise LinkError("the program answered another request")
        return answer

    def _put(self, data: bytes) -> None:
        if self._closed:
            return
        try:
            self.outbox.put_nowait(data)
        except asyncio.QueueFull:
            self.close()


def _lost() -> LinkError:
    return LinkError("the program is no longer connected")
