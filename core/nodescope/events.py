"""What a run emits, and the seam through which it is observed.

Data flows one way: engine or adapter -> `Bus.emit` -> probes (recorder first, gate last).

Invariant: a probe never changes a result, and a probe that raises is reported and removed. The one
exception that passes is a `BaseException` such as KeyboardInterrupt: it belongs to the program.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, Protocol

import msgspec
import numpy as np

from nodescope.ir.capabilities import ENGINE, Framework
from nodescope.ir.graph import Graph, Node, Value
from nodescope.ir.provenance import Fate, KernelCost, MemoryReport, Rewrite
from nodescope.telling import last_line, say

Level = Literal["graph", "timing", "summary", "values"]
LEVELS: tuple[Level, ...] = ("graph", "timing", "summary", "values")

Array = np.ndarray[Any, Any]
AnyArray = Any
"""An array of the library that the adapter is for; see `nodescope.arrays`."""

HostKind = Literal[
    "data", "python", "library", "waiting", "input", "held", "held_along", "unobserved", "compiling"
]
HOST_KINDS: tuple[HostKind, ...] = (
    "data", "python", "library", "waiting", "input", "held", "held_along",
    "unobserved", "compiling",
)  # fmt: skip


class RunStarted(msgspec.Struct, frozen=True, tag=True):
    """A run begins.

    Attributes:
        started_unix_ns: Wall time; every other time counts from it.
    """

    run_id: str
    name: str
    argv: tuple[str, ...]
    pid: int
    started_unix_ns: int
    framework: Framework = Framework("nodescope", capabilities=ENGINE)


class FrameworkAttached(msgspec.Struct, frozen=True, tag=True):
    """A framework is observed from now on. The first is named by `RunStarted`, too."""

    framework: Framework


class GraphExtended(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Nodes were met for the first time, or with other inputs than before (same id, new inputs)."""

    nodes: tuple[Node, ...]
    values: tuple[Value, ...]
    version: int = 0


class GraphCaptured(msgspec.Struct, frozen=True, tag=True):
    """A whole graph was captured at once. Its nodes do not run; those that do name it.

    Attributes:
        graph: Node and value ids are its own, shared only with the other graphs of its owner;
            ``graph.id`` is unique among the captured graphs of the run.
        owner: The compiled function and the number of its trace, as ``train_step#1``.
        stage: ``traced``, then the name of each pass that made another graph of it, and ``final``
            for what runs (kind ``compiled``, with `Node.origin`).
    """

    graph: Graph
    owner: str = ""
    stage: str = ""


class PassApplied(msgspec.Struct, frozen=True, tag=True):
    """A compiler pass turned one graph into another.

    Attributes:
        name: The pass.
        before, after: Ids of captured graphs; equal if nothing was changed.
        rewrites: What it changed, in order.
        owner: As of `GraphCaptured`.
        took_ns: Nanoseconds.
        notes: What it has to say besides, such as why two nodes stay apart.
    """

    name: str
    before: int
    after: int
    rewrites: tuple[Rewrite, ...] = ()
    owner: str = ""
    took_ns: int = 0
    notes: tuple[str, ...] = ()


class Compiled(msgspec.Struct, frozen=True, tag=True):
    """What became of a traced function; comes after its captured graphs.

    Attributes:
        owner: As of `GraphCaptured`.
        backend: Its name; ``""`` if the graph runs as it was traced.
        fallback: Why it is not the one asked for, or ``""``.
        fates: One per traced node.
        origins: By id of a final node: ids of the traced nodes that it stands for.
        values: By id of a traced value: id of the final value that stands for it.
        inside: By id of a traced value that only a kernel computes: the kernel's node id and the
            value's id in its body.
        unfused: Why nodes are not one kernel, in words.
        costs: By id of a final node.
        memory: Of the back end's plan; None if it planned nothing.
        compile_ns: How long it took to lower and build.
    """

    owner: str
    backend: str
    fallback: str = ""
    fates: tuple[Fate, ...] = ()
    origins: dict[int, tuple[int, ...]] = {}
    values: dict[int, int] = {}
    inside: dict[int, tuple[int, int]] = {}
    unfused: tuple[str, ...] = ()
    costs: dict[int, KernelCost] = {}
    memory: MemoryReport | None = None
    compile_ns: int = 0


class StepStarted(msgspec.Struct, frozen=True, tag=True):
    """A training step begins. Steps count from 1; what runs before the first step is step 0.

    Attributes:
        observed: False if the step is left out: nothing is emitted of what runs in it.
    """

    step: int
    time_ns: int
    observed: bool = True


