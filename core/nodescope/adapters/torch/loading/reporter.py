"""Reporter: the probe of a worker; it reports executions to the program and waits for an answer
where the program may stop.

Invariant: nothing here raises an `Exception` into the worker's code; if the program is gone, the
worker continues unobserved.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import pickle
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import torch

from nodescope.adapters.torch.loading.messages import (
    Configured,
    Defined,
    Fetch,
    Fetched,
    Go,
    Ran,
    Sent,
    Wanted,
    array_of,
    elements,
    sent,
)
from nodescope.adapters.torch.places import Quiet
from nodescope.console_output import last_line, say
from nodescope.emit.emitter import Emitter
from nodescope.events import (
    Demand,
    Event,
    GraphExtended,
    Logged,
    NodeFailed,
    NodeFinished,
    NodeStarted,
)
from nodescope.interactive import cell_name
from nodescope.ir.graph import Node, ScopeDescribed, is_op
from nodescope.origins import is_users
from nodescope.protocol import Frame

_MOST_UNSENT: Final = 64
_UNSENT_NS: Final = 100_000_000
_SLICE_S: Final = 1.0
_MOST_FRAMES: Final = 50
_PARTING: Final = (EOFError, OSError)
_now = time.perf_counter_ns


class Reporter:
    """See `Probe`.

    Args:
        connection: The connection to the program.
        emitter: The worker's emitter.
        quiet: Makes a context in which tensor operations of the reporter are not observed.
        outermost: The code object at which a stack trace ends: frames outside it are not the
            user's.

    Attributes:
        wanted: What has to be reported, as received last.
        broken: Whether the connection to the program has ended.
        stop_text: Why the program has to stop at the next node that has run; or ``""``.
    """

    def __init__(
        self, connection: Connection, emitter: Emitter, quiet: Callable[[], Quiet], outermost: Any
    ) -> None:
        self.wanted = Wanted()
        self.broken = False
        self.stop_text = ""
        self._connection = connection
        self._emitter = emitter
        self._quiet = quiet
        self._outermost = outermost
        self._unsent: list[Any] = []
        self._sent_ns = _now()
        self._parent = os.getppid()
        self._lock = threading.RLock()
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(connection.fileno(), select.POLLIN)

    def greet(self, hello: Any, patience_s: float) -> None:
        """Send which worker this is, and receive what has to be reported.

        Raises:
            OSError: The program does not answer.
        """
        self._connection.send_bytes(pickle.dumps([hello]))
        if not self._connection.poll(patience_s):
            raise TimeoutError("the program does not answer")
        self._take(self._receive())

    def emit(self, event: Event) -> None:
        """Report an event; blocks where the program may stop, until it answers."""
        if self.broken:
            return
        try:
            with self._lock, self._quiet(), torch.no_grad():
                self._report(event)
        except _PARTING:
            self._part()
        except Exception as error:
            say(f"a worker of a data loader goes unobserved: {last_line(error)}")
            self._part()

    def flush(self) -> None:
        """Send the messages that wait to be sent."""
        if not self.broken:
            try:
                with self._lock:
                    self._send()
            except _PARTING:
                self._part()

    def look(self) -> None:
        """Process messages of the program that have arrived, without waiting for more."""
        if not self.broken:
            try:
                with self._lock:
                    while self._is_told():
                        self._take(self._receive())
            except _PARTING:
                self._part()

    def break_here(self, text: str) -> None:
        """Ask the program at the worker's next node, if a debugger is attached to it."""
        self.look()
        if self.wanted.breaks and not self.broken:
            self.stop_text = text

    def _part(self) -> None:
        self.broken = True
        with contextlib.suppress(OSError):
            self._connection.close()
        self._emitter.bus.remove(self)

    # Sending

    def _report(self, event: Event) -> None:
        self.look()
        at = self.wanted.stops_at
        if isinstance(event, GraphExtended):
            self._unsent.append(Defined(event.nodes, event.values))
        elif isinstance(event, ScopeDescribed | Logged):
            self._unsent.append(event)
        elif isinstance(event, NodeFinished):
            asks = bool(self.stop_text) or _covers(at.ends, event.node)
            self._tell(event, "after", event.end_ns, event.outputs, asks, event.attrs)
        elif isinstance(event, NodeStarted):
            if _covers(at.starts, event.node):
                self._tell(event, "before", event.start_ns, (), True)
        elif isinstance(event, NodeFailed):
            now = self._emitter.bus.now_ns()
            self._tell(event, "after", now, (), at.errors, None, event.error)
        if len(self._unsent) >= _MOST_UNSENT or (
            self._unsent and _now() - self._sent_ns > _UNSENT_NS
        ):
            self._send()

    def _tell(
        self, event: NodeFinished | NodeStarted | NodeFailed, when: str, end_ns: int,
        outputs: Sequence[Any], asks: bool, attrs: dict[str, Any] | None = None, error: str = "",
    ) -> None:  # fmt: skip
        most = self.wanted.most
        inputs = tuple(sent(value, most) for value in event.inputs) if asks else ()
        made = tuple(sent(value, most) for value in outputs) if asks or most >= 0 else ()
        stack = self._frames() if asks else ()
        text = self.stop_text if asks and when == "after" else ""
        self._unsent.append(
            Ran(event.node.id, when, event.start_ns, end_ns, asks, inputs, made, attrs, error,
                stack, text)
        )  # fmt: skip
        if text:
            self.stop_text = ""
        if asks:
            self._send()
            self._wait(event, outputs)

    def _send(self) -> None:
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            self._connection.send_bytes(pickle.dumps(unsent))
        self._sent_ns = _now()

    def _frames(self) -> tuple[Frame, ...]:
        """The user's frames, innermost first."""
        frames: list[Frame] = []
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not self._outermost:
            code, file = frame.f_code, frame.f_code.co_filename
            if len(frames) < _MOST_FRAMES and is_users(file):
                line = frame.f_lineno or code.co_firstlineno
                text = linecache.getline(file, line, frame.f_globals).strip()[:500]
                frames.append(Frame(cell_name(file), line, code.co_qualname, text))
            frame = frame.f_back  # type: ignore[assignment]
        return tuple(frames)

    # Receiving

    def _is_told(self) -> bool:
        if self._poll is not None:
            return bool(self._poll.poll(0))
        return self._connection.poll(0)

    def _receive(self) -> Any:
        return pickle.loads(self._connection.recv_bytes())

    def _take(self, message: Any) -> None:
        if isinstance(message, Wanted):
            self.wanted = message
            at = message.stops_at
            starts = at.starts is None or bool(at.starts)
            self._emitter.bus.want(self, Demand(starts, arrays=message.arrays))
            self._connection.send_bytes(pickle.dumps([Configured(message.number)]))

    def _wait(self, event: NodeFinished | NodeStarted | NodeFailed, outputs: Sequence[Any]) -> None:
        """Answer the program's messages until it lets the worker continue."""
        while True:
            while not self._connection.poll(_SLICE_S):
                if os.getppid() != self._parent:
                    raise EOFError
            message = self._receive()
            if isinstance(message, Go):
                self._edit(event, message.edits)
                return
            if isinstance(message, Fetch):
                self._connection.send_bytes(pickle.dumps([_fetched(event, outputs, message)]))
            else:
                self._take(message)

    def _edit(self, event: Any, edits: dict[int, Sent]) -> None:
        node: Node = event.node
        for port, new in edits.items():
            value = node.inputs[port] if port >= 0 else node.outputs[-1 - port]
            array = array_of(new)
            if array is not None:
                self._emitter.bus.edits.setdefault(event.thread, {})[value] = array


def _fetched(event: Any, outputs: Sequence[Any], message: Fetch) -> Fetched:
    try:
        port = message.port
        value = event.inputs[port] if port >= 0 else outputs[-1 - port]
        return Fetched(elements(value, message.window))
    except Exception as error:
        return Fetched(None, str(error) or type(error).__name__)


def _covers(ops: frozenset[str] | None, node: Node) -> bool:
    return ops is None or any(is_op(node, op) for op in ops)
