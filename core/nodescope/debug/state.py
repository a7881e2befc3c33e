"""What the session knows, takes in and asks for: its state, inputs and effects.

Invariant: frozen data without arrays; equal states decide equally.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from nodescope.debug.breakpoints import Became, Catalog
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
    """What the program is to run up to, once, besides breakpoints.

    Attributes:
        kind: ``outside`` stops outside ``scope``, ``inside`` in it, ``shallow`` at anything not
            deeper than it, ``step`` in a training step later than ``step``, ``twin`` at the
            backward node of the node whose id is ``of``, ``forward`` at that node itself (only when
            looking back: it ran before); the others as their commands.
        thread: Only nodes of this thread count; None for any.
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


class SessionState(msgspec.Struct, frozen=True):
    """Everything that decisions depend on.

    Attributes:
        controllers: Connected pages.
        awaiting: No page has come yet and the program is to wait for the first one.
        lost_at: When the last page went, in seconds; None unless its grace is running.
        stop_on_exception: Whether a node that raises stops the program.
        alone: While it runs, only these threads go on; none for all.
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
        stop_on_entry: Stop before the first node.
        expects_controller: A page is to come: stops before that wait for it without limit.
        stop_on_exception: Stop where a node raises.
    """
    expects = stop_on_entry or expects_controller
    return SessionState(
        goal=Goal("entry") if stop_on_entry else None,
        awaiting=expects,
        expects_controller=expects,
        stop_on_exception=stop_on_exception,
    )


# ---------------------------------------------------------------- inputs


class Verdict(msgspec.Struct, frozen=True):
    """What the condition of a breakpoint gave at a node.

    Attributes:
        true: It holds, or there is none.
        error: It could not be evaluated.
        text: What the breakpoint logs if it counts.
    """

    breakpoint: int
    true: bool = False
    error: str = ""
    text: str = ""


class NodeReached(msgspec.Struct, frozen=True):
    """A thread stands before or after a node.

    Attributes:
        seq: The execution's seq, or before the node the last one recorded.
        previous: Where this thread's previous node was: (scope, step), or None if unknown.
        verdicts: One for each candidate that has a condition or logs.
        error: The node raised this; ``""`` otherwise.
        stands_for: Nodes that were merged into it by a compiler, or otherwise replaced by it.
        gradient_of: The node whose output's gradient it has just given.
    """

    node: Node
    when: When
    step: int
    seq: int
    thread: int
    now_s: float = 0.0
    previous: tuple[str, int] | None = None
    verdicts: tuple[Verdict, ...] = ()
    error: str = ""
    stands_for: tuple[Node, ...] = ()
    gradient_of: Node | None = None


class Raised(msgspec.Struct, frozen=True):
    """A thread ends by an exception that no operation raised, or that nobody has caught.

    Attributes:
        node, step, seq: What ran last before it.
        error: In words, ``ValueError: no``.
        stack: Where it was raised, innermost frame first.
    """

    node: Node
    step: int
    seq: int
    thread: int
    error: str
    stack: tuple[Frame, ...] = ()


class StackRead(msgspec.Struct, frozen=True):
    """The Python stack at the current stop, innermost frame first."""

    stack: tuple[Frame, ...]


class Commanded(msgspec.Struct, frozen=True):
    """A controller asks for something.

    Attributes:
        catalog: Verifies breakpoints.
        standing: The scopes in which threads are held at a node, by thread.
    """

    command: Command
    catalog: Catalog
    standing: Mapping[int, str] = {}


class Edited(msgspec.Struct, frozen=True):
    """A value was changed at the current stop, in words."""

    how: str


class GraphKnown(msgspec.Struct, frozen=True):
    """Nodes were met for the first time, or it is known what a compiler made of them."""

    nodes: tuple[Node, ...]
    became: tuple[Became, ...] = ()


class GraphSettled(msgspec.Struct, frozen=True):
    """A training step or the run ended: what has not been seen by now deserves a word."""

    catalog: Catalog


class BreakHere(msgspec.Struct, frozen=True):
    """The program itself, or a watch, asks to be stopped at the node that comes next."""

    text: str
    reason: StopReason = "pause"
    watch: int = 0


class WatchesChanged(msgspec.Struct, frozen=True):
    """What is watched for is another set, or has found something."""

    watches: tuple[WatchStatus, ...]


class ControllersChanged(msgspec.Struct, frozen=True):
    """So many pages are connected now."""

    count: int
    now_s: float


class LinkChanged(msgspec.Struct, frozen=True):
    """The connection to the server was made or lost."""

    up: bool
    now_s: float


class Tick(msgspec.Struct, frozen=True):
    """Time has passed.

    Attributes:
        ended: The threads that were to go on alone have ended.
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
    """Keep the thread that reached the node, and all others at their next node."""

    stop: Stop


class Release(msgspec.Struct, frozen=True):
    """Let all threads go on."""


class Announce(msgspec.Struct, frozen=True):
    """Tell the controllers."""

    info: SessionInfo


class Log(msgspec.Struct, frozen=True):
    """Say something to the person, in the program's log.

    Attributes:
        step: The training step that it is about, or 0.
    """

    text: str
    step: int = 0


Effect = Hold | Release | Announce | Log
Result = tuple[SessionState, tuple[Effect, ...]]