class Loss(msgspec.Struct, frozen=True, gc=False):
    """The number that backward passes of a training step began with.

    Attributes:
        curve: Which of the program's losses: the number of the line that began them, from 1.
        value: The loss; the mean, if that line began several passes in the step.
        times: How many it began.
        node: What gave the last one, if that was observed; else 0.
    """

    curve: int
    value: float
    times: int = 1
    node: int = 0


class StepFinished(msgspec.Struct, frozen=True, tag=True):
    """A training step ended.

    Attributes:
        observed: As of `StepStarted`.
        losses: The step's; known of those that are not observed, too.
    """

    step: int
    time_ns: int
    observed: bool = True
    losses: tuple[Loss, ...] = ()


class NodeStarted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A node is about to run. Emitted only while `Demand.starts` is set.

    Attributes:
        inputs: Live arrays by input port. Nobody may write to them.
    """

    node: Node
    inputs: tuple[AnyArray, ...]
    step: int
    thread: int
    start_ns: int


class NodeFinished(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A node has run.

    Attributes:
        inputs: Live arrays by input port. Nobody may write to them, and whoever wants to keep
            them copies them before `Bus.emit` returns.
        outputs: Live arrays by output port; the same rule.
        start_ns, end_ns: Nanoseconds since the run began.
        attrs: The attributes of this execution, where they differ from those of the node: a scalar
            operand that changes from step to step. Else None.
        worker: The process that ran it, by a number; 0 is the program's own.
        lane: The queue of its device that it ran in, such as a CUDA stream; 0 if it ran on the
            thread itself.
    """

    node: Node
    inputs: tuple[AnyArray, ...]
    outputs: tuple[AnyArray, ...]
    step: int
    thread: int
    start_ns: int
    end_ns: int
    attrs: dict[str, Any] | None = None
    worker: int = 0
    lane: int = 0


class NodeFailed(msgspec.Struct, frozen=True, tag=True):
    """A node raised. The same exception goes on through the program."""

    node: Node
    inputs: tuple[AnyArray, ...]
    step: int
    thread: int
    start_ns: int
    error: str


class GradientComputed(msgspec.Struct, frozen=True, tag=True):
    """Value ``gradient`` holds the gradient of value ``value``, from now on and in later steps."""

    value: int
    gradient: int


class GradientReached(msgspec.Struct, frozen=True, tag=True):
    """The gradient of a value is there, this time. Emitted only while `Demand.gradients` is set.

    Attributes:
        value, gradient: As of `GradientComputed`.
        array: The gradient, live; the rule of `NodeFinished.outputs`.
        start_ns: When.
    """

    value: int
    gradient: int
    array: AnyArray
    step: int
    thread: int
    start_ns: int


class ValueEdited(msgspec.Struct, frozen=True, tag=True):
    """A person changed a value while the program stood still; it goes on with this one.

    Attributes:
        value: Its id.
        array: The new elements; nobody writes to them any more.
        seq: The execution at which the program stood.
        how: In words.
    """

    value: int
    array: Array
    seq: int
    step: int
    how: str
    time_ns: int


