"""Controller: drives a gate from within the program's process, for front ends in that process.

It sends commands, waits for stops, and shows the state: the node, its values by name, frames,
expressions. While the program is stopped, it can look back: a cursor moves through the recording;
stepping forward from there ends where the program is stopped.

Invariant: can be called from any thread except a stopped one; statements about the past come from
the recording. It blocks only its caller, and always with a time limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from nodescope.debug.edits.syntax import parse_edit
from nodescope.debug.expressions.builtins import NAMES, Scene
from nodescope.debug.expressions.compiler import Expression, compile_expression
from nodescope.debug.gate.gate import Gate
from nodescope.debug.gate.python_stack import user_stack
from nodescope.debug.history import navigation
from nodescope.debug.history.breakpoint_search import goal_of, leads_back
from nodescope.debug.history.history import History, Moment, ValueAtMoment
from nodescope.debug.history.recorded_array import RecordedArray
from nodescope.debug.history.scope_frames import ScopeFrame, frames
from nodescope.debug.session.state import Goal
from nodescope.debug.watch.live_watches import LiveWatches
from nodescope.errors import ConditionError, EditError, UsageError
from nodescope.ir.capabilities import Feature, Shortfall
from nodescope.ir.graph import Node
from nodescope.ir.scopes import ancestors
from nodescope.protocol import (
    Breakpoint,
    BreakpointStatus,
    Command,
    Continue,
    Detach,
    SessionInfo,
    SetBreakpoints,
    SetValue,
    SetWatches,
    StepTwin,
    Stop,
)
from nodescope.record.recording import Recording
from nodescope.registry import did_you_mean

Listener = Callable[[SessionInfo], None]


class Moved(msgspec.Struct, frozen=True):
    """The result of moving the cursor through the recording.

    Attributes:
        moment: The new cursor.
        text: A one-line message.
        found: Whether the moment is the one searched for; otherwise the search ended there.
    """

    moment: Moment
    text: str
    found: bool = True


class SeveralError(UsageError):
    """The end of a name matches several nodes."""


class Controller:
    """A controller of a gate, in the same process.

    Args:
        gate: The gate, whose ``on_change`` calls `changed`.
        recording: The file of the run's recording.
        elapsed: Returns the seconds since the run began, without held time.
        flush: Writes everything emitted so far, with its elements.
    """

    def __init__(
        self,
        gate: Gate,
        recording: str | Path,
        *,
        elapsed: Callable[[], float] = lambda: 0.0,
        flush: Callable[[], object] = lambda: None,
    ) -> None:
        self._gate = gate
        self._flush = flush
        self._path = Path(recording)
        self._elapsed = elapsed
        self._history: History | None = None
        self._news = threading.Condition()
        self._info = gate.info
        self._cursor: Moment | None = None
        self.listeners: tuple[Listener, ...] = ()
        self.watching: LiveWatches | None = None

    # ------------------------------------------------------------ the session

    def attend(self) -> None:
        """Begin to attend: from now on, the program stops for this controller."""
        self._gate.controllers(1)

    def absent(self) -> None:
        """Stop attending for now: the program continues, and stops when a controller attends."""
        self._cursor = None
        if self._gate.info.phase in ("running", "stopped"):
            self._gate.command(Continue())
            self._gate.controllers(0)

    def leave(self) -> None:
        """Let the program run to its end without stopping again."""
        if self._gate.info.phase in ("running", "stopped"):
            self._gate.command(Detach())

    def close(self) -> None:
        """Close the recording."""
        if self._history is not None:
            self._history.recording.close()
            self._history = None

    def changed(self, info: SessionInfo) -> None:
        """Take in a new state of the session; called by the gate, returns at once."""
        with self._news:
            if info.version < self._info.version:
                return
            if info.stop is None or self._info.stop is None:
                self._cursor = None
            self._info = info
            self._news.notify_all()
        for listener in self.listeners:
            listener(info)

    @property
    def info(self) -> SessionInfo:
        """The session as last announced."""
        return self._info

    @property
    def stop(self) -> Stop:
        """The current stop.

        Raises:
            UsageError: The program is not stopped.
        """
        stop = self._info.stop
        if stop is None:
            ended = self._info.phase == "finished"
            raise UsageError(
                "the program has ended" if ended else "the program is running",
                hint="" if ended else "pause it first",
            )
        return stop

    def wait(self, timeout_s: float) -> SessionInfo:
        """Wait until the program is stopped, has ended or is detached.

        Raises:
            TimeoutError: The program is still running.
        """
        with self._news:
            if not self._news.wait_for(lambda: self._info.phase != "running", timeout_s):
                raise TimeoutError(f"the program is still running after {timeout_s:g} s")
            return self._info

    def command(self, command: Command) -> Moved | None:
        """Carry out a command.

        While looking back, stepping and continuing move through the recording, and end where the
        program is stopped. Returns None if the program has taken the command.

        Raises:
            NodescopeError: The command cannot be carried out; nothing has changed.
        """
        if isinstance(command, SetWatches) and self.watching is not None:
            self.watching.replace(command.watches)
            return None
        if isinstance(command, StepTwin) and leads_back(command, self.moment):
            return self.back(command)
        if self._cursor is not None:
            if isinstance(command, SetValue):
                raise UsageError("a past moment cannot be changed",
                                 hint="return to the present first: now")  # fmt: skip
            if isinstance(command, Continue):
                return self._continue_forward(self._cursor)
            goal = goal_of(command, self._cursor)
            if goal is not None:
                return self._forward(self._cursor, goal)
        self._gate.command(command)
        return None

    # ------------------------------------------------------------ breakpoints

    @property
    def breakpoints(self) -> tuple[BreakpointStatus, ...]:
        """The breakpoints and their states."""
        return self._gate.info.breakpoints

    def set_breakpoints(self, breakpoints: Iterable[Breakpoint]) -> tuple[BreakpointStatus, ...]:
        """Replace the whole set; return the statuses in the given order.

        Raises:
            BreakpointError, ConditionError: A breakpoint is invalid; nothing has changed.
        """
        self._gate.command(SetBreakpoints(tuple(breakpoints)))
        return self.breakpoints

    # ------------------------------------------------------------ inspection

    @property
    def history(self) -> History:
        """The recording, up to now.

        Raises:
            RecordingError: The recording cannot be read.
        """
        self._flush()
        if self._history is None:
            self._history = History(Recording.open(self._path))
        self._history.refresh()
        return self._history

    def shortfall(self, feature: Feature, dialect: str = "") -> Shortfall | None:
        """Why a feature is not available in this run, or for one of its frameworks; else None."""
        return self._gate.shortfall(feature, dialect)

    @property
    def expression_names(self) -> list[str]:
        """The names that an expression can use in this run."""
        return [name for name in NAMES if name != "grad" or not self.shortfall("gradients")]

    @property
    def looking_back(self) -> bool:
        """Whether the cursor is in the past."""
        return self._cursor is not None

    @property
    def cursor(self) -> Moment | None:
        """The moment being viewed in the past; None while the cursor is where the program is
        stopped.
        """
        return self._cursor

    @property
    def moment(self) -> Moment:
        """The moment at the cursor: where the program is stopped, or in the past.

        Raises:
            UsageError: The program is running, or has ended.
        """
        return self._cursor or self._live()

    def _live(self) -> Moment:
        stop = self.stop
        node = self.history.node(stop.node)
        if node is None:
            raise UsageError(f"{stop.node_name} is not in the recording yet")
        error = ""
        if stop.reason == "exception" and not stop.error:
            error = stop.text.removeprefix(f"{stop.node_name} raises ")
        return Moment(node, stop.seq, stop.step, stop.thread, stop.when, True, error)

    def inputs(self, at: Moment | None = None) -> tuple[ValueAtMoment, ...]:
        """The inputs of the cursor's node, by port."""
        return self.history.inputs(at or self.moment, self._gate.live_array)

    def outputs(self, at: Moment | None = None) -> tuple[ValueAtMoment, ...]:
        """The outputs of the cursor's node, by port."""
        return self.history.outputs(at or self.moment, self._gate.live_array)

    def attrs(self, at: Moment) -> dict[str, Any]:
        """The attributes of an execution, which may differ from those of the node's first one."""
        if at.when == "before":
            return at.node.attrs
        calls = self.history.recording.calls(at.seq - 1, at.seq)
        return calls.get(at.seq, at.node.attrs)

    def gradient(self, at: Moment | None = None) -> ValueAtMoment | None:
        """The gradient of the node's first output, as far as known at that moment."""
        return self.history.gradient(at or self.moment, self._gate.live_array)

    def frames(self) -> tuple[ScopeFrame, ...]:
        """The name scopes around the cursor as frames, innermost first."""
        at = self.moment
        return frames(at.node, self.stop.stack if at.live else ())

    def frames_of(self, thread: int) -> tuple[ScopeFrame, ...]:
        """The frames of a thread that did not stop: its current place, and the node at which it is
        held.

        A thread that waits for something other than a node, such as a lock, continues by itself.
        """
        stack = user_stack(thread)
        node = self._gate.held_nodes().get(thread)
        if node is None:
            return tuple(ScopeFrame("python", frame.function, frame.file, frame.line, frame.code)
                         for frame in stack)  # fmt: skip
        first, *outer = frames(node, stack)
        return (msgspec.structs.replace(first, kind="held"), *outer)

    def held(self, thread: int) -> bool:
        """Whether a thread is held at a node."""
        return thread in self._gate.held_nodes()

    def of_node(self, name: str) -> Moment:
        """The latest execution of a node as seen from the cursor.

        Args:
            name: The node's name, or the end of it if only one node's name ends so.

        Raises:
            UsageError: There is no such execution.
        """
        at = self.moment
        node = self.find(name)
        if node.id == at.node.id:
            return at
        moment = self.history.last_of(node.id, at.seq)
        if moment is None:
            raise UsageError(f"{node.name} has not run yet at this point")
        return moment

    def find(self, name: str) -> Node:
        """A node by its name, or by the end of its name if unique.

        Raises:
            UsageError: No node matches, or several do (`SeveralError`).
        """
        history = self.history
        number = history.names.get(name)
        if number is None:
            ends = [full_name for full_name in history.names if full_name.endswith(f"/{name}")]
            # A backward node ends like its forward node; it must be named explicitly.
            ends = [
                full_name for full_name in ends if not full_name.startswith("backward/")
            ] or ends
            if len(ends) > 1:
                raise SeveralError(f"several nodes are named {name!r}",
                                   hint=f"such as {' and '.join(ends[:3])}")  # fmt: skip
            if not ends:
                short = {full_name.rpartition("/")[2] for full_name in history.names}
                near = did_you_mean(name, history.names) or did_you_mean(name, short)
                scope = f"/{name}/"
                inside = [full_name for full_name in history.names if scope in f"/{full_name}"]
                if inside:
                    near = f"a scope has no value; its nodes: {', '.join(inside[-3:])}"
                raise UsageError(f"no node named {name!r} so far", hint=near)
            number = history.names[ends[0]]
        node = history.node(number)
        assert node is not None  # its name is known
        return node

    def names(self) -> list[str]:
        """Everything that can be named: nodes, ops and scopes, each once."""
        nodes = self.history.nodes()
        names = {node.name for node in nodes} | {f"op:{node.op}" for node in nodes}
        names |= {f"scope:{path}" for node in nodes for path in ancestors(node.scope)}
        return sorted(names)

    def evaluate(self, text: str, at: Moment | None = None) -> Any:
        """The value of an expression of the condition language at the cursor.

        ``NAME: EXPRESSION`` evaluates it at another node.

        Raises:
            ConditionError, UsageError: The expression has no value here; the message says why.
        """
        name, colon, expression_text = text.partition(": ")
        if colon and at is None and "[" not in name:  # not a part such as w[1: 3]
            return self.evaluate(expression_text, self._holding(name.strip()))
        expression = compile_expression(text)
        result = expression(self._scene(expression, at or self.moment))
        return result.whole() if isinstance(result, RecordedArray) else result

    def named(self, text: str) -> ValueAtMoment | None:
        """The value of a node named by a text; None if the text is an expression.

        Raises:
            UsageError: The text looks like the name of a node that does not exist.
        """
        if text in NAMES:
            return None
        try:
            at = self._holding(text)
        except UsageError:
            if "/" in text and text.replace("/", "").replace("_", "").isalnum():
                raise
            return None
        return self.outputs(at)[0] if at.node.outputs else None

    def _holding(self, name: str) -> Moment:
        """Like `of_node`, but for a parameter assigned since it was read, the assignment."""
        at = self.of_node(name)
        if at.when == "after" and at.node.is_leaf:
            return self.history.assigned(at, self.moment.seq) or at
        return at

    def _scene(self, expression: Expression, at: Moment) -> Scene:
        lack = self.shortfall("gradients", at.node.dialect) if "grad" in expression.names else None
        if lack is not None:
            raise ConditionError(f"grad: {lack.text}", hint=lack.hint)
        scene = navigation.scene(self.history, expression, at, self._gate.live_array)
        scene.elapsed = self._elapsed()
        return scene

    def edit(self, text: str) -> str:
        """Change a value at the node where the program is stopped; return a description of the
        edit.

        Raises:
            EditError: The value cannot be changed that way; see `edits.syntax.parse_edit`.
            UsageError: The program is not stopped there.
        """
        target, command = parse_edit(text)
        at = self.moment
        if self.looking_back:
            self.command(command)  # says why not
        matches = [
            value
            for value in (*self.outputs(at), *self.inputs(at))
            if target in (value.role, value.name) or value.name.endswith(f"/{target}")
        ]
        if target == "value":
            matches = list(self.outputs(at)[:1])
        if not matches:
            raise EditError(
                f"{target!r} is not a value of {at.node.name}",
                hint="value, inputs[0], or the name of one of them",
            )
        chosen = matches[0]
        if at.when == "after" and chosen.role.startswith("inputs"):
            current = (output.array for output in self.outputs(at) if output.value == chosen.value)
            if any(array is not chosen.array for array in current):
                raise EditError(
                    f"{chosen.role} is an older value of {chosen.name}, which has changed since",
                    hint="value is its current value; stop before the node to change its input",
                )
        self._gate.command(msgspec.structs.replace(command, value=chosen.value))
        edits = self._gate.info.stop.edits if self._gate.info.stop is not None else ()
        return edits[-1] if edits else ""

    # ------------------------------------------------------------ navigation

    def now(self) -> Moved:
        """Move the cursor back to where the program is stopped."""
        self._cursor = None
        return Moved(self._live(), self.stop.text)

    def back(self, command: Command | None = None) -> Moved:
        """Move the cursor to the previous execution, or with a stepping command, by that step
        backwards.

        Raises:
            UsageError: There is no earlier execution.
        """
        at = self.moment
        goal = None if command is None else goal_of(command, at)
        moment = navigation.step(self.history, at, goal, back=True)
        if moment is None:
            raise UsageError(self._nothing("before"))
        return self._at(moment, f"Back at {moment.node.name}")

    def reverse_continue(self) -> Moved:
        """Move the cursor back to the last execution that an enabled breakpoint covers.

        Its condition must hold on the recorded values; breakpoints whose values are not recorded
        are reported. If there is none, the cursor goes to the first execution.

        Raises:
            UsageError: There is no earlier execution.
        """
        result = navigation.to_breakpoint(
            self.history, self.moment, self.breakpoints, back=True, live=self._gate.live_array
        )
        if result.moment is not None and result.breakpoint is not None:
            name = f"breakpoint {result.breakpoint.id}: {result.moment.node.name}"
            return self._at(result.moment, f"Back at {name}{result.note}")
        if result.last is None:
            raise UsageError(self._nothing("before"))
        name = result.last.node.name
        return self._at(result.last, f"No earlier breakpoint; back at {name}{result.note}", False)

    def _continue_forward(self, at: Moment) -> Moved:
        result = navigation.to_breakpoint(
            self.history, at, self.breakpoints, back=False, until=self.stop.seq - 1,
            live=self._gate.live_array,
        )  # fmt: skip
        if result.moment is None or result.breakpoint is None:
            return self._arrive()
        name = f"breakpoint {result.breakpoint.id}: {result.moment.node.name}"
        return self._at(result.moment, f"At {name}{result.note}")

    def _forward(self, at: Moment, goal: Goal) -> Moved:
        moment = navigation.step(self.history, at, goal, back=False, until=self.stop.seq - 1)
        return self._arrive() if moment is None else self._at(moment, f"At {moment.node.name}")

    def _arrive(self) -> Moved:
        moved = self.now()
        return Moved(moved.moment, f"Back at the live stop: {moved.text}")

    def _at(self, moment: Moment, text: str, found: bool = True) -> Moved:
        self._cursor = moment
        return Moved(moment, f"{text}, step {moment.step}", found)

    def _nothing(self, side: str) -> str:
        if self.history.level == "graph":
            return "level graph keeps no history"
        return f"nothing {side} this is recorded"
