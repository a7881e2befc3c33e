"""The debug protocol: commands, breakpoints, session state. Shared by gate, link, server and page.

The vocabulary is the Debug Adapter Protocol's where it has a word.

Invariant: plain data only. Nothing here imports the engine, the recorder or a transport.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from nodescope.events import Level
from nodescope.ir.capabilities import Framework

PROTOCOL_VERSION = 1

# How long a stopped program waits for a lost controller before it goes on by itself.
CONTROLLER_GRACE_S = 5.0

SessionPhase = Literal["running", "stopped", "finished", "detached"]
StopReason = Literal["entry", "breakpoint", "step", "pause", "run_to", "exception", "watch"]
When = Literal["before", "after"]
BreakpointKind = Literal["node", "glob", "regex", "op", "scope", "source"]


class Breakpoint(msgspec.Struct, frozen=True):
    """Where and when to stop.

    Attributes:
        id: Chosen by the session, from 1 up; 0 in a request for a new one.
        kind: ``node`` is an exact name, ``glob`` a shell pattern and ``regex`` a regular expression
            over whole names, ``op`` an op's name, ``scope`` a scope path (stops at the first node
            inside, each time it is entered), ``source`` a line of the program, ``model.py:42``.
        target: The name, pattern, op, path or line.
        when: Before or after the node runs. A condition on ``value`` needs ``after``.
        condition: Expression that must be true, or ``""``. One that names ``grad`` is asked when
            the gradient of the node's output becomes known.
        enabled: Kept but not armed when false.
        phase: Only nodes of this phase of training; ``""`` for any.
        first_step, last_step: Only in these training steps, both inclusive; None has no end.
        hits: Which of the times that everything else holds count: ``== 3``, ``>= 3``, ``% 5``
            (every fifth); ``""`` for each. DAP's ``hitCondition``.
        log: A line to log instead of stopping; ``{expression}`` is evaluated. ``""`` stops.
        once: Is disabled by its first stop.
        group: A name that several share, so that they can be switched together; or ``""``.
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
    """A breakpoint and what became of it.

    Attributes:
        verified: Something in the graph matches it. False is "not seen yet", not an error.
        hits: How often all that it asks for held, its ``hits`` apart.
        message: Why it is unverified or was disabled, with near names; what became of its node in
            a compiled function; or ``""``.
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
    """Why and where the program stands still.

    Attributes:
        node: Node id of the cursor.
        seq: The execution's seq for ``after``; for ``before`` the last seq recorded.
        breakpoint, watch: Id of the breakpoint, or of the watch, that was hit, or 0.
        text: One line for a person: ``Breakpoint 1: value > 3 on loss/mean``.
        stack: The user's Python stack, innermost first.
        edits: What was changed at this stop, in words.
        error: What the program raises outside of operations, ``ValueError: no``: the node is the
            one that ran last before. ``""`` at other stops.
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
    """Something that a watch has found: at which node, when, and what, in words."""

    node: int
    seq: int
    step: int
    text: str


class WatchStatus(msgspec.Struct, frozen=True):
    """A watch rule at work, and what it has found.

    Attributes:
        id: Chosen by the session, from 1 up.
        text: The watch as it is written, such as ``tensor_overflow on scope:encoder -> stop``.
        rule: The rule's name.
        hits: Number of hits.
        last: The last time, in words; or ``""``.
        node: The node of the last hit, 0 without one.
        seq, step: The execution of the last hit.
        message: Why it is asked of nothing, or was disabled; or ``""``.
        marks: Its hits are marked on their nodes.
        recent: The newest hits, the last one first.
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
        version: Grows by one with every change, so that the newer of two wins.
        attended: Whether a controller is connected; breakpoints of an unattended run do not stop.
        watches: What is watched for.
    """

    phase: SessionPhase = "running"
    version: int = 0
    stop: Stop | None = None
    breakpoints: tuple[BreakpointStatus, ...] = ()
    attended: bool = True
    watches: tuple[WatchStatus, ...] = ()