class HostSpan(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Where a thread was while it ran no node.

    Attributes:
        kind: ``data``: the next item of what `ns.steps` goes through was fetched; its step is the
            one that the item is for. ``python``, ``library``, ``waiting``: the program's own code,
            somebody else's, or neither (a sleep, a file, a lock), as a sampler saw it. ``input``:
            nothing was left to run, such as at the prompt. ``held``: the debugger had stopped this
            thread; ``held_along``: another one, and this one came to a node. ``unobserved``: a call
            outside of steps ran, and was left out to keep to the limit. ``compiling``: the function
            ``function`` was traced, or its graph compiled.
        start_ns, end_ns: Nanoseconds since the run began; as exact as the sampler's interval for
            the kinds that it sees, exact for the others.
        file, line: In the user's program, or ``""`` and 0.
        function: What ran there: the user's function, ``numpy``, ``time.sleep``; why it was held.
    """

    kind: HostKind
    thread: int
    step: int
    start_ns: int
    end_ns: int
    file: str = ""
    line: int = 0
    function: str = ""


class Logged(msgspec.Struct, frozen=True, tag=True):
    """The program, or nodescope on its behalf, wrote a line."""

    stream: Literal["stdout", "stderr", "nodescope"]
    text: str
    step: int
    time_ns: int


class RunFinished(msgspec.Struct, frozen=True, tag=True):
    """The run ended. ``error`` is the last line of the traceback, or ``""``."""

    status: int
    error: str
    time_ns: int


Event = (
    RunStarted
    | FrameworkAttached
    | GraphExtended
    | GraphCaptured
    | PassApplied
    | Compiled
    | StepStarted
    | StepFinished
    | NodeStarted
    | NodeFinished
    | NodeFailed
    | GradientComputed
    | GradientReached
    | ValueEdited
    | HostSpan
    | Logged
    | RunFinished
)


class Probe(Protocol):
    """An observer of a run."""

    def emit(self, event: Event) -> None:
        """Take one event. May return late: that is how a debugger stops a program."""


Opens = Callable[[Node], bool]
"""Whether somebody wants to see a node."""


class Demand(msgspec.Struct, frozen=True):
    """What is to be emitted now: the wishes of one probe, or of all of them together.

    Attributes:
        starts: `NodeStarted` before each node.
        gradients: `GradientReached`.
        arrays: Live arrays in `NodeFinished`. Without, who runs many nodes at once may leave them
            out, and say only when each ran. None: no opinion; if nobody has one, arrays are sent.
        opened: Compiled kernels for which one of these is true, or which cover such a node, are run
            node by node besides.
        stops: Why the gate has to see every node, such as a breakpoint, or ``""``. No step is left
            out then, and arrays are sent.
        whole: Why somebody else has to, or ``""``.
    """

    starts: bool = False
    gradients: bool = False
    arrays: bool | None = None
    opened: tuple[Opens, ...] = ()
    stops: str = ""
    whole: str = ""

    @property
    def seen_whole(self) -> str:
        """Why no step may be left out, or ``""``."""
        return self.stops or self.whole


def union(demands: Iterable[Demand]) -> Demand:
    """What satisfies all of them; `Demand.arrays` is decided."""
    starts = gradients = False
    arrays: bool | None = None
    opened: tuple[Opens, ...] = ()
    stops = whole = ""
    for demand in demands:
        starts, gradients = starts or demand.starts, gradients or demand.gradients
        if demand.arrays is not None:
            arrays = bool(arrays) or demand.arrays
        opened += demand.opened
        stops, whole = stops or demand.stops, whole or demand.whole
    return Demand(starts, gradients, arrays is not False or bool(stops or whole), opened, stops,
                  whole)  # fmt: skip


class Bus:
    """The ordered probes of this process, and the clock of the run.

    Attributes:
        probes: Recorder first, gate last. Replaced as a whole, never changed in place.
        demand: What is to be emitted now: all that was asked for by `want`. Replaced as a whole, so
            that an emitter reads it once per node.
        edits: By thread, what values of some ids are to be from now on, if that was asked for while
            the thread stood; who emitted the node takes it up before it goes on.
        leaves_out: Asked at the start of a step whether it is to go unobserved as a whole, so that
            the run keeps its pace; None if none is. Told with 0 when steps end for now, and with -1
            when they end within a step.
        leaves_out_call: Asked with 1 at the start of an outermost call outside of steps whether it
            is to go unobserved; None if none is. Told with 0 when it ends, and with -1 when it
            raises.
        origin_ns: `time.perf_counter_ns` at the start of the run.
        held_ns: How long the debugger has held the program so far; the gate adds to it.
        watched_ns: What watches have cost the program's threads so far.
        on_fault: Called with the probe and its exception when a probe was removed.
    """

    __slots__ = (
        "_lock", "_wanted", "demand", "edits", "held_ns", "leaves_out", "leaves_out_call",
        "on_fault", "origin_ns", "probes", "watched_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.probes: tuple[Probe, ...] = ()
        self.edits: dict[int, dict[int, Array]] = {}
        self.leaves_out: Callable[[int], bool] | None = None
        self.leaves_out_call: Callable[[int], bool] | None = None
        self.origin_ns = time.perf_counter_ns()
        self.held_ns = self.watched_ns = 0
        self.on_fault: Callable[[Probe, Exception], None] = _report_fault
        self._lock = threading.RLock()  # a signal handler may stop the program here, too
        self._wanted: dict[int, tuple[object, Demand]] = {}
        self.demand = union(())

    def want(self, probe: object, demand: Demand) -> None:
        """Make this all that ``who`` wants. A probe that is removed wants nothing any more."""
        known = self._wanted.get(id(probe))
        if known is not None and known[1] == demand:
            return
        with self._lock:
            self._wanted[id(probe)] = probe, demand
            self.demand = union(wanted for _, wanted in self._wanted.values())

    def begin(self) -> int:
        """The run begins now; the wall time, in nanoseconds since 1970."""
        self.origin_ns = time.perf_counter_ns()
        self.held_ns = self.watched_ns = 0
        return time.time_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        return time.perf_counter_ns() - self.origin_ns

    def ran_ns(self) -> int:
        """Nanoseconds since the run began without those in which the debugger held it."""
        return self.now_ns() - self.held_ns

    def leave_out(self, step: int) -> bool:
        """Ask `leaves_out`, which is taken out if it raises. Never raises an `Exception`."""
        return self._ask(self.leaves_out, step)

    def leave_out_call(self, begins: int) -> bool:
        """Ask `leaves_out_call`, as `leave_out` asks about a step."""
        return self._ask(self.leaves_out_call, begins)

    def _ask(self, predicate: Callable[[Any], bool] | None, about: int) -> bool:
        try:
            return predicate is not None and predicate(about)
        except Exception as error:
            if _has_no_room(error):
                return False
            self.leaves_out = self.leaves_out_call = None
            probe = getattr(predicate, "__self__", None)
            if probe is not None:
                self.failed(probe, error)
            return False

    def add(self, probe: Probe, *, before: Probe | None = None) -> None:
        """Append a probe, or put it before another one."""
        with self._lock:
            at = self.probes.index(before) if before in self.probes else len(self.probes)
            self.probes = (*self.probes[:at], probe, *self.probes[at:])

    def remove(self, probe: Probe) -> None:
        """Take a probe out; one that is not there is ignored."""
        with self._lock:
            self.probes = tuple(p for p in self.probes if p is not probe and _meant(p) is not probe)
            if self._wanted.pop(id(_meant(probe)), None) is not None:
                self.demand = union(wanted for _, wanted in self._wanted.values())

    def emit(self, event: Event) -> None:
        """Hand an event to every probe in turn. Never raises an `Exception`."""
        for probe in self.probes:
            try:
                probe.emit(event)
            except Exception as error:
                self.failed(probe, error, event)

    def failed(self, probe: Probe, error: Exception, event: Event | None = None) -> None:
        """Remove a probe that raised, and report it.

        Where the program's own recursion has left it no room it stays: it gets what it has to know
        before the next event, and is told what it missed.
        """
        if _has_no_room(error):
            if event is not None:
                self._owe(probe, event)
            return
        self.remove(probe)
        self.on_fault(probe, error)

    def _owe(self, probe: Probe, event: Event) -> None:
        owing = probe if isinstance(probe, _Owing) else _Owing(self, probe)
        owing.events.append(event)
        if owing is not probe:
            self._replace(probe, owing)

    def _replace(self, probe: Probe, other: Probe) -> None:
        with self._lock:
            self.probes = tuple(other if p is probe else p for p in self.probes)


class _Owing:
    """Stands in for a probe that missed events, until there is room for them."""

    def __init__(self, bus: Bus, probe: Probe) -> None:
        self.probe = probe
        self.events: deque[Event] = deque()
        self._bus = bus

    def emit(self, event: Event) -> None:
        """Hand on what was missed, as far as it still can be, and then the event."""
        while missed := self._next():
            try:
                if isinstance(missed, GraphCaptured | GraphExtended):  # they say the same once more
                    self.probe.emit(missed)
                elif isinstance(missed, NodeFinished):
                    getattr(self.probe, "missed", _uncounted)(missed.node)
            except BaseException:
                self.events.appendleft(missed)
                raise
        self.probe.emit(event)  # if that raises, this probe has to be there still, to be owed it
        try:
            self._bus._replace(self, self.probe)
        except RecursionError:  # the next event finds room for it
            return

    def _next(self) -> Event | None:
        try:
            return self.events.popleft()  # another thread may be at it, too
        except IndexError:
            return None


def _uncounted(node: Node) -> None:
    """Of a probe that keeps no account of what ran."""


# A probe that takes more frames than these has lost itself, whatever the program did.
_OWN_FRAMES: Final = 200


def _has_no_room(error: Exception) -> bool:
    """Whether a probe raised because the program was about at the limit of its recursion."""
    if not isinstance(error, RecursionError):
        return False
    frames, at = 0, error.__traceback__
    while at is not None and frames <= _OWN_FRAMES:
        frames, at = frames + 1, at.tb_next
    return frames <= _OWN_FRAMES


def _meant(probe: Probe) -> Probe:
    return probe.probe if isinstance(probe, _Owing) else probe


def _report_fault(probe: Probe, error: Exception) -> None:
    say(
        f"{type(probe).__name__} failed and was disabled; your program continues "
        f"({last_line(error)})"
    )
