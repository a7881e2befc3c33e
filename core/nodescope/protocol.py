"""The debug protocol: commands, breakpoints, session state. Shared by gate, link, server and page.

The vocabulary follows the Debug Adapter Protocol where that has a word.

Invariant: plain data only. Nothing here imports the engine, the recorder or a transport.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from nodescope.events import Level
from nodescope.ir.capabilities import Framework

PROTOCOL_VERSION = 1

# How long a stopped program waits for a lost controller before it continues by itself.
CONTROLLER_GRACE_S = 5.0

SessionPhase = Literal["running", "stopped", "finished", "detached"]
StopReason = Literal["entry", "breakpoint", "step", "pause", "run_to", "exception", "watch"]
When = Literal["before", "after"]
BreakpointKind = Literal["node", "glob", "regex", "op", "scope", "source"]


class Breakpoint(msgspec.Struct, frozen=True):
    """Where and when to stop.

    Attributes:
        id: Chosen by the session, from 1 up; 0 in a request for a new one.
        kind: The kind of target: ``node`` is an exact name, ``glob`` a shell pattern and ``regex``
            a regular expression over whole names, ``op`` an op's name, ``scope`` a scope path
            (stops at the first node inside, each time it is entered), ``source`` a line of the
            program, ``model.py:42``.
        target: The name, pattern, op, path or line.
        when: Before or after the node runs. A condition on ``value`` needs ``after``.
        condition: Expression that must be true, or ``""``. A condition on ``grad`` is evaluated
            when the gradient of the node's output becomes known.
        enabled: Whether it is armed; a disabled breakpoint is kept.
        phase: Only nodes of this phase of training; ``""`` for any.
        first_step, last_step: Only in these training steps, both inclusive; None for no limit.
        hits: Which of the hits stop, counted when everything else holds: ``== 3``, ``>= 3``, ``%
            5`` (every fifth); ``""`` for every hit. DAP's ``hitCondition``.
        log: A line to log instead of stopping; ``{expression}`` is evaluated. ``""`` stops.
        once: Whether its first stop disables it.
        group: A name shared by breakpoints that are switched together; or ``""``.
    """

    kind: BreakpointKind
    target: str
    id: int = 0
    when: When = "after"
    condition: str = ""
    enabled: bool = True
    phase: Literal["", "forward", "backward", "optimizer", "recompute", "other"] = ""
    first_step: int = 0
    last_step: int | None = None
    hits: str = ""
    log: str = ""
    once: bool = False
    group: str = ""


class BreakpointStatus(msgspec.Struct, frozen=True):
    """A breakpoint and its state.

    Attributes:
        verified: Whether a node in the graph matches it. False means "not seen yet", not an error.
        hits: How often everything but its ``hits`` condition held.
        message: Why it is unverified or was disabled, with similar names; the fate of its node in a
            compiled function; or ``""``.
    """

    breakpoint: Breakpoint
    verified: bool = False
    hits: int = 0
    message: str = ""


class Frame(msgspec.Struct, frozen=True):
    """One frame of the user's Python stack, innermost first in a list."""

    file: str
    line: int
    function: str
    code: str = ""


class Stop(msgspec.Struct, frozen=True):
    """Why and where the program is stopped.

    Attributes:
        node: Node id of the cursor.
        seq: The execution's seq for ``after``; for ``before`` the last seq recorded.
        breakpoint, watch: Id of the breakpoint or watch that was hit, or 0.
        text: A one-line description: ``Breakpoint 1: value > 3 on loss/mean``.
        stack: The user's Python stack, innermost first.
        edits: Descriptions of the edits at this stop.
        error: The exception raised outside of operations, ``ValueError: no``; the node is then the
            last one that ran. ``""`` at other stops.
    """

    reason: StopReason
    node: int
    node_name: str
    scope: str
    when: When
    step: int
    seq: int
    thread: int
    breakpoint: int = 0
    text: str = ""
    stack: tuple[Frame, ...] = ()
    edits: tuple[str, ...] = ()
    watch: int = 0
    error: str = ""


