"""The debuggee's end: answers an adapter's requests from within the program's process.

Invariant: the program never waits for the adapter but where a debugger stops it; once the adapter
is gone the program runs on, or is ended if that was asked for. Requests are answered in order, and
what a request causes is told after its answer.
"""

from __future__ import annotations

import _thread
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from nodescope.dap.breakpoints import BreakpointSets
from nodescope.dap.framing import Channel, Message
from nodescope.dap.variables import Variables
from nodescope.debug.controller import Controller, Moved
from nodescope.debug.frames import ScopeFrame
from nodescope.debug.vocabulary import CONSTANTS, FUNCTIONS, NAMES
from nodescope.debug.words import array_line, clean, result_line, seen_line
from nodescope.errors import NodescopeError, UsageError
from nodescope.events import Array
from nodescope.protocol import (
    Command,
    Continue,
    Pause,
    SessionInfo,
    StepNode,
    StepOut,
    StepOver,
    Stop,
)

CONNECT_S: Final = 10.0
VARIABLE: Final = "NODESCOPE_DAP"
_MAX_TARGETS: Final = 200
_REASONS: Final = {"entry": "entry", "step": "step", "pause": "pause", "run_to": "goto",
                   "exception": "exception"}  # fmt: skip


def address() -> tuple[str, int, str, bool]:
    """Host, port and token of the adapter, and whether its loss ends the program.

    They come in an environment variable, which is removed: the program's own children have no
    business with it.

    Raises:
        UsageError: Nobody has set it.
    """
    parts = os.environ.pop(VARIABLE, "").split(" ")
    if len(parts) != 4 or not parts[1].isdecimal():
        raise UsageError("--dap is for nodescope dap", hint="start nodescope dap instead")
    return parts[0], int(parts[1]), parts[2], parts[3] == "terminate"


