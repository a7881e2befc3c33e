"""The debuggee's end: answers an adapter's requests from within the program's process.

Invariant: the program waits for the adapter only where a debugger stops it; once the adapter is
gone, the program continues, or is ended if that was requested. Requests are answered in order, and
their effects are reported after the answer.
"""

from __future__ import annotations

import _thread
import os
import socket
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final

from nodescope.dap.breakpoints import BreakpointSets
from nodescope.dap.capabilities import ANNOUNCED, DEPENDENT, OVERFLOW, RAISING
from nodescope.dap.frames import Frames
from nodescope.dap.framing import Channel, Message
from nodescope.dap.inspection import ConsoleCommands, Inspection
from nodescope.dap.threads import Threads
from nodescope.dap.variables import Variables
from nodescope.debug.controller import Controller, Moved
from nodescope.debug.history.value_format import clean
from nodescope.debug.watch.watch import describe as describe_watch
from nodescope.debug.watch.watch import parse_watch
from nodescope.errors import NodescopeError, UsageError
from nodescope.ir.capabilities import Shortfall
from nodescope.protocol import (
    Command,
    Continue,
    Pause,
    SessionInfo,
    SetExceptions,
    SetWatches,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    Stop,
)
from nodescope.record.files.descriptors import Own, moved

CONNECT_S: Final = 10.0
VARIABLE: Final = "NODESCOPE_DAP"
_LOOK_S: Final = 0.5
_REASONS: Final = {"entry": "entry", "step": "step", "pause": "pause", "run_to": "goto",
                   "exception": "exception", "watch": "exception"}  # fmt: skip


def address() -> tuple[str, int, str, bool]:
    """Host, port and token of the adapter, and whether losing it ends the program.

    They are passed in an environment variable, which is removed, so that the program's own children
    do not see it.

    Raises:
        UsageError: The variable is not set.
    """
    parts = os.environ.pop(VARIABLE, "").split(" ")
    if len(parts) != 4 or not parts[1].isdecimal():
        raise UsageError("--dap is for nodescope dap", hint="start nodescope dap instead")
    return parts[0], int(parts[1]), parts[2], parts[3] == "terminate"