class WatchSeen(msgspec.Struct, frozen=True):
    """A hit of a watch: at which node, when, and a description of the finding."""

    node: int
    seq: int
    step: int
    text: str


class WatchStatus(msgspec.Struct, frozen=True):
    """An active watch rule, and its findings.

    Attributes:
        id: Chosen by the session, from 1 up.
        text: The watch as text, such as ``tensor_overflow on scope:encoder -> stop``.
        rule: The rule's name.
        hits: Number of hits.
        last: Description of the last hit, or ``""``.
        node: The node of the last hit, 0 without one.
        seq, step: The execution of the last hit.
        message: Why it applies to no node, or was disabled; or ``""``.
        marks: Whether its hits are marked on their nodes.
        recent: The newest hits, latest first.
    """

    id: int
    text: str
    rule: str
    enabled: bool = True
    hits: int = 0
    last: str = ""
    node: int = 0
    seq: int = 0
    step: int = 0
    message: str = ""
    marks: bool = False
    recent: tuple[WatchSeen, ...] = ()


class SessionInfo(msgspec.Struct, frozen=True):
    """The state of a debug session as a client sees it.

    Attributes:
        version: Grows by one with every change, so that the newer of two states wins.
        attended: Whether a controller is connected; breakpoints of an unattended run do not stop.
        watches: The watches.
    """

    phase: SessionPhase = "running"
    version: int = 0
    stop: Stop | None = None
    breakpoints: tuple[BreakpointStatus, ...] = ()
    attended: bool = True
    watches: tuple[WatchStatus, ...] = ()


# Commands. Each is answered once the session has accepted it, not when the program has stopped
# again.


class OfThread(msgspec.Struct, frozen=True, kw_only=True):
    """A command that may apply to one thread.

    Attributes:
        thread: The thread; None for the one that stopped.
        alone: Whether only this thread continues: the others wait at their nodes until the next
            stop, or until they are continued as well.
    """

    thread: int | None = None
    alone: bool = False