class Debuggee:
    """Speaks with an adapter on behalf of a run.

    Args:
        controller: Of the run, before it starts.
        ends: Whether the loss of the adapter ends the program.
    """

    def __init__(self, controller: Controller, *, ends: bool = False) -> None:
        self._controller = controller
        self._ends = ends
        self._channel: Channel
        self._turn = threading.RLock()  # one request or one event at a time
        self._news: SimpleQueue[SessionInfo | None] = SimpleQueue()
        self._configured = threading.Event()
        self._breakpoints = BreakpointSets(controller)
        self._variables = Variables(controller)
        self._threads: dict[int, int] = {}
        self._frames: tuple[ScopeFrame, ...] = ()
        self._exceptions = True
        self._standing = self._asked = self._over = False
        self._first_line = self._first_column = 1

    def connect(self, host: str, port: int, token: str) -> None:
        """Reach the adapter, and wait until it has configured everything.

        Raises:
            UsageError: Nobody listens there.
        """
        try:
            connection = socket.create_connection((host, port), CONNECT_S)
        except OSError as error:
            raise UsageError(f"no adapter at {host}:{port}: {error}") from None
        connection.settimeout(None)
        self._channel = Channel.of(connection)
        self._controller.listeners = (*self._controller.listeners, self._news.put)
        self._channel.event("nodescope", {"token": token, "pid": os.getpid()})
        for work in (self._read, self._tell):
            threading.Thread(target=work, name="nodescope-dap", daemon=True).start()
        self._configured.wait()

    def finish(self) -> None:
        """The program has ended."""
        with self._turn:
            self._over = True
        self._news.put(None)
        self._channel.close()

    # ------------------------------------------------------------ requests

    def _read(self) -> None:
        while (message := self._channel.read()) is not None:
            if message.get("type") == "request":
                with self._turn:
                    self._answer(message)
        self._lost()

    def _lost(self) -> None:
        if self._over:
            return
        if self._ends:
            self._configured.set()
            _thread.interrupt_main()
            return
        self._controller.leave()
        self._configured.set()

    def _answer(self, request: Message) -> None:
        handler: Callable[..., Any] | None
        handler = _REQUESTS.get(str(request.get("command")))
        if handler is None:
            self._channel.refuse(request, f"no request {request.get('command')!r} here")
            return
        try:
            body = handler(self, request.get("arguments") or {})
        except NodescopeError as error:
            self._channel.refuse(request, str(error))
            return
        except Exception as error:
            # A request that does not hold what the protocol says it holds. Whatever it is, the next
            # one is answered again.
            self._channel.refuse(request, f"{type(error).__name__}: {error}")
            return
        if isinstance(body, Moved):
            goes_on = request.get("command") == "continue"
            self._channel.respond(request, {"allThreadsContinued": True} if goes_on else None)
            self._looked(body)
        else:
            self._channel.respond(request, body)
        if request.get("command") == "configurationDone":
            self._configured.set()

    def initialize(self, given: Message) -> None:
        """How the editor counts."""
        self._first_line = 1 if given.get("linesStartAt1", True) else 0
        self._first_column = 1 if given.get("columnsStartAt1", True) else 0

    def configured(self, given: Message) -> None:
        """The program may run."""

    def detach(self, given: Message) -> None:
        """The program runs on by itself."""
        self._ends = False
        self._controller.leave()
        self._configured.set()

    def set_breakpoints(self, given: Message) -> Message:
        """Lines of a file."""
        path = str(given["source"].get("path") or given["source"].get("name") or "")
        wanted = given.get("breakpoints")
        if wanted is None:
            wanted = [{"line": line} for line in given.get("lines") or []]
        found = self._breakpoints.source(path, wanted, self._first_line)
        for each in found:
            if "line" in each:
                each["line"] += self._first_line - 1
        return {"breakpoints": found}

    def set_function_breakpoints(self, given: Message) -> Message:
        """Nodes, globs, ops, scopes."""
        return {"breakpoints": self._breakpoints.function(given["breakpoints"])}

    def set_data_breakpoints(self, given: Message) -> Message:
        """Values."""
        return {"breakpoints": self._breakpoints.data(given["breakpoints"])}

    def data_breakpoint_info(self, given: Message) -> Message:
        """Which node makes a variable."""
        try:
            if "variablesReference" not in given:
                node = self._controller.find(str(given["name"])).name
            else:
                node = self._variables.maker(int(given["variablesReference"]), str(given["name"]))
        except UsageError as error:
            return {"dataId": None, "description": str(error)}
        return {"dataId": node, "description": f"whenever {node} has run",
                "accessTypes": ["write"], "canPersist": True}  # fmt: skip

    def set_exceptions(self, given: Message) -> Message:
        """Whether a node that raises stops."""
        chosen = [*given.get("filters", []),
                  *(each["filterId"] for each in given.get("filterOptions", []))]  # fmt: skip
        self._exceptions = "node" in chosen
        return {"breakpoints": [{"verified": each == "node"} for each in chosen]}

    # ------------------------------------------------------------ where it is

    def _thread(self, ident: int) -> int:
        return self._threads.setdefault(ident, len(self._threads) + 1)

    def threads(self, given: Message) -> Message:
        """The Python threads that have met a stop, and the main thread."""
        names = {each.ident: each.name for each in threading.enumerate()}
        main = threading.main_thread().ident
        assert main is not None
        self._thread(main)
        found = [{"id": number, "name": names.get(ident, f"thread {number}")}
                 for ident, number in self._threads.items()
                 if ident in names]  # fmt: skip
        return {"threads": found}

    def stack_trace(self, given: Message) -> Message:
        """The name scopes, and the user's lines."""
        at = self._controller.moment
        if self._thread(at.thread) != given["threadId"]:
            return {"stackFrames": [], "totalFrames": 0}
        self._frames = self._controller.frames()
        start = int(given.get("startFrame") or 0)
        end = start + (int(given.get("levels") or 0) or len(self._frames))
        shown = [self._frame(number, each)
                 for number, each in list(enumerate(self._frames))[start:end]]  # fmt: skip
        return {"stackFrames": shown, "totalFrames": len(self._frames)}

    def _frame(self, number: int, frame: ScopeFrame) -> Message:
        name = clean(frame.name)
        if frame.kind == "node":
            at = self._controller.moment
            name += f", step {at.step}" + (", before it runs" if at.when == "before" else "")
            name += "" if at.live else " (recorded)"
        found: Message = {"id": number + 1, "name": name, "line": 0, "column": 0}
        if frame.file:
            source = {"name": os.path.basename(frame.file), "path": frame.file}
            found |= {"source": source, "line": frame.line - 1 + self._first_line,
                      "column": self._first_column}  # fmt: skip
        return found

    def _frame_of(self, number: int) -> ScopeFrame:
        if not self._frames:
            self._frames = self._controller.frames()
        if not 1 <= number <= len(self._frames):
            raise UsageError("this frame belongs to an earlier stop")
        return self._frames[number - 1]

    def scopes(self, given: Message) -> Message:
        """Inputs, outputs, gradient, node; the nodes of a scope."""
        return {"scopes": self._variables.scopes(self._frame_of(int(given["frameId"])))}

    def variables(self, given: Message) -> Message:
        """What a reference unfolds to."""
        found = self._variables.variables(
            int(given["variablesReference"]), int(given.get("start") or 0),
            int(given.get("count") or 0), str(given.get("filter") or ""),
        )  # fmt: skip
        return {"variables": found}

    def set_variable(self, given: Message) -> Message:
        """Change a value."""
        found = self._variables.set(
            int(given["variablesReference"]), str(given["name"]), str(given["value"])
        )
        kept = ("value", "type", "variablesReference", "indexedVariables")
        return {key: found[key] for key in kept if key in found}

    def evaluate(self, given: Message) -> Message:
        """A node's value, an expression, or, in the console, ``set value[0] = 1``."""
        text = str(given["expression"]).strip()
        if given.get("context") == "repl" and text.startswith("set "):
            return {"result": self._controller.edit(text[4:]), "variablesReference": 0}
        seen = self._controller.named(text)
        if seen is not None:
            line = seen_line(seen, self._controller.moment.step)
            return {"result": line, **self._unfolds(seen.array, text)}
        result = self._controller.evaluate(text)
        array = result if isinstance(result, Array.__origin__) else None  # type: ignore[attr-defined]
        shown = array_line(array) if array is not None and array.ndim else result_line(result)
        return {"result": shown, **self._unfolds(array, text)}

    def _unfolds(self, array: Any, text: str) -> Message:
        if array is None:
            return {"variablesReference": 0}
        return {"type": f"{array.dtype} {array.shape}",
                **self._variables.unfolds(array, 0, text if text in NAMES else "")}  # fmt: skip

    def completions(self, given: Message) -> Message:
        """Names of nodes, and the words of expressions."""
        column = int(given["column"]) - self._first_column
        before = str(given["text"])[:column]
        word = before[max(before.rfind(each) for each in " ([,<>=+-*") + 1 :]
        words = [*NAMES, *FUNCTIONS, *CONSTANTS]
        try:
            words += [each for each in self._controller.names() if ":" not in each]
        except NodescopeError:
            pass  # the recording cannot be read now; the language can be completed
        targets = [{"label": each, "start": column - len(word), "length": len(word)}
                   for each in words if each.startswith(word)]  # fmt: skip
        return {"targets": targets[:_MAX_TARGETS]}

    def exception_info(self, given: Message) -> Message:
        """What the node raised."""
        error = self._controller.moment.error
        if not error:
            raise UsageError("the program does not stand at an exception")
        kind, _, message = error.partition(": ")
        return {"exceptionId": kind, "description": error, "breakMode": "always",
                "details": {"message": message, "typeName": kind}}  # fmt: skip

    def source(self, given: Message) -> Message:
        """The text of a file, as it was during the run."""
        path = str((given.get("source") or {}).get("path") or "")
        text = self._controller.history.recording.source(path) if path else None
        known = {each.source.file for each in self._controller.history.nodes() if each.source}
        if text is None and path in known:
            try:
                text = Path(path).read_text("utf-8", "replace")
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}") from None
        if text is None:
            raise UsageError(f"the source {path!r} is not known")
        return {"content": text, "mimeType": "text/x-python"}

    def loaded_sources(self, given: Message) -> Message:
        """The files that made nodes."""
        files = sorted({node.source.file for node in self._controller.history.nodes()
                        if node.source is not None})  # fmt: skip
        return {"sources": [{"name": os.path.basename(each), "path": each} for each in files]}

    # ------------------------------------------------------------ going on

    def _go(self, command: Command) -> Moved | None:
        self._asked = True
        try:
            moved = self._controller.command(command)
        except NodescopeError:
            self._asked = False
            raise
        if moved is not None:
            self._asked = False
        return moved

    def continue_(self, given: Message) -> Any:
        """To the next breakpoint; in the past, to the next that was recorded."""
        return self._go(Continue()) or {"allThreadsContinued": True}

    def next(self, given: Message) -> Moved | None:
        """Over scopes."""
        return self._go(StepOver())

    def step_in(self, given: Message) -> Moved | None:
        """To the next node, however deep."""
        return self._go(StepNode())

    def step_out(self, given: Message) -> Moved | None:
        """Out of the scope."""
        return self._go(StepOut())

    def step_back(self, given: Message) -> Moved:
        """To the execution before."""
        return self._controller.back()

    def reverse_continue(self, given: Message) -> Moved:
        """To the last breakpoint that was passed."""
        return self._controller.reverse_continue()

    def pause(self, given: Message) -> None:
        """At the next node."""
        self._controller.command(Pause())

    # ------------------------------------------------------------ what is told

    def _tell(self) -> None:
        while (info := self._news.get()) is not None:
            with self._turn:
                if not self._over:
                    self._told(info)

    def _told(self, info: SessionInfo) -> None:
        for each in self._breakpoints.changes():
            if "line" in each:
                each = {**each, "line": each["line"] + self._first_line - 1}
            self._channel.event("breakpoint", {"reason": "changed", "breakpoint": each})
        stop = info.stop
        if stop is not None and not self._standing:
            if stop.reason == "exception" and not self._exceptions:
                self._asked = True
                try:
                    self._controller.command(Continue())
                except NodescopeError:
                    pass  # somebody was faster
                return
            self._standing, self._asked = True, False
            self._forget()
            self._stopped(stop)
        elif stop is None and self._standing:
            self._standing = False
            self._forget()
            if not self._asked and info.phase != "finished":
                thread = next(iter(self._threads.values()), 1)
                self._channel.event("continued", {"threadId": thread, "allThreadsContinued": True})

    def _stopped(self, stop: Stop) -> None:
        reason = _REASONS.get(stop.reason) or self._breakpoints.kind_of(stop.breakpoint)
        body: Message = {
            "reason": reason,
            "description": clean(stop.text),
            "threadId": self._thread(stop.thread),
            "allThreadsStopped": True,
        }
        if stop.reason == "exception":
            body["text"] = clean(stop.text)
        if stop.breakpoint:
            body["hitBreakpointIds"] = [stop.breakpoint]
        self._channel.event("stopped", body)

    def _looked(self, moved: Moved) -> None:
        self._forget()
        self._channel.event("stopped", {
            "reason": "step", "description": clean(moved.text), "text": clean(moved.text),
            "threadId": self._thread(moved.moment.thread), "allThreadsStopped": True,
        })  # fmt: skip

    def _forget(self) -> None:
        self._variables.forget()
        self._frames = ()


