"""The endpoint for debuggees: ``/link``.

Invariant: messages of a debuggee are validated, and a lost, slow or hostile debuggee harms no other
run.
"""

from __future__ import annotations

import asyncio

import msgspec
from starlette.websockets import WebSocket

from nodescope import protocol
from nodescope.errors import LinkError, NodescopeError, RecordingError
from nodescope.link import messages
from nodescope_server import __version__
from nodescope_server.runs.debuggee import Peer, encode
from nodescope_server.runs.runs import Run, Runs
from nodescope_server.sockets.io import SEND_DEADLINE_S, GoneError, close, first_of, receive, send

MAX_DEBUGGEES = 64
HELLO_DEADLINE_S = 10.0
MAX_TROUBLE = 1000
# How long to listen to a program that no longer reads.
LAST_WORDS_S = 5.0

_decoder: msgspec.msgpack.Decoder[messages.FromDebuggee] = msgspec.msgpack.Decoder(
    messages.FromDebuggee
)


class Link:
    """Accepts debuggees.

    Args:
        runs: Their runs are added here.
        lost_after_s: How long a run with a broken connection counts as live: it may come back.
    """

    def __init__(self, runs: Runs, *, lost_after_s: float = 2.0) -> None:
        self._runs = runs
        self._lost_after_s = lost_after_s
        self._connected = 0
        self.finishing = 0
        """The number of programs that have said goodbye and whose last records are being read."""
        self._farewells: set[asyncio.Task[None]] = set()

    async def __call__(self, socket: WebSocket) -> None:
        """Serve one connection to its end."""
        await socket.accept()
        self._connected += 1
        try:
            await self._serve(socket)
        finally:
            self._connected -= 1

    async def _serve(self, socket: WebSocket) -> None:
        try:
            async with asyncio.timeout(HELLO_DEADLINE_S):
                hello = await self._next(socket)
        except TimeoutError:
            await _refuse(socket, "no hello received")
            return
        except LinkError as error:
            await _refuse(socket, str(error))
            return
        if hello is None:
            return
        reason = self._objection(hello)
        if reason:
            await _refuse(socket, reason)
            return
        assert isinstance(hello, messages.Hello)
        try:
            run = self._runs.add(hello.run)
        except NodescopeError as error:
            await _refuse(socket, str(error))
            return
        peer = Peer()
        await self._join(run, peer, hello)
        try:
            await first_of(_tell(socket, peer), self._listen(socket, run, peer))
        finally:
            peer.close()
            self._leave(run, peer)
            await close(socket, 1000)

    def _objection(self, hello: messages.FromDebuggee) -> str:
        if not isinstance(hello, messages.Hello):
            return "the first message must be a hello"
        if hello.protocol != protocol.PROTOCOL_VERSION:
            return (
                f"the program speaks protocol {hello.protocol} (nodescope {hello.version}), the "
                f"server protocol {protocol.PROTOCOL_VERSION} (nodescope {__version__}); "
                "start the server again with the program's version"
            )
        if self._connected > MAX_DEBUGGEES:
            return f"{MAX_DEBUGGEES} programs are connected already"
        return ""

    async def _join(self, run: Run, peer: Peer, hello: messages.Hello) -> None:
        # The newer connection of a run wins: the older may be half dead.
        if run.peer is not None:
            run.peer.close()
        run.join(peer)
        run.vouch()
        peer.tell(messages.Welcome(__version__))
        run.tell_controllers()
        # A restarted server finds earlier records in the file.
        await _catch_up(run)
        run.change(msgspec.structs.replace(hello.run, state="live"))
        self._runs.changed()

    def _leave(self, run: Run, peer: Peer) -> None:
        if run.peer is not peer:
            return
        run.peer = None
        if run.info.state == "live":
            task = asyncio.ensure_future(self._give_up(run))
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)

    async def _give_up(self, run: Run) -> None:
        await asyncio.sleep(self._lost_after_s)
        # It may have recorded more than it could still report.
        await _catch_up(run)
        if run.peer is None and run.info.state == "live":
            await run.fold()  # merges only if the program was killed, not while it still runs
        broken = await run.loss_ending()
        if run.peer is None and run.info.state == "live":
            run.session = None
            run.change(msgspec.structs.replace(run.info, state="lost", broken_loss=broken))
            self._runs.changed()

    async def _listen(self, socket: WebSocket, run: Run, peer: Peer) -> None:
        while True:
            try:
                message = await self._next(socket)
            except LinkError as error:
                await close(socket, 1007, str(error))
                return
            match message:
                case None:
                    return
                case messages.Committed(seq, owes):
                    run.commit(seq, owes=owes)
                case messages.Trouble(text):
                    run.change(msgspec.structs.replace(run.info, trouble=text[:MAX_TROUBLE]))
                    self._runs.changed()
                case messages.Observed(frameworks):
                    run.change(msgspec.structs.replace(run.info, frameworks=frameworks))
                    self._runs.changed()
                case messages.SessionUpdate(info):
                    if run.session is None or info.version >= run.session.version:
                        run.update(info)
                case messages.CommandTaken() | messages.LiveValue():
                    peer.answer(message)
                case messages.Goodbye(status, last_line):
                    self.finishing += 1
                    try:
                        await self._finish(run, status, last_line)
                    finally:
                        self.finishing -= 1
                    return
                case messages.Hello():
                    await close(socket, 1002, "a second hello")
                    return

    async def _finish(self, run: Run, status: int, error: str) -> None:
        await _catch_up(run)
        await run.fold()
        broken = await run.loss_ending()
        ended = {"state": "finished", "status": status, "error": error, "broken_loss": broken}
        run.change(msgspec.structs.replace(run.info, **ended))
        self._runs.changed()

    async def _next(self, socket: WebSocket) -> messages.FromDebuggee | None:
        data = await receive(socket)
        if data is None:
            return None
        try:
            return _decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise LinkError(f"a message cannot be read: {error}") from error


async def _tell(socket: WebSocket, peer: Peer) -> None:
    """Send the outbox until the peer is closed, or a departed peer has nothing more to say.

    An ended program is gone at once, but its last messages still have to be read.
    """
    try:
        await _drain(socket, peer)
    except GoneError:
        await asyncio.sleep(LAST_WORDS_S)


async def _drain(socket: WebSocket, peer: Peer) -> None:
    """Send the outbox in order, until the peer is closed or no longer reads."""
    while (data := await peer.outbox.get()) is not None:
        await send(socket, data, SEND_DEADLINE_S)


async def _catch_up(run: Run) -> None:
    """Treat everything in the recording as committed."""
    try:
        run.commit(await run.follow.call(lambda recording: recording.last_seq()))
    except RecordingError:
        pass  # there is no file (yet); earlier reports still count


async def _refuse(socket: WebSocket, reason: str) -> None:
    await send(socket, encode(messages.Refused(reason)), SEND_DEADLINE_S)
    await close(socket, 1008, reason)