class Debuggee:
    """Speaks with an adapter on behalf of a run.

    Args:
        controller: The run's controller, before the run starts.
        ends: Whether losing the adapter ends the program.
        console: Runs the terminal debugger's commands.
    """

    def __init__(
        self, controller: Controller, *, ends: bool = False,
        console: ConsoleCommands = lambda line: None,
    ) -> None:  # fmt: skip
        self._controller = controller
        self._ends = ends
        self._channel: Channel
        self._turn = threading.RLock()  # one request or one event at a time
        self._news: SimpleQueue[SessionInfo | None] = SimpleQueue()
        self._configured = threading.Event()
        self._breakpoints = BreakpointSets(controller)
        self._variables = Variables(controller)
        self._looking = Inspection(controller, self._variables, console)
        self._threads = Threads()
        self._stopped_thread = 1
        self._frames = Frames(controller, self._threads)
        self._overflows: list[str] = []
        self._at_stop = self._commanded = self._over = self._guest = False
        self._first_line = 1
        self._available = dict.fromkeys(DEPENDENT, True)  # as announced by the adapter

    def connect(self, host: str, port: int, token: str) -> None:
        """Connect to the adapter, and wait until it has configured everything.

        Raises:
            UsageError: Nothing listens there.
        """
        try:
            connection = moved(socket.create_connection((host, port), CONNECT_S), Own)
        except OSError as error:
            raise UsageError(f"no adapter at {host}:{port}: {error}") from None
        connection.settimeout(None)
        self._begin(Channel.of(connection))
        self._channel.event("nodescope", {"token": token, "pid": os.getpid()})
        threading.Thread(target=self._read, name="nodescope-dap", daemon=True).start()
        self._configured.wait()

    def visit(self, channel: Channel) -> None:
        """Debug an already running program until the editor leaves; then it continues."""
        self._guest = True
        self._begin(channel)
        self._controller.attend()
        if self._controller.info.stop is not None:
            self._news.put(self._controller.info)
        self._read()

    def _begin(self, channel: Channel) -> None:
        self._channel = channel
        self._controller.listeners = (*self._controller.listeners, self._news.put)
        threading.Thread(target=self._tell, name="nodescope-dap", daemon=True).start()

    def _take_leave(self) -> None:
        """Remove what a leaving editor has set."""
        self.finish()
        self._controller.listeners = tuple(
            listener for listener in self._controller.listeners if listener != self._news.put
        )
        self._breakpoints.clear()
        self.set_exceptions({"filters": [RAISING]})
        self._controller.absent()

    def finish(self) -> None:
        """Report that the program has ended."""
        with self._turn:
            self._over = True
        self._news.put(None)
        self._configured.set()
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
        if self._guest:
            self._take_leave()
            return
        if self._ends:
            self._configured.set()
            _thread.interrupt_main()
            return
        self._controller.leave()
        self._configured.set()

    def _answer(self, request: Message) -> None:
        command = str(request.get("command"))
        if command not in HANDLED:
            self._channel.refuse(request, f"unknown request {command!r}")
            return
        lack = self._lack(command)
        if lack is not None:
            self._channel.refuse(request, f"{command}: {lack.text}; {lack.hint}")
            return
        arguments = request.get("arguments") or {}
        cursor = self._controller.cursor
        body: Any
        try:
            if command in _LOOKS:
                body = _LOOKS[command](self._looking, arguments)
            elif command in _STACKS:
                body = _STACKS[command](self._frames, arguments)
            else:
                body = _REQUESTS[command](self, arguments)
        except NodescopeError as error:
            self._channel.refuse(request, str(error))
            return
        except Exception as error:
            # A malformed request: refuse it, and continue with the next one.
            self._channel.refuse(request, f"{type(error).__name__}: {error}")
            return
        if isinstance(body, Moved):
            goes_on = request.get("command") == "continue"
            self._channel.respond(request, {"allThreadsContinued": True} if goes_on else None)
            self._looked(body)
        else:
            self._channel.respond(request, body)
            if self._controller.cursor is not cursor and self._controller.info.stop is not None:
                # A command in the console moved the cursor back, or forward again.
                moment = self._controller.moment
                self._looked(Moved(moment, f"At {moment.node.name}, step {moment.step}"))
        if request.get("command") == "configurationDone":
            self._configured.set()

    def _lack(self, command: str) -> Shortfall | None:
        """Why a request is not available in this run; None if it is."""
        for name, feature in DEPENDENT.items():
            if command in ANNOUNCED[name]:
                return self._controller.shortfall(feature)
        return None

    def initialize(self, arguments: Message) -> None:
        """Note how the editor counts lines and columns."""
        self._first_line = 1 if arguments.get("linesStartAt1", True) else 0
        self._frames.first_line = self._first_line
        self._looking.first_column = self._frames.first_column = (
            1 if arguments.get("columnsStartAt1", True) else 0
        )

    def configured(self, arguments: Message) -> None:
        """Let the program run."""

    def detach(self, arguments: Message) -> None:
        """Detach; the program continues by itself."""
        if self._guest:
            return  # the editor leaves with the adapter, which is at once
        self._ends = False
        self._controller.leave()
        self._configured.set()

    def set_breakpoints(self, arguments: Message) -> Message:
        """Set the breakpoints on lines of a file."""
        path = str(arguments["source"].get("path") or arguments["source"].get("name") or "")
        entries = arguments.get("breakpoints")
        if entries is None:
            entries = [{"line": line} for line in arguments.get("lines") or []]
        answers = self._breakpoints.source(path, entries, self._first_line)
        for answer in answers:
            if "line" in answer:
                answer["line"] += self._first_line - 1
        return {"breakpoints": answers}

    def set_function_breakpoints(self, arguments: Message) -> Message:
        """Set breakpoints on nodes, globs, ops and scopes."""
        return {"breakpoints": self._breakpoints.function(arguments["breakpoints"])}

    def set_data_breakpoints(self, arguments: Message) -> Message:
        """Set breakpoints on values."""
        return {"breakpoints": self._breakpoints.data(arguments["breakpoints"])}

    def data_breakpoint_info(self, arguments: Message) -> Message:
        """The node that produces a variable."""
        try:
            if "variablesReference" not in arguments:
                node = self._controller.find(str(arguments["name"])).name
            else:
                node = self._variables.maker(
                    int(arguments["variablesReference"]), str(arguments["name"])
                )
        except UsageError as error:
            return {"dataId": None, "description": str(error)}
        return {"dataId": node, "description": f"whenever {node} has run",
                "accessTypes": ["write"], "canPersist": True}  # fmt: skip

    def set_exceptions(self, arguments: Message) -> Message:
        """Set whether nodes that raise, or that make NaN or Inf from finite inputs, stop the
        program.
        """
        chosen = [(str(filter_id), "") for filter_id in arguments.get("filters", [])]
        chosen += [(str(option["filterId"]), str(option.get("condition") or ""))
                   for option in arguments.get("filterOptions", [])]  # fmt: skip
        answers: list[Message] = []
        texts = []
        for name, condition in chosen:
            text = f"operator_overflow on {condition}" if condition else "operator_overflow"
            answer: Message = {"verified": name in (RAISING, OVERFLOW)}
            if not answer["verified"]:
                answer["message"] = f"no filter {name!r}; there are {RAISING!r} and {OVERFLOW!r}"
            try:
                if name == OVERFLOW:
                    texts.append(describe_watch(parse_watch(text)))
            except NodescopeError as error:
                answer = {"verified": False, "message": str(error)}
            answers.append(answer)
        other_texts = [watch.text for watch in self._controller.info.watches
                  if watch.text not in self._overflows]  # fmt: skip
        self._controller.command(SetExceptions(any(name == RAISING for name, _ in chosen)))
        if texts or self._overflows:
            self._controller.command(SetWatches((*other_texts, *texts)))
        self._overflows = texts
        return {"breakpoints": answers}

    # ------------------------------------------------------------ location

    def threads(self, arguments: Message) -> Message:
        """The program's threads."""
        self._tell_threads()
        also = 0
        if self._at_stop:
            also = self._threads.number(self._controller.moment.thread)
        return {"threads": self._threads.listed(also)}

    def scopes(self, arguments: Message) -> Message:
        """The groups of variables: inputs, outputs, gradient, node; the nodes of a scope."""
        return {"scopes": self._variables.scopes(self._frames.of(int(arguments["frameId"])))}

    def variables(self, arguments: Message) -> Message:
        """The variables that a reference expands to."""
        variables = self._variables.variables(
            int(arguments["variablesReference"]), int(arguments.get("start") or 0),
            int(arguments.get("count") or 0), str(arguments.get("filter") or ""),
        )  # fmt: skip
        return {"variables": variables}

    def set_variable(self, arguments: Message) -> Message:
        """Change a value."""
        variable = self._variables.set(
            int(arguments["variablesReference"]), str(arguments["name"]), str(arguments["value"])
        )
        fields = ("value", "type", "variablesReference", "indexedVariables")
        return {key: variable[key] for key in fields if key in variable}

    # ------------------------------------------------------------ continuing

    def _ident(self, arguments: Message) -> int | None:
        """The thread that a request is about; None if it is the stopped one, or not given."""
        if "threadId" not in arguments:
            return None
        ident = self._threads.ident(int(arguments["threadId"]))
        if ident is None:
            raise UsageError(f"no thread {arguments['threadId']}")
        stop = self._controller.info.stop
        return None if stop is not None and stop.thread == ident else ident

    def _go(self, command: Command) -> Moved | None:
        self._commanded = True
        try:
            moved = self._controller.command(command)
        except NodescopeError:
            self._commanded = False
            raise
        if moved is not None:
            self._commanded = False
        return moved

    def continue_(self, arguments: Message) -> Any:
        """Continue to the next breakpoint; in the past, to the next recorded hit."""
        alone = bool(arguments.get("singleThread"))
        moved = self._go(Continue(thread=self._ident(arguments), alone=alone))
        return moved or {"allThreadsContinued": not alone}

    def _step(self, arguments: Message, step: type[StepNode | StepOver | StepOut]) -> Moved | None:
        return self._go(
            step(thread=self._ident(arguments), alone=bool(arguments.get("singleThread")))
        )

    def next(self, arguments: Message) -> Moved | None:
        """Step over scopes."""
        return self._step(arguments, StepOver)

    def step_in(self, arguments: Message) -> Moved | None:
        """Step to the next node, however deep, or into the chosen scope."""
        if "targetId" not in arguments:
            return self._step(arguments, StepNode)
        scope = self._frames.target(int(arguments["targetId"]))
        alone = bool(arguments.get("singleThread"))
        return self._go(StepIn(scope, thread=self._ident(arguments), alone=alone))

    def step_out(self, arguments: Message) -> Moved | None:
        """Step out of the scope."""
        return self._step(arguments, StepOut)

    def step_back(self, arguments: Message) -> Moved:
        """Step back to the previous execution."""
        return self._controller.back()

    def reverse_continue(self, arguments: Message) -> Moved:
        """Go back to the last breakpoint that was passed."""
        return self._controller.reverse_continue()

    def pause(self, arguments: Message) -> None:
        """Pause at the next node."""
        self._controller.command(Pause())

    # ------------------------------------------------------------ events

    def _tell(self) -> None:
        self._configured.wait()
        while True:
            try:
                info = self._news.get(timeout=_LOOK_S)
                if info is None:
                    return
            except Empty:
                info = None  # threads start and end without notice
            with self._turn:
                if self._over:
                    return
                self._tell_threads()
                if info is not None:
                    self._told(info)

    def _tell_threads(self) -> None:
        started, ended = self._threads.refresh()
        for reason, numbers in (("started", started), ("exited", ended)):
            for number in numbers:
                self._channel.event("thread", {"reason": reason, "threadId": number})

    def _tell_capabilities(self) -> None:
        """Report which requests apply after the program's set of frameworks has changed."""
        available = {
            name: self._controller.shortfall(feature) is None for name, feature in DEPENDENT.items()
        }
        changes = {name: on for name, on in available.items() if on != self._available[name]}
        self._available = available
        if changes:
            self._channel.event("capabilities", {"capabilities": changes})

    def _told(self, info: SessionInfo) -> None:
        self._tell_capabilities()
        for change in self._breakpoints.changes():
            if "line" in change:
                change = {**change, "line": change["line"] + self._first_line - 1}
            self._channel.event("breakpoint", {"reason": "changed", "breakpoint": change})
        stop = info.stop
        if stop is not None and not self._at_stop:
            self._at_stop, self._commanded = True, False
            self._forget()
            self._stopped(stop)
        elif stop is None and self._at_stop:
            self._at_stop = False
            self._forget()
            if not self._commanded and info.phase != "finished":
                self._channel.event("continued", {"threadId": self._stopped_thread,
                                                  "allThreadsContinued": True})  # fmt: skip

    def _stopped(self, stop: Stop) -> None:
        self._stopped_thread = self._threads.number(stop.thread)
        reason = _REASONS.get(stop.reason) or self._breakpoints.kind_of(stop.breakpoint)
        body: Message = {
            "reason": reason,
            "description": clean(stop.text),
            "threadId": self._stopped_thread,
            "allThreadsStopped": True,
        }
        if reason == "exception":
            body["text"] = clean(stop.text)
        if stop.breakpoint:
            body["hitBreakpointIds"] = [stop.breakpoint]
        self._channel.event("stopped", body)

    def _looked(self, moved: Moved) -> None:
        self._forget()
        self._channel.event("stopped", {
            "reason": "step", "description": clean(moved.text), "text": clean(moved.text),
            "threadId": self._threads.number(moved.moment.thread), "allThreadsStopped": True,
        })  # fmt: skip

    def _forget(self) -> None:
        self._variables.forget()
        self._frames.forget()


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
    "scopes": Debuggee.scopes,
    "variables": Debuggee.variables,
    "setVariable": Debuggee.set_variable,
    "continue": Debuggee.continue_,
    "next": Debuggee.next,
    "stepIn": Debuggee.step_in,
    "stepOut": Debuggee.step_out,
    "stepBack": Debuggee.step_back,
    "reverseContinue": Debuggee.reverse_continue,
    "pause": Debuggee.pause,
}
_STACKS: Final[dict[str, Callable[..., Message]]] = {
    "stackTrace": Frames.stack_trace,
    "stepInTargets": Frames.step_in_targets,
}
_LOOKS: Final[dict[str, Callable[..., Message]]] = {
    "evaluate": Inspection.evaluate,
    "setExpression": Inspection.set_expression,
    "readMemory": Inspection.read_memory,
    "completions": Inspection.completions,
    "exceptionInfo": Inspection.exception_info,
    "source": Inspection.source,
    "loadedSources": Inspection.loaded_sources,
}
HANDLED: Final = frozenset((*_REQUESTS, *_STACKS, *_LOOKS))
