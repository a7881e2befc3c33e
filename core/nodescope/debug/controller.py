"""Controller: drives a gate from within the program's process, for front ends in that process.

It sends commands, waits for stops, and shows the state: the node, its values by name, frames,
expressions. While the program is stopped it can look back: a cursor moves through the recording;
stepping forward from there ends where the program has stopped.

Invariant: can be called from any thread except a stopped one; what it says about the past is what
was recorded. It blocks only its caller, and always with a limit.
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
    """Where looking back or forth in the recording came to.

    Attributes:
        moment: The new cursor.
        text: One line for a person.
        found: Whether it is what was looked for; else it is where the search ended.
    """

    moment: Moment
    text: str
    found: bool = True


class SeveralError(UsageError):
    """The end of a name does not tell which node is meant."""


class Controller:
    """A controller of a gate, in the same process.

    Args:
        gate: Whose ``on_change`` calls `changed`.
        recording: The file that the run is recorded into.
        elapsed: Gives the seconds since the run began, without those that it was held.
        flush: Has all that was met so far written, with its elements.
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
        """Be there: from now on the program stops for this controller."""
        self._gate.controllers(1)

    def absent(self) -> None:
        """Be gone for now: the program runs on, and stops again once somebody attends."""
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
        """Take a new state of the session; for the gate, returns at once."""
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
        """The session, as it was announced last."""
        return self._info

    @property
    def stop(self) -> Stop:
        """Where the program stands.

        Raises:
            UsageError: It does not.
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
        """Wait until the program stands, has ended or is on its own.

        Raises:
            TimeoutError: It still runs.
        """
        with self._news:
            if not self._news.wait_for(lambda: self._info.phase != "running", timeout_s):
                raise TimeoutError(f"the program is still running after {timeout_s:g} s")
            return self._info

    def command(self, command: Command) -> Moved | None:
        """Carry out a command.

        While looking back, stepping and continuing move through the recording, and end where the
        program stands; None if the program has taken it.

        Raises:
            NodescopeError: It cannot be carried out; nothing has changed.
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
        """The breakpoints, and what became of them."""
        return self._gate.info.breakpoints

    def set_breakpoints(self, breakpoints: Iterable[Breakpoint]) -> tuple[BreakpointStatus, ...]:
        """Replace the whole set; the statuses are in the order that was given.

        Raises:
            BreakpointError, ConditionError: One makes no sense; nothing has changed.
        """
        self._gate.command(SetBreakpoints(tuple(breakpoints)))
        return self.breakpoints

    # ------------------------------------------------------------ what is there

    @property
    def history(self) -> History:
        """The recording, up to now.

        Raises:
            RecordingError: It cannot be read.
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
        """What is looked back at; None while the cursor is where the program stands."""
        return self._cursor

    @property
    def moment(self) -> Moment:
        """Where the cursor is: where the program stands, or what is looked back at.

        Raises:
            UsageError: The program runs, or has ended.
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
        """Its outputs, by port."""
        return self.history.outputs(at or self.moment, self._gate.live_array)

    def gradient(self, at: Moment | None = None) -> ValueAtMoment | None:
        """The gradient of its first output, as far as known by then."""
        return self.history.gradient(at or self.moment, self._gate.live_array)

    def frames(self) -> tuple[ScopeFrame, ...]:
        """The name scopes around the cursor as frames, innermost first."""
        at = self.moment
        return frames(at.node, self.stop.stack if at.live else ())

    def frames_of(self, thread: int) -> tuple[ScopeFrame, ...]:
        """The frames of a thread that did not stop: where it is now, and at which node it is held.

        What it waits for that is no node, such as a lock, it goes on with by itself.
        """
        stack = user_stack(thread)
        node = self._gate.standing().get(thread)
        if node is None:
            return tuple(ScopeFrame("python", frame.function, frame.file, frame.line, frame.code)
                         for frame in stack)  # fmt: skip
        first, *outer = frames(node, stack)
        return (msgspec.structs.replace(first, kind="held"), *outer)

    def held(self, thread: int) -> bool:
        """Whether a thread is held at a node."""
        return thread in self._gate.standing()

    def of_node(self, name: str) -> Moment:
        """The latest execution of a node as seen from the cursor.

        Args:
            name: The node's name, or the end of it if only one node's name ends so.

        Raises:
            UsageError: There is none.
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
        """A node by its name, or by the end of it if that is enough.

        Raises:
            UsageError: There is none, or there are several (`SeveralError`).
        """
        history = self.history
        number = history.names.get(name)
        if number is None:
            ends = [full_name for full_name in history.names if full_name.endswith(f"/{name}")]
            # A backward node has the name of its forward node; who means it says so.
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
        """What can be named: nodes, ops and scopes, each once."""
        nodes = self.history.nodes()
        names = {node.name for node in nodes} | {f"op:{node.op}" for node in nodes}
        names |= {f"scope:{path}" for node in nodes for path in ancestors(node.scope)}
        return sorted(names)

    def evaluate(self, text: str, at: Moment | None = None) -> Any:
        """The value of an expression of the conditions' language at the cursor.

        ``NAME: EXPRESSION`` asks it of another node.

        Raises:
            ConditionError, UsageError: It has no value here; the message says why.
        """
        name, colon, expression_text = text.partition(": ")
        if colon and at is None and "[" not in name:  # not a part such as w[1: 3]
            return self.evaluate(expression_text, self._holding(name.strip()))
        expression = compile_expression(text)
        return expression(self._scene(expression, at or self.moment))

    def named(self, text: str) -> ValueAtMoment | None:
        """The value of a node that a text names; None if the text is an expression.

        Raises:
            UsageError: It looks like the name of a node, and there is none.
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
        """As `of_node`; of a parameter that was assigned to since it was read, the assignment."""
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
        """Change a value at the node where the program stands; what was done, in words.

        Raises:
            EditError: It cannot be changed so; `edit_text.parse_edit` tells how one writes it.
            UsageError: The program does not stand there.
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

    # ------------------------------------------------------------ back and forth

    def now(self) -> Moved:
        """The cursor back to where the program stands."""
        self._cursor = None
        return Moved(self._live(), self.stop.text)

    def back(self, command: Command | None = None) -> Moved:
        """The cursor to the execution before; with a stepping command, as that one backwards.

        Raises:
            UsageError: There is none.
        """
        at = self.moment
        goal = None if command is None else goal_of(command, at)
        moment = navigation.step(self.history, at, goal, back=True)
        if moment is None:
            raise UsageError(self._nothing("before"))
        return self._at(moment, f"Back at {moment.node.name}")

    def reverse_continue(self) -> Moved:
        """The cursor back to the last execution that an enabled breakpoint covers.

        Its condition must hold on the recorded values; of breakpoints where these are not recorded
        it is said. Without one, the cursor goes to the first execution.

        Raises:
            UsageError: There is nothing before.
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
