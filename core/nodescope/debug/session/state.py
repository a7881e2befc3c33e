"""Session state, inputs and effects, as data.

Invariant: frozen data without arrays; equal states lead to equal decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from nodescope.debug.breakpoints.matching import Became, Catalog
from nodescope.ir.graph import Node
from nodescope.protocol import (
    BreakpointStatus,
    Command,
    Frame,
    SessionInfo,
    SessionPhase,
    Stop,
    StopReason,
    WatchStatus,
    When,
)

GoalKind = Literal[
    "entry", "pause", "step_node", "step_in", "inside", "outside", "shallow", "step", "run_to",
    "twin", "forward",
]  # fmt: skip


class Goal(msgspec.Struct, frozen=True):
    """The point up to which the program runs, once, in addition to breakpoints.

    Attributes:
        kind: ``outside`` stops outside ``scope``, ``inside`` in it, ``shallow`` at anything not
            deeper than it, inside or outside, ``step`` in a training step later than ``step``,
            ``twin`` at the backward node of the node whose id is ``of``, ``forward`` at that node
            itself (only when looking back: it ran before); the others as their commands.
        thread: Only nodes of this thread count; None for any.
        by_end: Whether ``node`` may be the end of the name of the node to run to.
    """

    kind: GoalKind
    scope: str = ""
    step: int = 0
    node: str = ""
    thread: int | None = None
    text: str = ""
    of: int = 0
    reason: StopReason = "pause"
    watch: int = 0
    by_end: bool = False


class SessionState(msgspec.Struct, frozen=True):
    """Everything that the session's decisions depend on.

    Attributes:
        controllers: Connected pages.
        awaiting: Whether no page has connected yet and the program waits for the first one.
        lost_at: When the last page disconnected, in seconds; None outside of its grace period.
        stop_on_exception: Whether a node that raises stops the program.
        alone: The threads that run while all others are held; empty for all.
    """

    phase: SessionPhase = "running"
    version: int = 0
    stop: Stop | None = None
    breakpoints: tuple[BreakpointStatus, ...] = ()
    goal: Goal | None = None
    next_id: int = 1
    controllers: int = 0
    awaiting: bool = False
    ever_attended: bool = False
    expects_controller: bool = False
    lost_at: float | None = None
    stop_on_exception: bool = True
    watches: tuple[WatchStatus, ...] = ()
    alone: tuple[int, ...] = ()


def new_session(
    *, stop_on_entry: bool = False, expects_controller: bool = False, stop_on_exception: bool = True
) -> SessionState:
    """The state at the start of a run.

    Args:
        stop_on_entry: Whether to stop before the first node.
        expects_controller: Whether a page is expected: stops before it arrives wait for it without
            limit.
        stop_on_exception: Whether to stop where a node raises.
    """
    expects = stop_on_entry or expects_controller
    return SessionState(
        goal=Goal("entry") if stop_on_entry else None,
        awaiting=expects,
        expects_controller=expects,
        stop_on_exception=stop_on_exception,
    )


# ---------------------------------------------------------------- inputs


class ConditionResult(msgspec.Struct, frozen=True):
    """The result of a breakpoint's condition at a node.

    Attributes:
        true: Whether the condition holds, or there is none.
        error: Why it could not be evaluated, or ``""``.
        text: The log message, if the hit counts.
    """

    breakpoint: int
    true: bool = False
    error: str = ""
    text: str = ""


class NodeReached(msgspec.Struct, frozen=True):
    """A thread has reached a point before or after a node.

    Attributes:
        seq: The execution's seq, or before the node the last one recorded.
        previous: The place of this thread's previous node: (scope, step), or None if unknown.
        verdicts: One for each candidate that has a condition or logs.
        error: The exception that the node raised, or ``""``.
        stands_for: Nodes that a compiler merged into it, or otherwise replaced by it.
        gradient_of: The node whose output's gradient has just been computed.
    """

    node: Node
    when: When
    step: int
    seq: int
    thread: int
    now_s: float = 0.0
    previous: tuple[str, int] | None = None
    verdicts: tuple[ConditionResult, ...] = ()
    error: str = ""
    stands_for: tuple[Node, ...] = ()
    gradient_of: Node | None = None


class Raised(msgspec.Struct, frozen=True):
    """A thread ends by an uncaught exception that no operation raised.

    Attributes:
        node, step, seq: The last execution before it.
        error: As text, ``ValueError: no``.
        stack: Where it was raised, innermost frame first.
        in_step: The step in or after which it was raised.
    """

    node: Node
    step: int
    seq: int
    thread: int
    error: str
    stack: tuple[Frame, ...] = ()
    in_step: int = 0


class StackRead(msgspec.Struct, frozen=True):
    """The Python stack at the current stop, innermost frame first."""

    stack: tuple[Frame, ...]


class Commanded(msgspec.Struct, frozen=True):
    """A controller has sent a command.

    Attributes:
        catalog: The catalog, which verifies breakpoints.
        held_scopes: Scope of the node at which each held thread waits, by thread.
    """

    command: Command
    catalog: Catalog
    held_scopes: Mapping[int, str] = {}


class Edited(msgspec.Struct, frozen=True):
    """A value was edited at the stop: ``how`` describes the edit, ``note`` its limits."""

    how: str
    note: str = ""


class GraphKnown(msgspec.Struct, frozen=True):
    """Nodes were defined, or compiled into others."""

    nodes: tuple[Node, ...]
    became: tuple[Became, ...] = ()


class GraphSettled(msgspec.Struct, frozen=True):
    """A training step or the run ended: unmatched breakpoints are reported now."""

    catalog: Catalog


class BreakHere(msgspec.Struct, frozen=True):
    """The program itself, or a watch, requests a stop at the next node."""

    text: str
    reason: StopReason = "pause"
    watch: int = 0


class WatchesChanged(msgspec.Struct, frozen=True):
    """The set of watches, or their hits, have changed."""

    watches: tuple[WatchStatus, ...]


class ControllersChanged(msgspec.Struct, frozen=True):
    """The number of connected pages has changed."""

    count: int
    now_s: float


class LinkChanged(msgspec.Struct, frozen=True):
    """The connection to the server was made or lost."""

    up: bool
    now_s: float


class Tick(msgspec.Struct, frozen=True):
    """Time has passed.

    Attributes:
        ended: The threads that ran alone have ended.
    """

    now_s: float
    ended: bool = False


class Interrupted(msgspec.Struct, frozen=True):
    """The waiting program was interrupted from outside (Ctrl-C)."""


class ProgramFinished(msgspec.Struct, frozen=True):
    """The run ended."""


Input = (
    NodeReached
    | Raised
    | StackRead
    | Commanded
    | Edited
    | GraphKnown
    | GraphSettled
    | BreakHere
    | WatchesChanged
    | ControllersChanged
    | LinkChanged
    | Tick
    | Interrupted
    | ProgramFinished
)

# ---------------------------------------------------------------- effects


class Hold(msgspec.Struct, frozen=True):
    """Hold the thread that reached the node, and all others at their next node."""

    stop: Stop


class Release(msgspec.Struct, frozen=True):
    """Release all threads."""


class Announce(msgspec.Struct, frozen=True):
    """Report the state to the controllers."""

    info: SessionInfo


class Log(msgspec.Struct, frozen=True):
    """A message to the user, in the program's log.

    Attributes:
        step: The training step that it refers to, or 0.
    """

    text: str
    step: int = 0


Effect = Hold | Release | Announce | Log
Result = tuple[SessionState, tuple[Effect, ...]]
