"""Events of a run, and the bus through which it is observed.

Data flows one way: engine or adapter -> `Bus.emit` -> probes (recorder first, gate last).

Invariant: a probe never changes a result, and a probe that raises is reported and removed. Only a
`BaseException` such as KeyboardInterrupt passes: it belongs to the program.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, get_args

import msgspec
import numpy as np

from nodescope.console_output import last_line, say
from nodescope.ir.block_demands import (
    OutputsSink,
    TimesSink,
    block_bytes,
    block_levels,
    outputs_sinks,
    times_sinks,
)
from nodescope.ir.capabilities import ENGINE, Framework
from nodescope.ir.compilation import Compiled as Compiled
from nodescope.ir.compilation import GraphCaptured as GraphCaptured
from nodescope.ir.compilation import PassApplied as PassApplied
from nodescope.ir.demands import Demand as Demand
from nodescope.ir.demands import Opens as Opens
from nodescope.ir.demands import union
from nodescope.ir.device_times import DeviceRan as DeviceRan
from nodescope.ir.graph import Node, ScopeDescribed, Value
from nodescope.ir.losses import Loss as Loss
from nodescope.ir.losses import LossesKnown as LossesKnown
from nodescope.ir.track import Elements, Track
from nodescope.thread_frames import has_no_room

Level = Literal["graph", "timing", "summary", "values"]
LEVELS: tuple[Level, ...] = ("graph", "timing", "summary", "values")

Array = np.ndarray[Any, Any]
AnyArray = Any
"""An array of the adapter's library; see `nodescope.arrays`."""

HostKind = Literal[
    "data", "python", "library", "waiting", "input", "held", "held_along", "unobserved", "compiling"
]
HOST_KINDS: tuple[HostKind, ...] = get_args(HostKind)


class RunStarted(msgspec.Struct, frozen=True, tag=True):
    """A run begins.

    Attributes:
        started_unix_ns: Wall time; every other time counts from it.
        main_thread: The program's main thread, as executions identify threads; 0 if it has none.
    """

    run_id: str
    name: str
    argv: tuple[str, ...]
    pid: int
    started_unix_ns: int
    framework: Framework = Framework("nodescope", capabilities=ENGINE)
    main_thread: int = 0


class FrameworkAttached(msgspec.Struct, frozen=True, tag=True):
    """A framework is observed from now on. `RunStarted` also names the first one."""

    framework: Framework


