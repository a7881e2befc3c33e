"""Emitter: the shared source of a run's events, whichever library computes.

Each run has one. It counts steps, gives calls their nodes, and informs the bus; adapters report
which operation was called on which values. Value ids only grow over the life of the process, so an
id from an earlier run is recognised by being too small.

In training steps (`emit.steps`), calls are counted within a step; elsewhere within the rounds of
the program's loops (`emit.rounds`).

Invariant: no `Exception` of the bus or its probes reaches the program from here.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from nodescope.emit import phases
from nodescope.emit.frames import call_site, user_instruction, user_source
from nodescope.emit.rounds import Loops, Rounds
from nodescope.emit.state import ThreadState, current
from nodescope.emit.steps import Attachment as Attachment
from nodescope.emit.steps import Steps
from nodescope.errors import error_text
from nodescope.events import (
    Array,
    Bus,
    GradientComputed,
    GradientReached,
    GraphExtended,
    NodeFailed,
    NodeFinished,
    NodeStarted,
)
from nodescope.ir.graph import Node, OpaqueSpec, Phase, SourceLocation, TensorSpec
from nodescope.ir.identity import LOOPED, UNROLLED, UNTOLD, Cursor, Entry, Identity, NodeSpec, Site

_value_ids = itertools.count(1)
_now = time.perf_counter_ns
_active: Emitter | None = None

NOT_KNOWN_YET: Final = OpaqueSpec("unknown")
"""For `Emitter.enter`: the spec of a result about which nothing is known before the call. If the
node ran before, the result has its earlier spec until `Emitter.finish`."""

Edits = Mapping[int, Array]
"""New contents of values by id, as edited by the user while the thread was stopped."""


def active() -> Emitter | None:
    """The emitter of the run, or None."""
    return _active


def activate(emitter: Emitter | None) -> None:
    """Make this the emitter of the run."""
    global _active
    _active = emitter


class Pending:
    """A call under way, between `Emitter.enter` and its end.

    Attributes:
        outputs: Value ids, by output port; empty if they are known only at the end.
        edits: New contents of inputs that the user edited at a stop before the call.
    """

    __slots__ = ("arrays", "edits", "entry", "start_ns", "state", "step")

    def __init__(
        self, entry: Entry, arrays: tuple[Any, ...], step: int, state: ThreadState, start_ns: int,
        edits: Edits,
    ) -> None:  # fmt: skip
        self.entry, self.arrays, self.step, self.state = entry, arrays, step, state
        self.start_ns, self.edits = start_ns, edits

    @property
    def outputs(self) -> tuple[int, ...]:
        """Value ids, by output port."""
        return self.entry.outputs

    @property
    def node(self) -> Node:
        """The node being executed."""
        return self.entry.node


class Journal(Protocol):
    """Notes the calls of a step, so that an adapter can recognise a step that repeats it."""

    def entered(self, cursor: Cursor, key: str, entry: Entry) -> None:
        """Note the node of a call; ``key`` is its key in `Cursor.slots`."""


class Emitter(Steps):
    """The observation of one run of a program.

    Args:
        bus: The bus that receives the events.

    Attributes:
        base: Value ids up to this one belong to earlier runs.
        loops: The program's known loops.
    """

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus, Identity(_value_ids.__next__))
        self.base = next(_value_ids)
        self.loops = Loops()
        self.graph_id = itertools.count(1).__next__
        """The source of ids for captured graphs."""
        self.lanes = itertools.count(1)
        """Numbers of processes that run nodes for this one."""
        self.pairs: dict[int, int] = {}
        """The gradients of values, as they were emitted last."""
        self.journal: Journal | None = None
        """The journal of calls, or None."""
        self._sites: dict[tuple[object, ...], int] = {}
        self._threads: set[int] = set()

    # Counts

    def token(self, state: ThreadState) -> object:
        """The token of the current step: a cursor with another token counts from zero."""
        if self.marked:
            return self.epoch
        rounds = state.rounds
        return self.epoch if rounds is None else rounds.token

    def look(self, state: ThreadState) -> object:
        """Like `token`, after determining which round of a loop the calling thread is in.

        Inspects the frames from the caller's caller on: loops of the adapter count as its own.
        """
        if self._due and state.phase == "forward":
            self._begin()
        if self.marked:
            return self.epoch
        rounds = state.rounds
        if rounds is None or rounds.loops is not self.loops:
            rounds = state.rounds = Rounds(self.loops)
        if self.stepped:
            rounds.count_outside(self.epoch)
        return rounds.look(sys._getframe(2))

    @contextlib.contextmanager
    def apart(self, state: ThreadState) -> Iterator[None]:
        """Give the operations inside new nodes each time, whatever loop they are in.

        Used for calls that are compared with other calls, which have their own nodes as well.
        """
        rounds = state.rounds
        if rounds is None or rounds.loops is not self.loops:
            rounds = state.rounds = Rounds(self.loops)
        rounds.apart += 1
        try:
            yield
        finally:
            rounds.apart -= 1

    def cursor(self, state: ThreadState, token: object) -> Cursor:
        """The cursor for the place where a thread is; stored as `state.cursor`."""
        number = 0 if self.marked or state.rounds is None else state.rounds.number
        key = (state.scope, state.phase, number)
        cursor = state.cursors.get(key)
        if cursor is None or cursor.owner is not self.identity:
            self._threads.add(state.thread)
            cursor = Cursor(self.identity, state.scope, state.phase, number, state.call)
            state.cursors[key] = cursor
        if cursor.step is not token:
            cursor.restart(token)
        state.cursor = cursor
        return cursor

    def cursor_of(self, state: ThreadState, scope: str) -> Cursor:
        """The cursor of any scope, not necessarily the thread's, outside of all loops."""
        phase: Phase = "optimizer" if scope.startswith("optimizer/") else "forward"
        key, cursors = (scope, phase, 0), state.home if state.call else state.cursors
        cursor = cursors.get(key)
        if cursor is None or cursor.owner is not self.identity:
            cursor = cursors[key] = Cursor(self.identity, scope, phase)
        # Without steps, values read there are never read again under another name.
        epoch = self.epoch if self.outside is None else self.outside.epoch
        if cursor.step is None or (self.stepped and cursor.step is not epoch):
            cursor.restart(epoch)
        return cursor

    def is_part(
        self, cursor: Cursor, entry: Entry, inputs: tuple[int, ...], taped: bool = False
    ) -> bool:
        """Whether a round of a loop is part of a larger whole, so that its calls get their own
        nodes.

        This is the case if a call that took a value from outside of the loop now takes another such
        value, such as the next layer's weights, unless a model call has computed it. It is also the
        case if a tape holds the results of each round and the rounds are not training steps,
        because the backward pass goes through every round.
        """
        if taped and cursor.loop != self.loops.trained:
            return True
        if entry.inputs == inputs:
            return False
        by_value = self.identity.by_value
        for before, now in zip(entry.inputs, inputs, strict=False):
            if before != now:
                makers = by_value.get(before), by_value.get(now)
                if all(
                    maker is not None and maker.loop != cursor.loop and not maker.call
                    for maker in makers
                ):
                    return True
        return False

    def unroll(self, state: ThreadState) -> Cursor:
        """Count calls across the rounds of the thread's loop, because they are parts of a whole."""
        rounds = state.rounds
        assert rounds is not None
        with self.lock:
            loop = rounds.number
            around = rounds.unroll()
            moved = self.identity.move(loop, around)
            for (scope, phase, number), cursor in list(state.cursors.items()):
                if number == loop and cursor.owner is self.identity:
                    key = (scope, phase, around)
                    outer = state.cursors.get(key)
                    if outer is None or outer.owner is not self.identity:
                        outer = state.cursors[key] = Cursor(self.identity, scope, phase, around)
                    if outer.step is not rounds.token:
                        outer.restart(rounds.token)
                    for name in cursor.slots:
                        if (scope, name, phase) in moved:
                            slot = outer.slots.get(name) or outer.slot(name)
                            slot[0] = len(slot[1])
        return self.cursor(state, rounds.token)

    def is_alone(self, state: ThreadState) -> bool:
        """Whether no other thread has run nodes so far."""
        return self._threads <= {state.thread}

    def place(self) -> int:
        """A number for the place in the user's program where the calling thread is."""
        with self.lock:
            return self._sites.setdefault(call_site(), len(self._sites))

    def site(self, cursor: Cursor, key: str, state: ThreadState) -> Site:
        """The call site that the thread is at; for a backward node, with the node it
        differentiates.
        """
        where = (call_site(), state.forward, cursor.loop)
        return self.identity.site(cursor.scope, key, cursor.phase, where)

    def unrolled(self) -> int:
        """The number of nodes beyond which one call site counts as a loop."""
        return UNROLLED if self.step_open else LOOPED

    def steps_follow(self) -> None:
        """Note that the caller's caller begins a loop of steps: from now on, calls are counted as
        in the last step, if there was one. The loops around it are no rounds.
        """
        if self.outside is None:
            self.marked = self.stepped
        self.loops.note_steps(sys._getframe(2))

    # Nodes

    def tell(self, node: Node, values: Sequence[Any]) -> None:
        """Emit that a node was defined or redefined."""
        self.bus.emit(GraphExtended((node,), tuple(values), self.identity.version))

    def reshape(self, entry: Entry, shapes: Sequence[tuple[Any, str]]) -> None:
        """Emit that the results of an execution have other shapes or dtypes than before."""
        changed = self.identity.reshape(entry, shapes)
        if changed:
            self._varied, self.steady = True, None
            self.bus.emit(GraphExtended((), changed, self.identity.version))

    def failed(
        self, entry: Entry, live: tuple[Any, ...], step: int, thread: int, start: int,
        error: BaseException, *, unseen: bool = False,
    ) -> None:  # fmt: skip
        """Emit that a node raised; ``unseen`` as in `NodeFailed`."""
        text = error_text(error)
        start -= self.bus.origin_ns
        self.bus.emit(NodeFailed(entry.node, live, step, thread, start, text, unseen))

    def edits(self, state: ThreadState) -> Edits:
        """The edits made while a thread was stopped; returns each edit only once."""
        return self.bus.edits.pop(state.thread, {}) if self.bus.edits else {}

    # What adapters call

    def scope(self, path: str, call: int = 0) -> AbstractContextManager[None]:
        """Put the operations inside into a scope below the current one.

        Args:
            path: Names joined by slashes, such as ``encoder/layer_0``.
            call: The number of its earlier calls in this step; each call has its own scope.
        """
        return phases.Scope(current(), f"{path}_{call}" if call else path)

    def phase(
        self, phase: Phase, forward: int | None = None, path: str = ""
    ) -> AbstractContextManager[None]:
        """Assign the operations inside to a phase of training.

        Args:
            phase: The phase.
            forward: For ``backward``: the node being differentiated, if known.
            path: For ``optimizer``: the object being updated, such as the parameter's path.
        """
        state = current()
        if phase == "optimizer":
            return phases.optimizer_phase(state, path)
        if phase == "recompute":
            return phases.recompute_phase(state, path or state.scope)
        entry = self.identity.by_node.get(forward) if forward is not None else None
        scope = path if entry is None else entry.node.scope
        return phases.phase(state, phase, scope, forward)

    def enter(
        self,
        op: str,
        role: str,
        inputs: tuple[int, ...],
        specs: Sequence[Any],
        attrs: Mapping[str, Any],
        writes: tuple[tuple[int, int], ...] = (),
        *,
        arrays: tuple[Any, ...] = (),
        dialect: str = "",
        native: str = "",
        family: str = "",
        label: str = "",
        device: str = "cpu",
        storages: tuple[int, ...] = (),
        source: SourceLocation | None = None,
        inside: bool = False,
        kind: str = "",
    ) -> Pending:
        """Begin a call and give it its node, which is emitted if new. May return late.

        Args:
            op: The operation's canonical name if there is one, else its own name.
            role: ``op``, ``parameter``, ``buffer``, ``input``, ``constant``; see `Node.role`.
            inputs: Value ids, by input port.
            specs: Specs of the results, by output port; sizes may be unknown, and so may all
                (`NOT_KNOWN_YET`).
            attrs: JSON-like arguments.
            writes: (output port, input port) of each result that is an input written in place.
            arrays: The operands by input port, as the library's own arrays.
            dialect: The adapter's name.
            native: The operation's full name in its library.
            family: The op's family, which determines its colour.
            label: The node's name, in place of its op.
            device: The device where it runs.
            storages: Positive numbers that identify the outputs' memory, by output port; see
                `Value.storage`.
            source: The user's line; by default, it is looked up.
            inside: Whether it is part of the same call of the library as the last operation of the
                thread. Otherwise an operation at the same place in the program is a new round.
            kind: Distinguishes calls of one op that never belong to the same node, such as calls
                with another number of results.

        Returns:
            The pending call, to be passed to `finish` or `fail`.
        """
        state = current()
        token = self.token(state) if inside and not self._due else self.look(state)
        cursor = state.cursor
        if cursor is None or cursor.step is not token:
            cursor = self.cursor(state, token)
        key = (kind or op) if role == "op" else f"{role}:{label}"
        slot = cursor.slots.get(key) or cursor.slot(key)
        nth, entries = slot
        slot[0] = nth + 1
        entry: Entry | None = entries[nth] if nth < len(entries) else None
        if entry is not None and cursor.loop and self.is_part(cursor, entry, inputs):
            cursor, entry = self.unroll(state), None
            slot = cursor.slots.get(key) or cursor.slot(key)
            nth, entries = slot
            slot[0] = nth + 1
        if entry is None or entry.inputs != inputs:
            entry = self._define(
                cursor, entries, nth, key, inputs, tuple(specs), dict(attrs), state,
                op=op, family=family or ("leaf" if role != "op" else "other"),
                source=source or state.source or user_source(), label=label, device=device,
                role=role, writes=writes, dialect=dialect, native=native, storages=storages,
            )  # fmt: skip
        if any(
            a != b.spec and a is not NOT_KNOWN_YET
            for a, b in zip(specs, entry.values, strict=False)
        ):
            self.respecify(entry, specs)
        if self.journal is not None:
            self.journal.entered(cursor, key, entry)
        bus, step = self.bus, self.step
        start = _now()
        edits: Edits = {}
        if bus.demand.starts:
            bus.emit(NodeStarted(entry.node, arrays, step, state.thread, start - bus.origin_ns))
            edits = self.edits(state)
            start = _now()
        return Pending(entry, arrays, step, state, start, edits)

    def define(
        self,
        op: str,
        role: str,
        inputs: tuple[int, ...],
        specs: Sequence[Any],
        attrs: Mapping[str, Any],
        writes: tuple[tuple[int, int], ...] = (),
        *,
        dialect: str = "",
        native: str = "",
        family: str = "",
        label: str = "",
        device: str = "cpu",
        storages: tuple[int, ...] = (),
        kind: str = "",
    ) -> Pending:
        """Emit a node before it runs, for a graph that is known as a whole.

        Calls that are passed to `enter` in the next step, in the same order within each scope, are
        executions of these nodes.

        Args: As in `enter`.

        Returns:
            A pending call that is never ended, with the node's values.
        """
        state = current()
        cursor = state.cursor
        if cursor is None or cursor.step is not self.epoch:
            cursor = self.cursor(state, self.epoch)
        key = (kind or op) if role == "op" else f"{role}:{label}"
        slot = cursor.slots.get(key) or cursor.slot(key)
        nth, entries = slot
        slot[0] = nth + 1
        if nth < len(entries):
            entry: Entry = entries[nth]
        else:
            entry = self._define(
                cursor, entries, nth, key, inputs, tuple(specs), dict(attrs), state,
                op=op, family=family or ("leaf" if role != "op" else "other"),
                source=state.source, label=label, device=device, role=role, writes=writes,
                dialect=dialect, native=native, storages=storages,
            )  # fmt: skip
        return Pending(entry, (), self.step, state, 0, {})

    def finish(
        self,
        pending: Pending,
        outputs: tuple[Any, ...],
        start_ns: int = 0,
        end_ns: int = 0,
        *,
        arrays: tuple[Any, ...] | None = None,
        specs: Sequence[Any] | None = None,
        attrs: dict[str, Any] | None = None,
        worker: int = 0,
        lane: int = 0,
        late: bool = False,
    ) -> Edits:
        """End a call. May return late.

        Args:
            pending: The result of `enter`.
            outputs: The results by output port, as the library's own arrays.
            start_ns, end_ns: Times by `time.perf_counter_ns`; 0 stands for the time of `enter`, and
                for now.
            arrays: The operands, if they have changed since `enter`.
            specs: Specs of the results, if known only now.
            attrs: The arguments of this execution, if they differ from the node's.
            worker, lane: The process in which it ran, and the stream or queue within it.
            late: Whether the process that ran it has already continued.

        Returns:
            New contents of values that the user edited while the program was stopped at the node,
            by value id: the caller has to continue with these.
        """
        bus, entry, state = self.bus, pending.entry, pending.state
        if specs is not None and any(
            a != b.spec for a, b in zip(specs, entry.values, strict=False)
        ):
            self.respecify(entry, specs)
        origin = bus.origin_ns
        given_arrays = pending.arrays if arrays is None else arrays
        start, end = (start_ns or pending.start_ns) - origin, (end_ns or _now()) - origin
        bus.emit(
            NodeFinished(
                entry.node,
                given_arrays,
                outputs,
                pending.step,
                state.thread,
                start,
                end,
                attrs,
                worker,
                lane,
                late,
            )
        )
        return {} if late else self.edits(state)

    def fail(self, pending: Pending, error: BaseException) -> None:
        """End a call that raised; the program gets the same exception."""
        state = pending.state
        self.failed(
            pending.entry, pending.arrays, pending.step, state.thread, pending.start_ns, error
        )

    def backward_begins(self, loss: int, number: Any) -> None:
        """Note that a backward pass begins at a value: the step's loss; its loop's rounds are
        steps.

        Args:
            loss: Its value id.
            number: The loss as an object that ``float`` accepts. Waits for a device if ``float``
                does.
        """
        if self.step_open:
            node = self.node_of(loss) if self.observed else None
            self.losses.note(user_instruction(), number, 0 if node is None else node.id)
        elif not self.marked:
            self.loops.train(sys._getframe(1), sure=False)

    def gradient(self, value: int, gradient: int, array: Any) -> Edits:
        """Note that ``gradient``, just computed, is the gradient of ``value``. May return late.

        Args:
            value, gradient: Value ids.
            array: The gradient, as the library's own array.

        Returns:
            As in `finish`.
        """
        if self.pairs.get(value) != gradient:
            self.pair(value, gradient)
        bus = self.bus
        if not bus.demand.gradients:
            return {}
        state = current()
        bus.emit(GradientReached(value, gradient, array, self.step, state.thread, bus.now_ns()))
        return self.edits(state)

    def pair(self, value: int, gradient: int) -> None:
        """Emit that ``gradient`` is the gradient of ``value``, unless that is known."""
        if self.pairs.get(value) != gradient:
            self.pairs[value] = gradient
            self.bus.emit(GradientComputed(value, gradient))

    def node_of(self, value: int) -> Node | None:
        """The node that produced a value in this run."""
        entry = self.identity.by_value.get(value)
        return None if entry is None else entry.node

    def respecify(self, entry: Entry, specs: Sequence[TensorSpec]) -> None:
        """Emit that results have other specs than before."""
        changed = self.identity.respecify(entry, specs)
        if changed:
            self._varied, self.steady = True, None
            self.bus.emit(GraphExtended((), changed, self.identity.version))

    def _define(
        self, cursor: Cursor, entries: list[Entry], nth: int, key: str, inputs: tuple[int, ...],
        specs: tuple[Any, ...], attrs: dict[str, Any], state: ThreadState, *, op: str, family: str,
        source: SourceLocation | None, label: str, device: str, **extra: Any,
    ) -> Entry:  # fmt: skip
        site: Site | None = None
        if nth >= len(entries):
            site = self.site(cursor, key, state)
            known, retell = site.again(inputs, self.identity.by_value, self.unrolled())
            if known is not None:
                cursor.slots[key][0] = nth  # this call repeats a node, so it does not count
                if not retell:
                    return known
                nth = known.nth
        spec = NodeSpec(
            op=op, family=family, inputs=inputs, specs=specs, attrs=attrs, scope=cursor.scope,
            phase=cursor.phase, source=source, forward=state.forward, label=label, device=device,
            loop=cursor.loop, **extra,
        )  # fmt: skip
        entry, values = self.identity.define(entries, nth, spec)
        try:
            if site is not None and entry.site is None:
                site.add(entry)
            if values is not None:
                self.tell(entry.node, values)
        except BaseException:
            entry.inputs = UNTOLD
            raise
        return entry
