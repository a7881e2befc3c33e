"""Gate: the probe that returns late. The imperative shell around the pure session.

A thread that reaches a node is held inside `emit` until the session releases it; all other threads
are held at their next node. The rest is bookkeeping, so that the common case, a node without
breakpoints, costs a single set lookup.

Invariant: the only place in nodescope that blocks the program, and only while a controller is
present or expected. KeyboardInterrupt always gets through. Arrays are held only while stopped.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Literal

import msgspec

from nodescope.arrays.lazy import HeldArray
from nodescope.debug.breakpoints.breakpoint_set import Query, queries_by_node
from nodescope.debug.breakpoints.compiled_nodes import Compilations
from nodescope.debug.breakpoints.matching import Catalog, of_gradients, opened_by, ops_by
from nodescope.debug.edits.apply import describe_edit, edited_live, unaffected
from nodescope.debug.gate.command_check import check_command
from nodescope.debug.gate.evaluation import Reached, hits_of, judge, passes
from nodescope.debug.gate.interruptible_lock import InterruptibleLock
from nodescope.debug.gate.open_hold import OpenHold
from nodescope.debug.gate.python_stack import user_stack
from nodescope.debug.gate.stopped_values import StoppedValues, subject_of, values_at
from nodescope.debug.session.state import (
    Announce,
    BreakHere,
    Commanded,
    ConditionResult,
    ControllersChanged,
    Edited,
    GraphKnown,
    GraphSettled,
    Hold,
    Input,
    Interrupted,
    LinkChanged,
    Log,
    NodeReached,
    ProgramFinished,
    Raised,
    Release,
    SessionState,
    StackRead,
    Tick,
    WatchesChanged,
    new_session,
)
from nodescope.debug.session.step_targets import meets
from nodescope.debug.session.transition import (
    armed,
    candidates,
    demand_of,
    info_of,
    may_go,
    may_stop,
    transition,
)
from nodescope.errors import EditError, UsageError
from nodescope.events import (
    AnyArray,
    Bus,
    Compiled,
    Event,
    FrameworkAttached,
    Gone,
    GradientReached,
    GraphCaptured,
    GraphExtended,
    HostKind,
    HostSpan,
    Level,
    Logged,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    Opens,
    RunFinished,
    StepFinished,
    StepsUnobserved,
    ValueEdited,
)
from nodescope.ir.capabilities import Feature, Framework, Shortfall, shortfall
from nodescope.ir.demands import StopsAt
from nodescope.ir.graph import Node
from nodescope.protocol import (
    Breakpoint,
    Command,
    SessionInfo,
    SetValue,
    StopReason,
    WatchStatus,
    When,
)
from nodescope.thread_frames import thread_frames

# The maximum time for which a waiting thread sleeps before it checks the clock again.
TICK_S: Final = 0.25
# While a thread is held, each logged line emits the time held so far, in parts of at least this.
_HELD_PARTS_NS: Final = 100_000_000


class Gate:
    """Stops the program where the session decides.

    Args:
        bus: Receives the gate's demand, such as starts while a stop before a node is possible.
        stop_on_entry: Whether to stop before the first node.
        expects_controller: Whether a page is expected; stops before it arrives wait for it without
            limit.
        stop_on_exception: Whether to stop where a node raises.
        seq_source: Returns the calling thread's last recorded seq.
        flush: Commits the recording, within a bounded time, before a stop is announced.
        on_change: Called with each new `SessionInfo`, in order; must return at once.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        stop_on_entry: bool = False,
        expects_controller: bool = False,
        stop_on_exception: bool = True,
        seq_source: Callable[[], int],
        flush: Callable[[], bool],
        on_change: Callable[[SessionInfo], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bus = bus
        self._opened: tuple[Opens, ...] = ()
        self._seq_source = seq_source
        self._flush = flush
        self._on_change = on_change
        self._clock = clock
        self._session_lock = InterruptibleLock()
        self._inside = threading.local()
        self._state = new_session(
            stop_on_entry=stop_on_entry,
            expects_controller=expects_controller,
            stop_on_exception=stop_on_exception,
        )
        self._frameworks: tuple[Framework, ...] = ()
        self._catalog = Catalog()
        self._compilations = Compilations()
        self._makers: dict[int, Node] = {}  # by value
        self._unsaid: deque[Log] = deque()
        # Announcements wait while a stop is being committed: a page must find its records.
        self._committing = False
        self._settled = False
        self._live = StoppedValues()
        self._open_hold: OpenHold | None = None
        self._held_nodes: dict[int, Node] = {}  # the nodes at which threads are held now
        # The last (scope, step) of each thread, while scope breakpoints are armed.
        self._places: dict[int, tuple[str, int]] = {}
        # The fast path: while `_calm`, only nodes in these tables are examined.
        self._calm = False
        self._tracking = False
        self._active: tuple[Breakpoint, ...] = ()
        self._gradients: tuple[Breakpoint, ...] = ()
        self._ops = StopsAt()
        self._before: dict[int, tuple[Query, ...]] = {}
        self._after: dict[int, tuple[Query, ...]] = {}
        self._rearm()

    @property
    def info(self) -> SessionInfo:
        """The session as controllers see it."""
        return info_of(self._state)

    @property
    def nodes(self) -> int:
        """The number of nodes defined so far."""
        return len(self._catalog.nodes)

    def shortfall(self, feature: Feature, dialect: str = "") -> Shortfall | None:
        """Why a feature is not available; None if it is. See `capabilities.shortfall`."""
        if feature == "scopes" and self._catalog.has_scopes():
            return None  # the program opens them itself
        stop = self._state.stop
        if feature == "steps" and stop is not None and stop.step:
            return None  # the program marks them itself
        return shortfall(feature, self._frameworks, dialect)

    # ------------------------------------------------------------ the program's side

    def emit(self, event: Event) -> None:
        """Process an event; returns when the program may continue."""
        kind = type(event)  # no closures here or in `_passes`: cells double the cost
        if kind is NodeFinished:
            if self._calm and self._passes(event):  # type: ignore[arg-type]
                return
            if not event.late:  # type: ignore[union-attr]
                self._reach(event, "after")  # type: ignore[arg-type]
        elif kind is NodeStarted:
            if self._calm and self._before.get(event.node.id) == ():  # type: ignore[union-attr]
                return
            self._reach(event, "before")  # type: ignore[arg-type]
        elif isinstance(event, NodeFailed):
            if not event.late:
                self._reach(event, "after")
        elif kind is GradientReached:
            self._reach(event, "after")  # type: ignore[arg-type]
        elif isinstance(event, GraphExtended):
            self._take(partial(self._extend, event))
        elif isinstance(event, GraphCaptured | Compiled):
            self._compilations.take(event)
        elif isinstance(event, FrameworkAttached):
            self._frameworks = (*self._frameworks, event.framework)
        elif isinstance(event, StepFinished | StepsUnobserved | RunFinished):
            ended = isinstance(event, RunFinished)
            if ended or not self._settled:
                self._take(partial(self._settle, ended))
        elif kind is Logged and self._open_hold is not None:
            self._open_hold.tell(_HELD_PARTS_NS)  # another thread logged a line

    def block_level(self) -> Level | None:
        """See `Bus.block_level`: executions do not matter while none can stop the program."""
        return "graph" if self._calm and not self._active else None

    def _passes(self, event: NodeFinished) -> bool:
        """Whether no breakpoint counts at a node that has run: the common case, without a lock."""
        node = event.node
        queries = self._after.get(node.id)
        if queries is None:
            # An interrupt cut its `GraphExtended` short, so the node is added now.
            self._take(partial(self._extend, GraphExtended((node,), ())))
            queries = self._after.get(node.id)
        if not queries:
            # Outside of every scope with a breakpoint, like a missing entry.
            if self._tracking and self._places and not (node.is_leaf or event.late):
                self._places.pop(event.thread, None)
            return True
        if event.late:
            return True
        if not passes(queries, event, self._places.get(event.thread)):
            return False
        if self._tracking:
            self._places[event.thread] = (node.scope, event.step)
        return True

    def break_here(self, text: str, reason: StopReason = "pause", watch: int = 0) -> None:
        """Stop at the next node at the request of the program or a watch, if a controller is
        present.

        For a probe before the gate, the next node is that of the current event.
        """
        self._take(lambda: self._give(BreakHere(text, reason, watch)))

    def watches(self, statuses: tuple[WatchStatus, ...]) -> None:
        """Report the watches and their hits to controllers."""
        self._take(lambda: self._give(WatchesChanged(statuses)))

    def raised(self, exception: Raised) -> None:
        """Stop at an uncaught exception; returns when it may propagate."""
        while not self._arrive(exception, exception):
            self._wait(exception)
        self._say()

    def _reach(self, event: Reached, when: When) -> None:
        if getattr(self._inside, "held", False) or self._session_lock.mine:
            return  # The gate's own code is running on this thread.
        if self._session_lock.overdue:
            self._catch_up()
        self._wait(event)
        state = self._state
        if not may_stop(state):
            return
        subject = subject_of(event, self._makers, self._gradients)
        if subject is None:
            return
        node, gradient_of = subject
        reached = NodeReached(
            node=node, when=when, step=event.step, seq=0, thread=event.thread,
            previous=self._places.get(event.thread), gradient_of=gradient_of,
            error=event.error if isinstance(event, NodeFailed) else "",
            stands_for=self._compilations.stands_for(node),
        )  # fmt: skip
        lack = shortfall("before", self._frameworks, node.dialect) if when == "before" else None
        if lack is not None and not candidates(state, reached):
            return  # its framework does not let the program stop here; it may stop after the node
        if self._tracking and when == "after" and gradient_of is None and not node.is_leaf:
            self._places[event.thread] = (node.scope, event.step)
        self._inside.held = True
        try:
            while not self._offer(event, reached, lack):
                self._wait(event)
        finally:
            self._inside.held = False
        self._say()

    def _offer(self, event: Reached, reached: NodeReached, lack: Shortfall | None) -> bool:
        """Offer a node to the session, and hold this thread if it stops.

        Args:
            event, reached: The node.
            lack: Why the program cannot stop here; this disables breakpoints that would stop here.

        Returns:
            False if another thread stopped first: the node has to be offered again afterwards.
        """
        state, node = self._state, reached.node
        covering = candidates(state, reached)
        conditional = [
            breakpoint
            for breakpoint in covering
            if breakpoint.condition.strip() or breakpoint.log.strip()
        ]
        elapsed_s = self._bus.ran_ns() / 1e9 if conditional else 0.0
        verdicts = tuple(
            judge(breakpoint, event, reached, hits_of(state, breakpoint), elapsed_s)
            for breakpoint in conditional
        )
        if lack is not None:
            verdicts = tuple(
                ConditionResult(breakpoint.id, error=f"{lack.text}; {lack.hint}")
                for breakpoint in covering
            )
        if (
            len(verdicts) == len(covering)
            and not any(verdict.true or verdict.error for verdict in verdicts)
            and not reached.error
            and state.lost_at is None
            and not (
                state.goal is not None
                and meets(state.goal, node, reached.when, event.step, event.thread)
            )
        ):
            return True  # Not the goal of the current step: no decision, no lock.
        reached = msgspec.structs.replace(
            reached, seq=self._seq_source(), now_s=self._clock(), verdicts=verdicts
        )
        return self._arrive(reached, event)

    def _arrive(self, arrival: NodeReached | Raised, event: Reached | Raised) -> bool:
        """Feed the session, and hold this thread if it stops; False as in `_offer`."""
        try:
            with self._session_lock.lock:
                if not may_go(self._state, event.thread):
                    return False
                stops = self._give(arrival)
            if stops:
                self._places[event.thread] = (arrival.node.scope, event.step)
                self._hold(event)
        except BaseException:
            self._let_go(event.thread)
            raise
        return True

    def _hold(self, event: Reached | Raised) -> None:
        live = self._live = values_at(event)
        hold = self._open_hold = OpenHold(self._bus, event.thread, getattr(event, "step", 0))
        try:
            stack = self._bus.stacks.get(event.thread) or user_stack()
            stack = event.stack if isinstance(event, Raised) else stack
            self._flush()
            with self._session_lock.lock:
                self._give(StackRead(stack))
                self._committing = False
                self._on_change(info_of(self._state))
            self._wait(event, "")
        finally:
            if self._live is live:  # another thread may have stopped by now
                self._live = StoppedValues()
            if self._open_hold is hold:
                self._open_hold = None
            hold.tell()

    def _let_go(self, thread: int) -> None:
        """End the stop of a thread that is interrupted, or that cannot be held."""
        with self._session_lock.lock:
            stop = self._state.stop
            if stop is not None and stop.thread == thread:
                self._committing = False
                self._bus.edits.pop(thread, None)  # it does not continue from there
                self._give(Interrupted())

    def _wait(
        self, event: Reached | Raised, host_kind: HostKind | Literal[""] = "held_along"
    ) -> None:
        """Hold this thread until it may continue; emit the wait as ``host_kind``, ``""`` for
        none.
        """
        thread = event.thread
        if may_go(self._state, thread):
            return
        began = self._bus.now_ns()
        if not isinstance(event, GradientReached):
            self._held_nodes[thread] = event.node
        try:
            while not may_go(self._state, thread):
                if thread in self._bus.gone:
                    raise Gone
                self._session_lock.sleep(lambda: not may_go(self._state, thread), TICK_S)
                alone = self._state.alone
                if self._state.lost_at is not None or alone:
                    # Check for a lost page, and for the end of the threads that run alone.
                    ended = thread_frames().keys().isdisjoint(alone)
                    self._take(partial(self._give, Tick(self._clock(), ended)))
        finally:
            self._held_nodes.pop(thread, None)
            if host_kind and thread >= 0:
                span = (event.thread, getattr(event, "step", 0), began, self._bus.now_ns())
                self._bus.emit(HostSpan(host_kind, *span))
        self._say()

    def _extend(self, event: GraphExtended) -> None:
        became = self._compilations.met(event.nodes)
        self._catalog.add(event.nodes, became)
        for node in event.nodes:
            self._makers.update(dict.fromkeys(node.outputs, node))
        self._give(GraphKnown(event.nodes, became))
        stands_for = self._compilations.stands_for
        self._before.update(queries_by_node(self._active, "before", event.nodes, stands_for))
        self._after.update(queries_by_node(self._active, "after", event.nodes, stands_for))

    def _settle(self, ended: bool) -> None:
        if not self._settled:
            self._give(GraphSettled(self._catalog))
        self._settled = True
        if ended:
            self._give(ProgramFinished())

    # ------------------------------------------------------------ the controllers' side

    def command(self, command: Command) -> None:
        """Execute a controller's command, from any thread.

        Raises:
            NodescopeError: The command cannot be carried out; nothing has changed.
        """
        if self._session_lock.mine:
            raise UsageError("no commands from inside a notification", hint="from another thread")
        event: ValueEdited | None = None
        with self._session_lock.lock:
            known = tuple(status.breakpoint for status in self._state.breakpoints)
            check_command(command, self.shortfall, known)
            if isinstance(command, SetValue):
                event = self._edit(command)
            else:
                held_scopes = {thread: node.scope for thread, node in self.held_nodes().items()}
                self._give(Commanded(command, self._catalog, held_scopes))
        if event is not None:
            if (hold := self._open_hold) is not None:
                hold.tell()
            self._bus.emit(event)
            self._flush()
            with self._session_lock.lock:
                if self._state.stop is None or self._state.stop.seq == event.seq:
                    self._committing = False  # else another stop is being committed
                    self._on_change(info_of(self._state))
        self._say()

    def _edit(self, command: SetValue) -> ValueEdited:
        """Change a live value, under the lock; the program's thread applies it when it
        continues.
        """
        stop, array = self._state.stop, self._live.get(command.value)
        if stop is None or array is None:
            self._give(Commanded(command, self._catalog))  # says what is wrong
            raise EditError("this value does not belong to the node where the program is stopped",
                            hint="its inputs and outputs can be changed here")  # fmt: skip
        maker = self._makers.get(command.value)
        node = maker or self._catalog.nodes.get(stop.node)
        lack = self.shortfall("edit", "" if node is None else node.dialect)
        if lack is not None:
            raise EditError(lack.text, hint=lack.hint)
        changed = edited_live(array, command)
        description = describe_edit(
            command, maker.name if maker is not None else f"value {command.value}"
        )
        node = self._held_nodes.get(stop.thread) if stop.when == "after" else None
        self._committing = True
        self._give(Edited(description, unaffected(command.value, node)))
        self._live.change(command.value, changed)
        self._bus.edits.setdefault(stop.thread, {})[command.value] = changed
        now_ns = self._bus.now_ns()
        return ValueEdited(
            command.value, changed.copy("K"), stop.seq, stop.step, description, now_ns
        )

    def controllers(self, count: int) -> None:
        """Note that the number of pages following this run has changed."""
        self._take(lambda: self._give(ControllersChanged(count, self._clock())))

    def link_up(self) -> None:
        """Note that the server was reached."""
        self._take(lambda: self._give(LinkChanged(True, self._clock())))

    def link_lost(self) -> None:
        """Note that the server is gone, and every page with it."""
        self._take(lambda: self._give(LinkChanged(False, self._clock())))

    def forked(self) -> None:
        """In a forked child, no controller can connect, so nothing stops or waits."""
        self._session_lock.forked()
        self._state = SessionState(phase="detached")

    def held_nodes(self) -> dict[int, Node]:
        """The nodes at which threads are held, by thread."""
        return dict(self._held_nodes)

    def live_value(self, value: int, port: int | None = None) -> AnyArray | None:
        """A value at the current stop, or the array that its node took at ``port``; not a copy.

        It is an array of the library that computed it, see `nodescope.arrays`.
        """
        return self._live.of(value, port)

    def live_array(self, value: int, port: int | None = None) -> HeldArray | None:
        """Like `live_value`, readable as an ndarray; None if it has no elements."""
        return self._live.held(value, port)

    # ------------------------------------------------------------ the shell

    def _take(self, work: Callable[[], object]) -> None:
        """Run ``work`` under the lock, at once if possible, and emit the resulting messages."""
        try:
            self._session_lock.take(work)
        except BaseException:
            self._calm = False  # deferred work is done at the next node
            self._bus.renew()
            raise
        self._say()

    def _catch_up(self) -> None:
        self._session_lock.catch_up()
        self._session_lock.take(self._rearm)

    def _give(self, session_input: Input) -> bool:
        """Feed the session and carry out its effects, under the lock; return whether it says
        `Hold`.
        """
        before = self._state
        self._state, effects = transition(before, session_input)
        stops = False
        for effect in effects:
            match effect:
                case Hold():
                    self._committing = stops = True
                case Release():
                    self._session_lock.wake()
                case Announce(info=info):
                    if not self._committing:
                        self._on_change(info)
                case Log():
                    self._unsaid.append(effect)
        if self._state is not before:
            self._rearm()
        return stops

    def _rearm(self) -> None:
        """Set the fast path for the current state."""
        state = self._state
        active = armed(state)
        tracking = any(breakpoint.kind == "scope" for breakpoint in active)
        self._calm = not (
            state.phase == "stopped"
            or state.alone
            or (state.goal is not None and may_stop(state))
            or state.lost_at is not None
            or self._session_lock.overdue
        )
        if tracking and not self._tracking:
            # Outdated places would hide an entry into a scope; the place of the stop is current.
            stop = state.stop
            self._places = {stop.thread: (stop.scope, stop.step)} if stop is not None else {}
        self._tracking = tracking
        if active != self._active:
            self._gradients = tuple(breakpoint for breakpoint in active if of_gradients(breakpoint))
            nodes = tuple(self._catalog.nodes.values())
            stands_for = self._compilations.stands_for
            self._before = queries_by_node(active, "before", nodes, stands_for)
            self._after = queries_by_node(active, "after", nodes, stands_for)
            self._opened, self._ops = opened_by(active), ops_by(active, nodes)
            self._active = active  # last, so that an interrupted update is repeated
        self._bus.want(self, demand_of(state, active, self._gradients, self._opened, self._ops))

    def _say(self) -> None:
        """Emit the session's messages outside the lock, as ordinary events."""
        if self._session_lock.overdue and not self._session_lock.mine:
            self._catch_up()
        with suppress(IndexError):
            while True:
                message = self._unsaid.popleft()
                now_ns = self._bus.now_ns()
                if (hold := self._open_hold) is not None:
                    hold.tell()  # so that the held time covers the message that follows
                self._bus.emit(Logged("nodescope", message.text, message.step, now_ns))