class GraphExtended(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Nodes appeared for the first time, or with changed inputs (same id, new inputs)."""

    nodes: tuple[Node, ...]
    values: tuple[Value, ...]
    version: int = 0


class StepStarted(msgspec.Struct, frozen=True, tag=True):
    """A training step begins. Steps count from 1; step 0 is the part before the first.

    Attributes:
        observed: False if the step runs unobserved: its nodes emit nothing.
    """

    step: int
    time_ns: int
    observed: bool = True


class StepFinished(msgspec.Struct, frozen=True, tag=True):
    """A training step ended.

    Attributes:
        observed: As in `StepStarted`.
        losses: The step's losses, known for unobserved steps as well.
    """

    step: int
    time_ns: int
    observed: bool = True
    losses: tuple[Loss, ...] = ()


class StepsUnobserved(msgspec.Struct, frozen=True, tag=True):
    """Several short training steps in a row were unobserved. Replaces `StepStarted` and
    `StepFinished` of each of them.

    Attributes:
        first: The number of the first.
        starts: When each began, in nanoseconds since the run began.
        ends: The same for their ends. One fewer if the last step is still running.
        losses: The losses of each step that has ended.
    """

    first: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    losses: tuple[tuple[Loss, ...], ...]

    def apart(self) -> Iterator[StepStarted | StepFinished]:
        """The equivalent `StepStarted` and `StepFinished` of each step."""
        for nth, start_ns in enumerate(self.starts):
            yield StepStarted(self.first + nth, start_ns, False)
            if nth < len(self.ends):
                yield StepFinished(self.first + nth, self.ends[nth], False, self.losses[nth])


class NodeStarted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A node is about to run. Emitted only while `Demand.starts` is set.

    Attributes:
        inputs: Live arrays by input port. Read-only.
    """

    node: Node
    inputs: tuple[AnyArray, ...]
    step: int
    thread: int
    start_ns: int


class NodeFinished(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A node has run.

    Attributes:
        inputs: Live arrays by input port. Read-only; a probe that keeps them copies them before
            `Bus.emit` returns.
        outputs: Live arrays by output port; the same rule.
        thread: Identifies the thread; below 0, one of another process.
        start_ns, end_ns: Nanoseconds since the run began.
        attrs: The attributes of this execution if they differ from the node's, such as a scalar
            operand that changes from step to step; otherwise None.
        worker: Number of the process that ran it; 0 is the program's own.
        lane: The device queue in which it ran, such as a CUDA stream; 0 if it ran on the thread
            itself.
        late: Whether the process that ran it has already continued, so that nothing can stop here.
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
    late: bool = False


class NodesFinished(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Several nodes have run, without a `NodeFinished` for each; see `Bus.block_level`.

    Attributes:
        track: The track on which they ran.
        first: The position of the first execution on the track.
        times: Start and end of each execution, in nanoseconds since the run began; int64, of shape
            (executions, 2).
        attrs: Attributes as in `NodeFinished`, by position on the track, where they differ.
        statistics: One row for each output, in the order of the track; None at level ``timing``.
            For a device, an object with ``nbytes`` and a length, whose ``resolve`` waits for them.
        elements: Copies of the outputs, as far as `Bus.block_bytes` asks for them, or None.
    """

    track: Track
    first: int
    times: Array
    step: int
    thread: int
    attrs: dict[int, dict[str, Any]] = {}
    statistics: Any = None
    elements: Elements | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that ran, one for each execution."""
        return self.track.nodes[self.first : self.first + len(self.times)]


class NodeFailed(msgspec.Struct, frozen=True, tag=True):
    """A node raised. The same exception propagates through the program.

    Attributes:
        unseen: Whether the operations that computed the inputs were not observed.
        worker, lane, late: As in `NodeFinished`.
    """

    node: Node
    inputs: tuple[AnyArray, ...]
    step: int
    thread: int
    start_ns: int
    error: str
    unseen: bool = False
    worker: int = 0
    lane: int = 0
    late: bool = False


class GradientComputed(msgspec.Struct, frozen=True, tag=True):
    """Value ``gradient`` holds the gradient of value ``value``, from now on and in later steps."""

    value: int
    gradient: int


class GradientReached(msgspec.Struct, frozen=True, tag=True):
    """The gradient of a value has been computed, this time. Emitted only while `Demand.gradients`
    is set.

    Attributes:
        value, gradient: As in `GradientComputed`.
        array: The gradient, live; read-only like `NodeFinished.outputs`.
        start_ns: The time, in nanoseconds since the run began.
    """

    value: int
    gradient: int
    array: AnyArray
    step: int
    thread: int
    start_ns: int


class ValueEdited(msgspec.Struct, frozen=True, tag=True):
    """The user changed a value while the program was stopped; it continues with the new one.

    Attributes:
        value: The value's id.
        array: The new elements, no longer written to.
        seq: The execution at which the program was stopped.
        how: Description of the edit.
    """

    value: int
    array: Array
    seq: int
    step: int
    how: str
    time_ns: int


class ArrayMoved(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The elements of a value are in another array from now on, because memory near it was written.

    Attributes:
        value: The value's id.
        before, now: Identities (`id`) of the value's former and new array.
    """

    value: int
    before: int
    now: int


class HostSpan(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Where a thread was while it ran no node.

    Attributes:
        kind: ``data``: the next item of `ns.steps` was fetched; its step is the one for which it
            was fetched. ``python``, ``library``, ``waiting``: the program's own code, a library's,
            or neither (a sleep, a file, a lock), as seen by a sampler. ``input``: the thread waited
            for the user, such as at a prompt. ``held``: the debugger had stopped this thread;
            ``held_along``: it had stopped another, and this one reached a node. ``unobserved``: a
            call outside of steps ran unobserved to keep the slowdown limit. ``compiling``: the
            function ``function`` was traced, or its graph compiled.
        start_ns, end_ns: Nanoseconds since the run began; sampled kinds are as exact as the
            sampler's interval, the others are exact.
        file, line: In the user's program, or ``""`` and 0.
        function: The running function: the user's, ``numpy``, ``time.sleep``; or why the thread was
            held.
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
    """The program, or nodescope on its behalf, printed a line."""

    stream: Literal["stdout", "stderr", "nodescope"]
    text: str
    step: int
    time_ns: int


class RunFinished(msgspec.Struct, frozen=True, tag=True):
    """The run ended. ``error`` is the last line of the traceback, or ``""``."""

    status: int
    error: str
    time_ns: int


# fmt: off
Event = (
    RunStarted | FrameworkAttached | GraphExtended | ScopeDescribed | GraphCaptured | PassApplied
    | Compiled | StepStarted | StepFinished | StepsUnobserved | LossesKnown | NodeStarted
    | NodeFinished | NodesFinished | DeviceRan | NodeFailed | GradientComputed | GradientReached
    | ValueEdited | ArrayMoved | HostSpan | Logged | RunFinished
)
# fmt: on


class Gone(BaseException):
    """Raised from `Bus.emit`, on a thread of an adapter: the process for which it waits there has
    ended; see `Bus.gone`.
    """


class Probe(Protocol):
    """An observer of a run."""

    def emit(self, event: Event) -> None:
        """Take an event. May return late: that is how a debugger stops a program."""


class Bus:
    """The ordered probes of this process, and the clock of the run.

    Attributes:
        probes: Recorder first, gate last. Replaced as a whole, never changed in place.
        demand: The union of all demands set by `want`. Replaced as a whole, so that an emitter
            reads it once per node.
        edits: By thread, new contents of values, by id, as requested while the thread was stopped;
            the node's emitter applies them before it continues.
        leaves_out: Called with a step's number and ``"step"`` at its start; returns how many steps
            from this one on run unobserved to keep the slowdown limit. Called with 0 when steps end
            for now, and with -1 when they end within a step. With ``"call"``, the same for
            outermost calls outside of steps, with 1 in place of a number. None if everything is
            observed.
        origin_ns: `time.perf_counter_ns` at the start of the run.
        stacks: By thread of another process that waits in `emit`: the user's frames there.
        gone: Threads of other processes that have ended: nothing waits for them any more.
        held_ns: Time for which the debugger has held the program so far; updated by the gate.
        watched_ns: Time that watches have cost the program's threads so far.
        on_fault: Called with the probe and its exception when a probe was removed.
        catch_up: Called before each event except spans, to emit earlier events; or None.
        tell_steps: Emits the steps that have been noted and not emitted; or None.
        progress: Changes when a node has run of which no event tells yet; -1 while one runs.
        learns: Whether steps that are observed now make later ones cheaper to observe; or None.
        on_change: Called when probes or their demands have changed.
    """

    __slots__ = (
        "_lock",
        "_wanted",
        "catch_up",
        "demand",
        "edits",
        "gone",
        "held_ns",
        "learns",
        "leaves_out",
        "on_change",
        "on_fault",
        "origin_ns",
        "probes",
        "progress",
        "stacks",
        "tell_steps",
        "watched_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.probes: tuple[Probe, ...] = ()
        self.edits: dict[int, dict[int, Array]] = {}
        self.stacks: dict[int, tuple[Any, ...]] = {}
        self.gone: set[int] = set()
        self.leaves_out: Callable[[int, Literal["step", "call"]], int] | None = None
        self.origin_ns = time.perf_counter_ns()
        self.held_ns = self.watched_ns = 0
        self.on_fault: Callable[[Probe, Exception], None] = _report_fault
        self.catch_up: Callable[[], None] | None = None
        self.tell_steps: Callable[[], None] | None = None
        self.progress: Callable[[], int] | None = None
        self.learns: Callable[[], bool] | None = None
        self.on_change: Callable[[], None] | None = None
        self._lock = threading.RLock()  # reentrant: a signal handler may stop the program here
        self._wanted: dict[int, tuple[object, Demand]] = {}
        self.demand = union(())

    def want(self, probe: object, demand: Demand) -> None:
        """Set a probe's demand. A removed probe has none."""
        known = self._wanted.get(id(probe))
        if known is not None and known[1] == demand:
            return
        with self._lock:
            self._wanted[id(probe)] = probe, demand
            self.renew()

    def block_level(self) -> Level | None:
        """The highest level wanted of each execution if all probes take `NodesFinished`; else None.

        A probe that takes them has a method ``block_level``, which returns its own level.
        """
        demand = self.demand
        if demand.starts or demand.gradients or demand.seen_whole:
            return None
        levels = block_levels(self.probes)
        if len(levels) == 1:
            return levels[0]  # type: ignore[no-any-return]
        return None if None in levels else max((*levels, LEVELS[0]), key=LEVELS.index)

    def times_sink(self) -> TimesSink | None:
        """A function that takes an execution in place of a `NodeFinished`, if every probe needs
        only its times. Ask again in each step, and when `demand` has been replaced.
        """
        if self.block_level() not in ("graph", "timing"):
            return None
        sinks = times_sinks(self.probes)
        return sinks[0] if len(sinks) == 1 else None

    def outputs_sink(self) -> OutputsSink | None:
        """A function that takes an execution in place of a `NodeFinished`, if there is only one
        probe and it wants the outputs. Ask again as for `times_sink`.
        """
        demand = self.demand
        if len(self.probes) != 1 or demand.starts or demand.gradients or demand.seen_whole:
            return None
        sinks = outputs_sinks(self.probes)
        return sinks[0] if sinks else None

    def block_bytes(self) -> int:
        """The bytes of the newest outputs that probes want with `NodesFinished`; 0 for none."""
        return block_bytes(self.probes)

    def renew(self) -> None:
        """Make emitters read the probes' demands again: `demand` becomes another object."""
        with self._lock:
            self.demand = union(demand for _, demand in self._wanted.values())
        if self.on_change is not None:
            self.on_change()

    def begin(self) -> int:
        """Begin the run; return the wall time in nanoseconds since 1970."""
        self.origin_ns = time.perf_counter_ns()
        self.held_ns = self.watched_ns = 0
        return time.time_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        return time.perf_counter_ns() - self.origin_ns

    def ran_ns(self) -> int:
        """Nanoseconds since the run began, without the time held by the debugger."""
        return self.now_ns() - self.held_ns

    def leave_out(self, begins: int, unit: Literal["step", "call"] = "step") -> int:
        """Call `leaves_out`, which is removed if it raises. Never raises an `Exception`."""
        decides = self.leaves_out
        try:
            return 0 if decides is None else decides(begins, unit)
        except Exception as error:
            if has_no_room(error):
                return 0
            self.leaves_out = None
            probe = getattr(decides, "__self__", None)
            if probe is not None:
                self.failed(probe, error)
            return 0

    def add(self, probe: Probe, *, before: Probe | None = None) -> None:
        """Append a probe, or insert it before another one."""
        with self._lock:
            at = self.probes.index(before) if before in self.probes else len(self.probes)
            self.probes = (*self.probes[:at], probe, *self.probes[at:])
            self.renew()

    def remove(self, probe: Probe) -> None:
        """Remove a probe; a missing one is ignored."""
        with self._lock:
            self.probes = tuple(p for p in self.probes if p is not probe and _meant(p) is not probe)
            self._wanted.pop(id(_meant(probe)), None)
            self.renew()

    def emit(self, event: Event) -> None:
        """Pass an event to each probe in turn. Never raises an `Exception`."""
        if self.catch_up is not None and event.__class__ not in (HostSpan, DeviceRan):
            self.catch_up()
        for probe in self.probes:
            try:
                probe.emit(event)
            except Exception as error:
                self.failed(probe, error, event)

    def failed(self, probe: Probe, error: Exception, event: Event | None = None) -> None:
        """Remove a probe that raised, and report it.

        If the program's own recursion left the probe no stack space, it stays: before the next
        event it receives the essential missed events, and the counts of the others.
        """
        if has_no_room(error):
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
    """Stands in for a probe that missed events, until there is stack space for them."""

    def __init__(self, bus: Bus, probe: Probe) -> None:
        self.probe = probe
        self.events: deque[Event] = deque()
        self._bus = bus

    def emit(self, event: Event) -> None:
        """Deliver the missed events, as far as there is stack space, and then the event."""
        while missed := self._next():
            try:
                if isinstance(missed, GraphCaptured | GraphExtended):  # an equal event follows
                    self.probe.emit(missed)
                elif isinstance(missed, NodeFinished):
                    getattr(self.probe, "missed", _uncounted)(missed.node)
            except BaseException:
                self.events.appendleft(missed)
                raise
        self.probe.emit(event)  # if this raises, the stand-in must be in place to receive the event
        try:
            self._bus._replace(self, self.probe)
        except RecursionError:  # the next event finds space for it
            return

    def _next(self) -> Event | None:
        try:
            return self.events.popleft()  # another thread may be delivering as well
        except IndexError:
            return None


def _uncounted(node: Node) -> None:
    """For a probe that does not count executions."""


def _meant(probe: Probe) -> Probe:
    return probe.probe if isinstance(probe, _Owing) else probe


def _report_fault(probe: Probe, error: Exception) -> None:
    say(
        f"{type(probe).__name__} failed and was disabled; your program continues "
        f"({last_line(error)})"
    )