class Continue(OfThread, frozen=True, tag="continue"):
    """Run until the next breakpoint."""


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Stop at the next node."""


class StepNode(OfThread, frozen=True, tag="step_node"):
    """Stop after the next node, in any scope."""


class StepIn(OfThread, frozen=True, tag="step_in"):
    """Step in: stop after the first node whose scope is neither this one nor one around it.

    Attributes:
        scope: Step into this scope instead: stop after the first node inside it.
    """

    scope: str | None = None


class StepOver(OfThread, frozen=True, tag="step_over"):
    """Stop after the next node whose scope is not deeper than the current one.

    Attributes:
        scope: Step over this whole scope instead: stop at the first node outside it.
    """

    scope: str | None = None


class StepOut(OfThread, frozen=True, tag="step_out"):
    """Stop after the first node outside the current scope."""


class NextStep(msgspec.Struct, frozen=True, tag="next_step"):
    """Stop after the first node of the next training step."""


class RunTo(msgspec.Struct, frozen=True, tag="run_to"):
    """Run until a node has run, once.

    Attributes:
        node: The node's name.
        by_end: Whether the end of its name suffices, for a node that has not run yet.
    """

    node: str
    by_end: bool = False


class Detach(msgspec.Struct, frozen=True, tag="detach"):
    """Let the program run to its end; it is recorded but no longer stops."""


class SetBreakpoints(msgspec.Struct, frozen=True, tag="set_breakpoints"):
    """Replace the whole set of breakpoints, as in DAP.

    A breakpoint that keeps its id keeps its hits. They restart when its place, condition, phase,
    steps or hit condition changes.
    """

    breakpoints: tuple[Breakpoint, ...]


class SetWatches(msgspec.Struct, frozen=True, tag="set_watches"):
    """Replace the whole set of watch rules. A rule with unchanged text keeps its state.

    Attributes:
        watches: The watches as text.
    """

    watches: tuple[str, ...]


class SetKeeping(msgspec.Struct, frozen=True, tag="set_keeping"):
    """Set what is kept from now on, beyond what the program was started with.

    Attributes:
        everything: Whether to keep every element of every node, whatever it costs, and leave no
            step out.
        nodes: Ids of nodes that are being viewed: every element of these is kept.
    """

    everything: bool = False
    nodes: tuple[int, ...] = ()


EditKind = Literal["set", "add", "scale", "clip", "noise", "npy"]


class SetValue(msgspec.Struct, frozen=True, tag="set_value"):
    """Change a value at the node where the program is stopped; it continues with the new one.

    Gradients flow as if the operation had produced the new value: its rule is evaluated there.

    Attributes:
        value: Value id of an output or an input of the node.
        how: The change: ``set`` to ``number``, ``add`` it, ``scale`` by it, ``clip`` to ``low`` and
            ``high``, add ``noise`` (normal, of standard deviation ``number``, from ``seed``), or
            take the elements of an array file, ``npy``.
        index: The elements to change, in NumPy's notation: ``3, :, 1:5``, or ``isnan`` for a
            condition on the elements; ``""`` for all.
        imaginary: The imaginary part of the number, for complex values.
        npy: The content of a .npy file, in the shape of the elements that it replaces.
    """

    value: int
    how: EditKind = "set"
    number: float = 0.0
    index: str = ""
    low: float | None = None
    high: float | None = None
    seed: int = 0
    npy: bytes = b""
    imaginary: float = 0.0


class SetExceptions(msgspec.Struct, frozen=True, tag="set_exceptions"):
    """Set whether the program stops where a node raises; initially it does."""

    stop: bool


class StepTwin(msgspec.Struct, frozen=True, tag="step_twin"):
    """Run to the backward node of this forward node, or to the forward node of this backward
    node.
    """


Command = (
    Continue
    | Pause
    | StepNode
    | StepIn
    | StepOver
    | StepOut
    | NextStep
    | RunTo
    | Detach
    | SetBreakpoints
    | SetValue
    | SetWatches
    | SetKeeping
    | SetExceptions
    | StepTwin
)


class BrokenLoss(msgspec.Struct, frozen=True):
    """A loss that is NaN or infinite at the end of a run, or now.

    Attributes:
        kind: ``nan`` or ``inf``: which it became first.
        step: The training step since which it is not finite.
    """

    kind: Literal["nan", "inf"]
    step: int

    def __str__(self) -> str:
        return f"{'NaN' if self.kind == 'nan' else 'Inf'} since step {self.step:,}"


class RunInfo(msgspec.Struct, frozen=True):
    """An entry in the list of runs.

    Attributes:
        id: 16 hexadecimal digits, unguessable enough to be a path component, never a path itself.
        name: The script's file name.
        argv: The command line.
        level: Capture level.
        state: ``live`` while connected, ``finished`` after its end, ``lost`` if it died without
            saying so, ``recorded`` when opened from a file.
        recording: Path of the ``.nscope`` file on the machine of the program.
        status: Exit status once finished.
        error: Last line of the traceback, or ``""``.
        trouble: A current fault of the recording, in a line, or ``""``.
        frameworks: The frameworks observed so far, with their capabilities; none for a live run
            that has not begun.
        broken_loss: The loss at the end, if it is not finite; known once the run is over.
    """

    id: str
    name: str
    argv: tuple[str, ...] = ()
    pid: int = 0
    started_unix_ns: int = 0
    level: Level = "summary"
    state: Literal["live", "finished", "lost", "recorded"] = "live"
    recording: str = ""
    status: int | None = None
    error: str = ""
    trouble: str = ""
    frameworks: tuple[Framework, ...] = ()
    broken_loss: BrokenLoss | None = None
