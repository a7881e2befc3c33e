"""Gate: the probe that returns late. The imperative shell around the pure session.

A thread that reaches a node is kept inside `emit` until the session lets it go; all other threads
are kept at their next node. Everything else here is bookkeeping that makes the common case, a node
that nobody waits for, cost one look into a set.

Invariant: the only place in nodescope that blocks the program, and only while a controller is there
or on its way. KeyboardInterrupt always gets through. Arrays are held only while stopped.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Literal

import msgspec

from nodescope.debug.arming import asked_at
from nodescope.debug.arrivals import Arrays, arrays_of, made_by
from nodescope.debug.breakpoints import (
    Catalog,
    is_leaf,
    of_gradients,
)
from nodescope.debug.compilations import Compilations
from nodescope.debug.edits import edited, told
from nodescope.debug.openings import Openings, Opens
from nodescope.debug.seeing import seen
from nodescope.debug.session import armed, candidates, info_of, may_go, may_stop, transition
from nodescope.debug.stack import user_stack
from nodescope.debug.state import (
    Announce,
    BreakHere,
    Commanded,
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
from nodescope.debug.stepping import meets
from nodescope.debug.turn import Turn
from nodescope.debug.verdicts import Asked, Reached, hits_of, judge, passes
from nodescope.errors import EditError, UsageError
from nodescope.events import (
    Array,
    Bus,
    Compiled,
    Event,
    GradientReached,
    GraphCaptured,
    GraphExtended,
    HostKind,
    HostSpan,
    Logged,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    RunFinished,
    StepFinished,
    ValueEdited,
)
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

# How long a waiting thread sleeps at most before it looks at the clock again.
TICK_S: Final = 0.25


class Gate:
    """Stops the program where the session says so.

    Args:
        bus: Where `Bus.starts` is set while a stop before a node is possible.
        stop_on_entry: Stop before the first node.
        expects_controller: A page is to come; stops before that wait for it without limit.
        stop_on_exception: Stop where a node raises.
        seq_source: Gives the calling thread's last recorded seq.
        flush: Commits the recording, within a bounded time, before a stop is announced.
        on_change: Takes each new `SessionInfo`, in order; must return at once.
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
        self._openings = Openings(bus)
        self._seq_source = seq_source
        self._flush = flush
        self._on_change = on_change
        self._clock = clock
        self._turn = Turn()
        self._inside = threading.local()
        self._state = new_session(
            stop_on_entry=stop_on_entry,
            expects_controller=expects_controller,
            stop_on_exception=stop_on_exception,
        )
        self._catalog = Catalog()
        self._compilations = Compilations()
        self._makers: dict[int, Node] = {}  # by value
        self._unsaid: deque[Log] = deque()
        # While a stop is being committed, nothing is announced: a page must find what it points at.
        self._committing = False
        self._settled = False
        self._live = Arrays()
        self._standing: dict[int, Node] = {}  # where threads are held now
        # Where threads were last, (scope, step), while they are in a scope that is waited for.
        self._places: dict[int, tuple[str, int]] = {}
        # The fast path: with `_calm`, only nodes in these tables are looked at.
        self._calm = False
        self._tracking = False
        self._active: tuple[Breakpoint, ...] = ()
        self._gradients: tuple[Breakpoint, ...] = ()
        self._before: dict[int, tuple[Asked, ...]] = {}
        self._after: dict[int, tuple[Asked, ...]] = {}
        self._rearm()

    @property
    def info(self) -> SessionInfo:
        """The session as controllers see it."""
        return info_of(self._state)

    @property
    def nodes(self) -> int:
        """How many nodes the program has had so far."""
        return len(self._catalog.nodes)

    # ------------------------------------------------------------ the program's side

    def emit(self, event: Event) -> None:
        """Take one event; returns when the program may go on."""
        kind = type(event)  # no closure here or in `_passes`: cells cost each node as much again
        if kind is NodeFinished:
            if self._calm and self._passes(event):  # type: ignore[arg-type]
                return
            self._reach(event, "after")  # type: ignore[arg-type]
        elif kind is NodeStarted:
            if self._calm and self._before.get(event.node.id) == ():  # type: ignore[union-attr]
                return
            self._reach(event, "before")  # type: ignore[arg-type]
        elif isinstance(event, NodeFailed):
            self._reach(event, "after")
        elif kind is GradientReached:
            self._reach(event, "after")  # type: ignore[arg-type]
        elif isinstance(event, GraphExtended):
            self._take(partial(self._extend, event))
        elif isinstance(event, GraphCaptured | Compiled):
            self._compilations.take(event)
        elif isinstance(event, StepFinished | RunFinished):
            ended = isinstance(event, RunFinished)
            if ended or not self._settled:
                self._take(partial(self._settle, ended))

    def _passes(self, event: NodeFinished) -> bool:
        """Whether no breakpoint is about a node that has run: the common case, without a lock."""
        node = event.node
        asked = self._after.get(node.id)
        if asked is None:
            # An interrupt came when it was told of, so it is known from now on.
            self._take(partial(self._extend, GraphExtended((node,), ())))
            asked = self._after.get(node.id)
        if not asked:
            # Outside of every scope that is waited for; to know nothing of a thread says so, too.
            if self._tracking and self._places and not is_leaf(node):
                self._places.pop(event.thread, None)
            return True
        if not passes(asked, event, self._places.get(event.thread)):
            return False
        if self._tracking:
            self._places[event.thread] = (node.scope, event.step)
        return True

    def break_here(self, text: str, reason: StopReason = "pause", watch: int = 0) -> None:
        """Stop at the next node because the program, or a watch, asks for it, if anyone is there.

        For a probe that stands before the gate the next node is the one of the event that it has.
        """
        self._take(lambda: self._give(BreakHere(text, reason, watch)))

    def watches(self, statuses: tuple[WatchStatus, ...]) -> None:
        """Tell controllers what is watched for, and what was found."""
        self._take(lambda: self._give(WatchesChanged(statuses)))

    def open_also(self, wanted: Opens) -> None:
        """Open compiled kernels in which this wants to see a node, too."""
        with self._turn.lock:
            self._openings.also(wanted)

    def raised(self, given: Raised) -> None:
        """Stop at an exception that nobody has caught; returns when it may go its way."""
        while not self._arrive(given, given):
            self._wait(given)
        self._say()

    def _reach(self, event: Reached, when: When) -> None:
        if getattr(self._inside, "held", False) or self._turn.mine:
            return  # Something that runs within the gate, on this very thread.
        if self._turn.overdue:
            self._catch_up()
        self._wait(event)
        state = self._state
        if not may_stop(state):
            return
        made = made_by(event, self._makers, self._gradients)
        if made is None:
            return
        node, gradient_of = made
        reached = NodeReached(
            node=node,
            when=when,
            step=event.step,
            seq=0,
            thread=event.thread,
            previous=self._places.get(event.thread),
            error=event.error if isinstance(event, NodeFailed) else "",
            stands_for=self._compilations.stands_for(node),
            gradient_of=gradient_of,
        )
        if self._tracking and when == "after" and gradient_of is None and not is_leaf(node):
            self._places[event.thread] = (node.scope, event.step)
        self._inside.held = True
        try:
            while not self._offer(event, reached):
                self._wait(event)
        finally:
            self._inside.held = False
        self._say()

    def _offer(self, event: Reached, reached: NodeReached) -> bool:
        """Offer a node to the session, and hold this thread if it stops.

        Returns:
            False if another thread stopped first, and this one has to ask again after that.
        """
        state, node = self._state, reached.node
        found = candidates(state, reached)
        asked = [each for each in found if each.condition.strip() or each.log.strip()]
        elapsed_s = self._bus.ran_ns() / 1e9 if asked else 0.0
        verdicts = tuple(
            judge(each, event, reached, hits_of(state, each), elapsed_s) for each in asked
        )
        if (
            len(verdicts) == len(found)
            and not any(each.true or each.error for each in verdicts)
            and not reached.error
            and state.lost_at is None
            and not (
                state.goal is not None
                and meets(state.goal, node, reached.when, event.step, event.thread)
            )
        ):
            return True  # On the way to somewhere else: no decision, no lock.
        reached = msgspec.structs.replace(
            reached, seq=self._seq_source(), now_s=self._clock(), verdicts=verdicts
        )
        return self._arrive(reached, event)

    def _arrive(self, given: NodeReached | Raised, event: Reached | Raised) -> bool:
        """Give it to the session, and hold this thread if that stops it; False as of `_offer`."""
        try:
            with self._turn.lock:
                if not may_go(self._state, event.thread):
                    return False
                held = self._give(given)
            if held:
                self._places[event.thread] = (given.node.scope, event.step)
                self._hold(event)
        except BaseException:
            self._let_go(event.thread)
            raise
        return True

    def _hold(self, event: Reached | Raised) -> None:
        live = self._live = arrays_of(event)
        began = self._bus.now_ns()
        try:
            stack = event.stack if isinstance(event, Raised) else user_stack()
            self._flush()
            with self._turn.lock:
                self._give(StackRead(stack))
                self._committing = False
                self._on_change(info_of(self._state))
            self._wait(event, "")
        finally:
            if self._live is live:  # by now another thread may have stopped
                self._live = Arrays()
            self._tell_held(event, "held", began)

    def _let_go(self, thread: int) -> None:
        """End the stop of a thread that is interrupted, or that cannot be held."""
        with self._turn.lock:
            stop = self._state.stop
            if stop is not None and stop.thread == thread:
                self._committing = False
                self._bus.edits.pop(thread, None)  # it does not go on from there
                self._give(Interrupted())

    def _tell_held(self, event: Reached | Raised, kind: HostKind, began: int) -> None:
        """Emit how long a thread was kept here: that is no time of the program's."""
        step = getattr(event, "step", 0)
        ended = self._bus.now_ns()
        if kind == "held":
            self._bus.held_ns += ended - began
        self._bus.emit(HostSpan(kind, event.thread, step, began, ended))

    def _wait(self, event: Reached | Raised, told: HostKind | Literal[""] = "held_along") -> None:
        """Keep this thread until it may go; ``told`` says as what that is told of."""
        thread = event.thread
        if may_go(self._state, thread):
            return
        began = self._bus.now_ns()
        if not isinstance(event, GradientReached):
            self._standing[thread] = event.node
        try:
            while not may_go(self._state, thread):
                self._turn.sleep(lambda: not may_go(self._state, thread), TICK_S)
                alone = self._state.alone
                if self._state.lost_at is not None or alone:
                    # A lost page has to be noticed, and the end of who goes alone.
                    ended = sys._current_frames().keys().isdisjoint(alone)
                    self._take(partial(self._give, Tick(self._clock(), ended)))
        finally:
            self._standing.pop(thread, None)
            if told:
                self._tell_held(event, told, began)
        self._say()

    def _extend(self, event: GraphExtended) -> None:
        became = self._compilations.met(event.nodes)
        self._catalog.add(event.nodes, became)
        for node in event.nodes:
            self._makers.update(dict.fromkeys(node.outputs, node))
        self._give(GraphKnown(event.nodes, became))
        stands_for = self._compilations.stands_for
        self._before.update(asked_at(self._active, "before", event.nodes, stands_for))
        self._after.update(asked_at(self._active, "after", event.nodes, stands_for))

    def _settle(self, ended: bool) -> None:
        if not self._settled:
            self._give(GraphSettled(self._catalog))
        self._settled = True
        if ended:
            self._give(ProgramFinished())

    # ------------------------------------------------------------ the controllers' side

    def command(self, command: Command) -> None:
        """Take a controller's command, from any thread.

        Raises:
            NodescopeError: It cannot be carried out; nothing has changed.
        """
        if self._turn.mine:
            raise UsageError("no command from inside a notification", hint="from another thread")
        event: Event | None = None
        with self._turn.lock:
            if isinstance(command, SetValue):
                event = self._edit(command)
            else:
                standing = {each: node.scope for each, node in self.standing().items()}
                self._give(Commanded(command, self._catalog, standing))
        if event is not None:
            self._bus.emit(event)
        self._say()

    def _edit(self, command: SetValue) -> Event:
        """Change a live value, under the lock. The program's thread takes it up when it goes on."""
        stop, array = self._state.stop, self._live.get(command.value)
        if stop is None or array is None:
            self._give(Commanded(command, self._catalog))  # says what is wrong
            raise EditError("this value does not belong to the node where the program is stopped",
                            hint="its inputs and outputs can be changed here")  # fmt: skip
        found = edited(array, command)
        maker = self._makers.get(command.value)
        how = told(command, maker.name if maker is not None else f"value {command.value}")
        self._give(Edited(how))
        self._live.change(command.value, found)
        self._bus.edits.setdefault(stop.thread, {})[command.value] = found
        now_ns = self._bus.now_ns()
        return ValueEdited(command.value, found.copy("K"), stop.seq, stop.step, how, now_ns)

    def controllers(self, count: int) -> None:
        """So many pages follow this run now."""
        self._take(lambda: self._give(ControllersChanged(count, self._clock())))

    def link_up(self) -> None:
        """The server was reached."""
        self._take(lambda: self._give(LinkChanged(True, self._clock())))

    def link_lost(self) -> None:
        """The server is gone, and every page with it."""
        self._take(lambda: self._give(LinkChanged(False, self._clock())))

    def forked(self) -> None:
        """In a forked child: nobody can come here, so nothing stops and nothing waits."""
        self._turn.forked()
        self._state = SessionState(phase="detached")

    def standing(self) -> dict[int, Node]:
        """The nodes at which threads are held, by thread."""
        return dict(self._standing)

    def live_value(self, value: int, port: int | None = None) -> Array | None:
        """A value of the node at which the program stands, or what that took at a port; no copy."""
        return self._live.of(value, port)

    # ------------------------------------------------------------ the shell

    def _take(self, work: Callable[[], object]) -> None:
        """Do something under the lock, at once if that can be, and say what comes of it."""
        try:
            self._turn.take(work)
        except BaseException:
            self._calm = False  # what is left to be done is done at the next node
            raise
        self._say()

    def _catch_up(self) -> None:
        self._turn.catch_up()
        self._turn.take(self._rearm)

    def _give(self, given: Input) -> bool:
        """Feed the session and carry out its effects, under the lock; whether it says `Hold`."""
        before = self._state
        self._state, effects = transition(before, given)
        held = False
        for effect in effects:
            match effect:
                case Hold():
                    self._committing = held = True
                case Release():
                    self._turn.wake()
                case Announce(info=info):
                    if not self._committing:
                        self._on_change(info)
                case Log():
                    self._unsaid.append(effect)
        if self._state is not before:
            self._rearm()
        return held

    def _rearm(self) -> None:
        """Set the fast path for the state as it is now."""
        state = self._state
        active = armed(state)
        tracking = any(each.kind == "scope" for each in active)
        self._calm = not (
            state.phase == "stopped"
            or state.alone
            or (state.goal is not None and may_stop(state))
            or state.lost_at is not None
            or self._turn.overdue
        )
        if tracking and not self._tracking:
            # Old places would hide an entry; where the program stands now is still true.
            stop = state.stop
            self._places = {stop.thread: (stop.scope, stop.step)} if stop is not None else {}
        self._tracking = tracking
        if active != self._active:
            self._gradients = tuple(each for each in active if of_gradients(each))
            nodes = tuple(self._catalog.nodes.values())
            stands_for = self._compilations.stands_for
            self._before = asked_at(active, "before", nodes, stands_for)
            self._after = asked_at(active, "after", nodes, stands_for)
            self._openings.of(active)
            self._active = active  # last: what is interrupted here is done again
        self._bus.gradients = bool(self._gradients)
        self._bus.starts, self._bus.stops = seen(state, active)

    def _say(self) -> None:
        """Emit what the session had to say, outside the lock and as an ordinary event."""
        if self._turn.overdue and not self._turn.mine:
            self._catch_up()
        with suppress(IndexError):
            while True:
                said = self._unsaid.popleft()
                self._bus.emit(Logged("nodescope", said.text, said.step, self._bus.now_ns()))