# Commands. Each is answered once the session has taken it, not once the program has stopped again.


class OfThread(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked of one thread.

    Attributes:
        thread: Which; None for the one that stopped.
        alone: Only this thread goes on: the others wait on at their nodes until the next stop, or
            until they are let go, too.
    """

    thread: int | None = None
    alone: bool = False


class Continue(OfThread, frozen=True, tag="continue"):
    """Run until the next breakpoint."""


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Stop at the next node."""


class StepNode(OfThread, frozen=True, tag="step_node"):
    """Stop after the next node, in whatever scope."""


class StepIn(OfThread, frozen=True, tag="step_in"):
    """Go into the next scope: stop after the first node in none of this scope and those around.

    Attributes:
        scope: Go into this one instead: stop after the first node inside it.
    """

    scope: str | None = None


class StepOver(OfThread, frozen=True, tag="step_over"):
    """Stop after the next node whose scope, this one or another, is not deeper than this one.

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
        by_end: Whether the end of its name is enough, as of a node that has not run yet.
    """

    node: str
    by_end: bool = False


class Detach(msgspec.Struct, frozen=True, tag="detach"):
    """Let the program run to its end; it is recorded but stops no more."""


class SetBreakpoints(msgspec.Struct, frozen=True, tag="set_breakpoints"):
    """Replace the whole set, as in DAP.

    A breakpoint that keeps its id keeps its hits; they begin anew when what it asks for changes:
    its place, condition, phase, steps or which of its hits count.
    """

    breakpoints: tuple[Breakpoint, ...]


class SetWatches(msgspec.Struct, frozen=True, tag="set_watches"):
    """Replace the whole set of watch rules. One that is written as it was keeps what it knows.

    Attributes:
        watches: As they are written.
    """

    watches: tuple[str, ...]


class SetKeeping(msgspec.Struct, frozen=True, tag="set_keeping"):
    """What is kept of the program from now on, beside what it was started with.

    Attributes:
        everything: Every element of every node, whatever it costs; no step is left out.
        nodes: Ids of nodes of which every element is kept, since somebody looks at them.
    """

    everything: bool = False
    nodes: tuple[int, ...] = ()


EditKind = Literal["set", "add", "scale", "clip", "noise", "npy"]


class SetValue(msgspec.Struct, frozen=True, tag="set_value"):
    """Change a value at the node at which the program stands; it goes on with the new one.

    Gradients flow as if the operation had given the new value: its rule is evaluated at it.

    Attributes:
        value: Value id: an output of the node, or an input of it.
        how: ``set`` to ``number``, ``add`` it, ``scale`` by it, ``clip`` to ``low`` and ``high``,
            add ``noise`` (normal, of standard deviation ``number``, from ``seed``), or take the
            elements of an array file, ``npy``.
        index: Which elements, as NumPy writes it: ``3, :, 1:5``, or ``isnan`` for a condition on
            the elements; ``""`` for all.
        imaginary: The imaginary part of the number, for complex values.
        npy: The content of a .npy file, of the shape of what it replaces.
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
    """Whether the program stops where a node raises; it does at first."""

    stop: bool


class StepTwin(msgspec.Struct, frozen=True, tag="step_twin"):
    """Run to the backward node of this forward node, or from it to its forward node."""


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
        kind: ``nan`` or ``inf``: what it became first.
        step: The training step since which it is not finite.
    """

    kind: Literal["nan", "inf"]
    step: int

    def __str__(self) -> str:
        return f"{'NaN' if self.kind == 'nan' else 'Inf'} since step {self.step:,}"


class RunInfo(msgspec.Struct, frozen=True):
    """What a list of runs shows.

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
        trouble: What is wrong with the recording now, in a line, or ``""``.
        frameworks: Those observed so far, each with what can be seen of its nodes, and done with
            them; none of a live run that has not begun.
        broken_loss: How its loss ended, if it is not finite; known once the run is over.
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
