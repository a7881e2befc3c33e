"""The adapter: between an editor and the program that it launches.

It starts and ends the program, forwards its output, and passes everything else on to the debuggee,
which is in the program's process.

Invariant: every request is answered exactly once, at the latest when the program ends;
``terminated`` is the last event of a session. A lost editor is a lost adapter: the program
continues, or is ended if its launch says so.
"""

from __future__ import annotations

import codecs
import threading
from collections.abc import Callable
from typing import BinaryIO, Final

from nodescope.dap.attaching import AttachedProgram, attached
from nodescope.dap.capabilities import CAPABILITIES
from nodescope.dap.framing import Channel, Message
from nodescope.dap.launching import Child, launch_of
from nodescope.errors import NodescopeError, UsageError

_JOIN_S: Final = 10.0


class DebugAdapter:
    """One session with an editor."""

    def __init__(self, client: Channel) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._child: Child | AttachedProgram | None = None
        self._editor: Message = {}
        self._waiting: dict[int, Message] = {}  # by the seq under which the debuggee answers
        self._gone = self._done = False
        self._ended = threading.Event()

    def serve(self) -> None:
        """Talk to the editor until it leaves."""
        while not self._gone and (message := self._client.read()) is not None:
            if message.get("type") == "request":
                self._take(message)
        if not self._gone:
            self._lost()

    # ------------------------------------------------------------ the editor

    def _take(self, request: Message) -> None:
        command = str(request.get("command"))
        handler = _REQUESTS.get(command)
        try:
            if not isinstance(request.get("arguments"), dict | None):
                raise UsageError(f"{command}: arguments must be an object")
            if handler is not None:
                handler(self, request)
            else:
                self._hand_on(request)
        except NodescopeError as error:
            self._client.refuse(request, str(error))

    def _initialize(self, request: Message) -> None:
        self._editor = request.get("arguments") or {}
        self._client.respond(request, CAPABILITIES)

    def _attach(self, request: Message) -> None:
        if self._child is not None:
            raise UsageError("this session already has a program")
        program = self._child = attached(request.get("arguments") or {})
        program.channel.request("initialize", self._editor)
        threading.Thread(target=self._until_end, args=(program.channel,), daemon=True).start()
        self._client.respond(request)
        self._client.event("process", {
            "name": program.place.name, "systemProcessId": program.place.pid,
            "isLocalProcess": True, "startMethod": "attach",
        })  # fmt: skip
        self._client.event("initialized")

    def _launch(self, request: Message) -> None:
        if self._child is not None:
            raise UsageError("this session has already launched a program")
        launch = launch_of(request.get("arguments") or {})
        child = self._child = Child(launch)
        pumps = [
            threading.Thread(target=self._pump, args=stream, name="nodescope-output", daemon=True)
            for stream in child.streams
        ]
        for pump in pumps:
            pump.start()
        channel = child.connected()
        if channel is None:
            for pump in pumps:
                pump.join(_JOIN_S)
            status = child.process.wait()
            self._client.refuse(request, f"the program did not start: it ended with status {status}"
                                "; the debug console shows what it wrote")  # fmt: skip
            self._end(status)
            return
        channel.request("initialize", self._editor)
        follower = threading.Thread(target=self._follow, args=(channel,), daemon=True)
        threading.Thread(target=self._wait, args=(child, [*pumps, follower]), daemon=True).start()
        self._client.respond(request)
        self._client.event("process", {
            "name": launch.program, "systemProcessId": child.process.pid,
            "isLocalProcess": True, "startMethod": "launch",
        })  # fmt: skip
        self._client.event("initialized")
        if launch.no_debug:
            channel.request("disconnect", {})
        follower.start()

    def _hand_on(self, request: Message) -> None:
        command = str(request.get("command"))
        child = self._child
        if child is None or child.channel is None:
            raise UsageError(f"{command}: no program was launched")
        with self._lock:
            if self._done:
                raise UsageError(f"{command}: the program has ended")
            seq = child.channel.request(command, request.get("arguments") or {})
            self._waiting[seq] = request

    def _terminate(self, request: Message) -> None:
        """End the program as Ctrl-C would; it may still clean up."""
        if self._child is not None:
            self._child.interrupt()
        self._client.respond(request)

    def _disconnect(self, request: Message) -> None:
        arguments = request.get("arguments") or {}
        self._gone = True
        child = self._child
        if child is not None and child.channel is not None:
            if arguments.get("terminateDebuggee", isinstance(child, Child)):
                child.end()
                self._ended.wait(_JOIN_S)
            else:
                child.channel.request("disconnect", {})
        self._client.respond(request)

    def _lost(self) -> None:
        """Handle an editor that left without notice."""
        self._gone = True
        child = self._child
        if child is not None and child.channel is not None:
            child.channel.close()

    # ------------------------------------------------------------ the program

    def _follow(self, channel: Channel) -> None:
        while (message := channel.read()) is not None:
            if message.get("type") == "event":
                self._client.send({key: message[key] for key in message if key != "seq"})
                continue
            with self._lock:
                request = self._waiting.pop(message.get("request_seq", 0), None)
            if request is not None:
                answer = {key: message[key] for key in message if key != "seq"}
                self._client.send({**answer, "request_seq": request.get("seq", 0)})

    def _pump(self, category: str, stream: BinaryIO) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while part := stream.read1(65536):  # type: ignore[attr-defined]
            if text := decode(part):
                self._client.event("output", {"category": category, "output": text})
        stream.close()

    def _wait(self, child: Child, threads: list[threading.Thread]) -> None:
        status = child.process.wait()
        for thread in threads:
            # Streams that a grandchild still holds open are not waited for.
            if thread.ident is not None:
                thread.join(_JOIN_S)
        self._end(status)

    def _until_end(self, channel: Channel) -> None:
        self._follow(channel)
        self._end(None)

    def _end(self, status: int | None) -> None:
        """Report the end of the program; its status is unknown if it was attached to."""
        with self._lock:
            self._done = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for request in waiting:
            self._client.refuse(request, "the program has ended")
        if status is not None:
            self._client.event("exited", {"exitCode": status})
        self._client.event("terminated")
        self._ended.set()


_REQUESTS: Final[dict[str, Callable[[DebugAdapter, Message], None]]] = {
    "initialize": DebugAdapter._initialize,
    "attach": DebugAdapter._attach,
    "launch": DebugAdapter._launch,
    "terminate": DebugAdapter._terminate,
    "disconnect": DebugAdapter._disconnect,
}
HANDLED: Final = frozenset(_REQUESTS)