_REQUESTS: Final[dict[str, Callable[..., Any]]] = {
    "initialize": Debuggee.initialize,
    "configurationDone": Debuggee.configured,
    "disconnect": Debuggee.detach,
    "setBreakpoints": Debuggee.set_breakpoints,
    "setFunctionBreakpoints": Debuggee.set_function_breakpoints,
    "setDataBreakpoints": Debuggee.set_data_breakpoints,
    "dataBreakpointInfo": Debuggee.data_breakpoint_info,
    "setExceptionBreakpoints": Debuggee.set_exceptions,
    "threads": Debuggee.threads,
    "stackTrace": Debuggee.stack_trace,
    "scopes": Debuggee.scopes,
    "variables": Debuggee.variables,
    "setVariable": Debuggee.set_variable,
    "evaluate": Debuggee.evaluate,
    "completions": Debuggee.completions,
    "exceptionInfo": Debuggee.exception_info,
    "source": Debuggee.source,
    "loadedSources": Debuggee.loaded_sources,
    "continue": Debuggee.continue_,
    "next": Debuggee.next,
    "stepIn": Debuggee.step_in,
    "stepOut": Debuggee.step_out,
    "stepBack": Debuggee.step_back,
    "reverseContinue": Debuggee.reverse_continue,
    "pause": Debuggee.pause,
}
