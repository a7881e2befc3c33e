"""Tracer: turns the engine's operations into events.

Value ids are stored on the tensors (`Tensor._vid`); they only grow over the life of the process, so
an id from an earlier observation is recognised by being too small, and its tensor enters as a leaf.

Invariant: the observed path calls the same impls on the same arrays in the same order.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from operator import eq
from typing import Any, Final

import numpy as np

from nodescope.emit.emitter import Edits, Emitter, activate
from nodescope.emit.frames import user_source
from nodescope.emit.losses import Instruction
from nodescope.emit.phases import backward_phase, optimizer_phase
from nodescope.engine import dispatch_mode, run
from nodescope.engine.model_calls import ModelCalls
from nodescope.engine.native_calls import native_calls, note_read
from nodescope.engine.run import Run, cause, explained, several
from nodescope.engine.specs import attributes_of, dtype_name, given, is_loose, specs_of
from nodescope.engine.stale_values import ANEW, Read, forget_reads, forget_rounds, without_old_reads
from nodescope.engine.state import State, current
from nodescope.engine.tensor import SMOOTH, Attrs, Bundle, Tensor, Written, next_seq, settled
from nodescope.engine.traced_operators import observed_operator
from nodescope.errors import UsageError
from nodescope.events import ArrayMoved, Bus, NodeFinished, NodeStarted
from nodescope.ir.block_demands import OutputsSink, TimesSink
from nodescope.ir.graph import TensorSpec, usual_role
from nodescope.ir.identity import UNTOLD, Cursor, Entry, NodeSpec, Site, leaf_key
from nodescope.ops.op import Op

_now = time.perf_counter_ns
_new = Tensor.__new__
_ndarray = np.ndarray
_asarray = np.asarray
# With many short loops of steps, reading the parameters at the end of each would take much time.
_READ_AGAIN_NS: Final = 1_000_000_000


def observe(bus: Bus) -> None:
    """Emit everything that the engine does from now on to ``bus``.

    Raises:
        UsageError: The engine is already observed.
    """
    emitter = Emitter(bus)
    emitter.attachments = (attach(emitter),)
    activate(emitter)


def unobserve() -> None:
    """Stop observing; an open step ends. Has no effect without an observer."""
    tracer = dispatch_mode.attending()
    if tracer is not None:
        tracer.read_again()
        dispatch_mode.set_observer(None)
        tracer.emitter.end_step()
        tracer.emitter.tell_unobserved()
        activate(None)


def attach(emitter: Emitter) -> Tracer:
    """Let an emitter report everything that the engine does from now on.

    Raises:
        UsageError: The engine is already observed.
    """
    if dispatch_mode.attending() is not None:
        raise UsageError("the engine is already observed", hint="call unobserve() first")
    tracer = Tracer(emitter)
    dispatch_mode.set_observer(tracer)
    return tracer


class Tracer:
    """The engine's reports to an emitter. An `Attachment`.

    The emitter's identity and counts are used here directly: each additional call would be
    noticeable in operations on tiny tensors.

    Args:
        emitter: The run's emitter.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        emitter.counts_rounds = True
        self.bus = emitter.bus
        self.base = emitter.base
        self.identity = emitter.identity
        self.graph_id = emitter.graph_id
        self._times: TimesSink | None = None
        self.outputs: OutputsSink | None = None  # see `times`
        self._demand: object = None  # the bus's demand when looked up in this step
        self.has_loops = False  # whether a node has run in rounds of a loop
        # Leaves that the next step reads anew; the program determines which of them stay alive.
        self.used: list[Read] = []
        self._many_used = 0
        self.model_calls = ModelCalls(emitter, self.used)
        self.reads: dict[Any, Any] = {}  # with steps: see `note_read`
        self._read_again_ns = 0
        # Parameters to be read as these nodes: without steps, or after unobserved ones.
        self._read_before: dict[int, tuple[weakref.ref[Tensor], Entry]] = {}
        self.calls = native_calls(self)
        self.run: Run = self.run_checked if self.calls is None else self.calls.run
        # Operators between tensors while this tracer observes; None: the plain ones. Those of the
        # native core call `run` themselves; to replace them would empty Python's caches.
        self.operator: Callable[[Op], Callable[[Tensor, Any], Tensor]] | None = None
        if self.calls is None or run.plain is None:
            self.operator = functools.partial(observed_operator, self)

    @property
    def step(self) -> int:
        """The number of the training step; 0 before the first."""
        return self.emitter.step

    @property
    def epoch(self) -> object:
        """See `Emitter.epoch`."""
        return self.emitter.epoch

    # As an attachment

    def rest(self) -> None:
        """Remove the tracer from the engine for a while."""
        dispatch_mode.rest()

    def wake(self) -> None:
        """Observe every operation again."""
        dispatch_mode.wake()

    def times(self) -> TimesSink | None:
        """See `Bus.times_sink`; if it is None, ``outputs`` is `Bus.outputs_sink` afterwards."""
        if (demand := self.bus.demand) is not self._demand:
            self._demand, self._times = demand, self.bus.times_sink()
            self.outputs = self.bus.outputs_sink() if self._times is None else None
        return self._times

    def step_begins(self) -> None:
        """Note a step: parameters, and leaves like them, are read anew in each step."""
        self._demand = None
        forget_reads(self.used)
        self.used.clear()
        self._read_before.clear()

    def steps_end(self) -> None:
        """Read the parameters of the last observed step again; if that was done a moment ago, only
        when an operation takes them, or at the end of the run.
        """
        with self.emitter.lock:
            for reference, entry in self.used:
                parameter = reference() if entry.node.role == "parameter" else None
                if parameter is not None:
                    self._read_before[id(parameter)] = reference, entry
            forget_reads([read for read in self.used if read[1].node.role != "parameter"])
            self.used.clear()
        now = self.bus.now_ns()
        if now >= self._read_again_ns:
            self._read_again_ns = now + _READ_AGAIN_NS
            self.read_again()

    def read_again(self) -> None:
        """Read the parameters that have not been read since unobserved steps ended."""
        unread = []
        with self.emitter.lock:
            if self.emitter.stepped and self.emitter.observed:
                unread = [*self._read_before.values()]
                self._read_before.clear()
        for reference, entry in unread:
            if (parameter := reference()) is not None:
                self._read(parameter, entry, current())

    def forked(self) -> None:
        """Stop observing in a forked child."""
        dispatch_mode.set_observer(None)

    def compiled(self, name: str, file: str, line: int, start_ns: int) -> None:
        """See `Emitter.compiled`."""
        self.emitter.compiled(name, file, line, start_ns)

    # Ops

    def run_checked(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Tensor:
        """Run an op and emit its execution. Raises its impl's errors.

        The native core runs ops itself if node and inputs are those of an earlier step, and
        attributes as well unless executions are noted; it passes all other ops to this method.
        """
        state = current()
        if state.builder is not None:
            return state.builder.run(op, inputs, attrs)  # type: ignore[no-any-return]
        emitter = self.emitter
        token = emitter.epoch if emitter.marked else emitter.look(state)
        key, live, args, tracked = self._inputs(inputs)
        if key is None:
            return self.run_checked(op, tuple(map(settled, inputs)), attrs)
        cursor = state.cursor
        if cursor is None or (cursor.step is not token and not cursor.label):
            cursor = emitter.cursor(state, token)
        slot = cursor.slots.get(op.name) or cursor.slot(op.name)
        nth: int = slot[0]
        slot[0] = nth + 1
        step = emitter.step  # another thread may begin the next one in the meantime
        entries: list[Entry] = slot[1]
        entry: Entry | None = None
        varies = emitter.steady is None
        if nth < len(entries):
            entry = entries[nth]
            part = cursor.loop and emitter.is_part(cursor, entry, key, tracked and state.recording)
            if part:
                cursor = emitter.unroll(state)
                slot = cursor.slots.get(op.name) or cursor.slot(op.name)
                nth, entries = slot
                slot[0] = nth + 1
            if part or entry.inputs != key:
                entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state)
                varies = True
        elif self.bus.demand.starts:
            # A probe that may stop before a node has to know it. Its spec comes from `infer`.
            entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state)
            varies = True
        bus = self.bus
        origin = bus.origin_ns
        if bus.demand.starts and entry is not None:
            bus.emit(NodeStarted(entry.node, live, step, state.thread, _now() - origin))
            if bus.edits:
                self.take_edits(inputs, state)
                _, live, args, _ = self._inputs(inputs)
        start = _now()
        try:
            data = op.impl(*args, **attrs) if attrs else op.impl(*args)
        except Exception as error:
            message = explained(op, inputs, attrs, error)
            if entry is None:
                entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state)
            self.failed(entry, live, step, state, start, message)
            raise message from cause(error)
        end = _now()
        if state.ran is not None:
            (start, end), state.ran = state.ran, None
        if data.__class__ is tuple:
            arrays = tuple(map(_asarray, data))
        else:
            arrays = (data if data.__class__ is _ndarray else _asarray(data),)
        if entry is None:
            entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state, arrays)
            varies = True  # the call may execute a known node
        if cursor.loop or entry.recent:
            entry.recent = (*map(id, arrays), *entry.recent[: len(arrays)])
        tracked = tracked and state.recording and op.vjp is not None
        result: Any
        if data.__class__ is tuple:
            result = several(op, inputs, attrs, arrays, tracked, entry.outputs)
        else:
            result = _new(Tensor)
            result.data = arrays[0]
            result._vid = entry.outputs[0]
            if tracked and arrays[0].dtype.kind in SMOOTH:
                result.edge = (next_seq(), op, inputs, attrs)
            else:
                result.edge = None
        own: Any = None
        if (attrs or len(live) != len(inputs)) and entry.given != given(inputs, attrs):
            own = attributes_of(op, inputs, attrs)
            varies = True
        if varies or entry.loose:
            self.reshape(entry, arrays)
        times = self.times()
        if times is not None:
            times(entry.node.id, step, state.thread, start - origin, end - origin)
            return result  # type: ignore[no-any-return]
        noted = self.outputs
        if noted is not None and noted(
            entry.node, entry.node.id, step, state.thread, start - origin, end - origin, live,
            arrays, own,
        ):  # fmt: skip
            return result  # type: ignore[no-any-return]
        bus.emit(
            NodeFinished(
                entry.node, live, arrays, step, state.thread, start - origin, end - origin,
                own,
            )
        )  # fmt: skip
        if bus.edits:
            self.take_edits((*(result if data.__class__ is tuple else (result,)), *inputs), state)
        return result  # type: ignore[no-any-return]

    def reshape(self, entry: Entry, arrays: tuple[Any, ...]) -> None:
        """Emit that the results of an execution have other shapes or dtypes than before.

        Checking at each execution would be noticeable in operations on tiny tensors. Results change
        if inputs, attributes or a leaf did, or if they depend on values (`Entry.loose`): such nodes
        are always checked, and every node until a whole step has changed nothing.
        """
        self.emitter.reshape(entry, [(array.shape, dtype_name(array.dtype)) for array in arrays])

    def take_edits(self, tensors: Iterable[Any], state: State) -> None:
        """Apply edits made while this thread was stopped: these tensors are replaced from now on.

        If several have the same id, as in ``x = np.sin(x)``, only the first is: the latest one.
        """
        self._take(tensors, self.emitter.edits(state))

    def _take(self, tensors: Iterable[Any], edits: Edits) -> None:
        changed: set[int] = set()
        for tensor in tensors if edits else ():
            value = getattr(tensor, "_vid", 0) if tensor.__class__ is Tensor else 0
            if value in edits and value not in changed:
                changed.add(value)
                array = edits[value]
                entry = self.identity.by_value.get(value)
                if entry is not None and entry.recent:
                    entry.recent = (id(array), *entry.recent)
                tensor.data = array

    def moved(self, tensor: Tensor, before: Any) -> None:
        """Note that the elements of a tensor, unchanged, are now in another array."""
        value, ids = getattr(tensor, "_vid", 0), (id(before), id(tensor.data))
        entry = self.identity.by_value.get(value) if value > self.base else None
        if entry is not None and ids[0] in entry.recent:
            entry.recent = (ids[1], *entry.recent)
        if entry is None or self.times() is not None:  # no probe has seen the array
            return
        if self.outputs is None or not self.outputs.moved(value, *ids):
            self.bus.emit(ArrayMoved(value, *ids))

    def failed(
        self, entry: Entry, live: tuple[Any, ...], step: int, state: State, start: int,
        error: Exception,
    ) -> None:  # fmt: skip
        """Emit that a node raised."""
        self.emitter.failed(entry, live, step, state.thread, start, error)

    def raised(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs, error: Exception) -> None:
        """Emit that an op raised in an unobserved step, as an execution in that step.

        Its node is that of the same line in an observed step, if there was one; else a new one.
        """
        state, emitter = current(), self.emitter
        if state.builder is not None:
            return
        start, inputs = _now(), tuple(map(settled, inputs))
        tensors = [value for value in inputs if value.__class__ is Tensor]
        live, cursor = tuple(x.data for x in tensors), emitter.cursor(state, emitter.token(state))
        nth, entries = slot = cursor.slots.get(op.name) or cursor.slot(op.name)
        source = state.source or user_source()

        def same_inputs(entry: Entry) -> int:
            ids = (getattr(tensor, "_vid", 0) for tensor in tensors)
            return sum(map(eq, entry.inputs, ids))

        at_line = [
            entry
            for entry in entries
            if entry.node.source == source and len(entry.inputs) == len(tensors)
        ]
        entry = max(at_line, key=same_inputs, default=None)
        if entry is None:
            key, live, _, _ = self._inputs(inputs)
            slot[0] = nth + 1
            entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state)
        emitter.failed(entry, live, emitter.step, state.thread, start, error, unseen=True)

    def _inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, Any, Any, bool]:
        """Value ids and arrays of the tensors, arguments of the impl, and whether one has an edge.

        Returns no ids if a tensor was written to: its current state has to take its place.
        """
        base = self.base
        if self.has_loops:
            step = self.emitter.step if self.emitter.step_open else 0
            forget_rounds(inputs, base, self.identity.by_value, step)
        if len(inputs) == 2:  # most ops, unrolled
            a, b = inputs
            try:
                first, second = a._vid, b._vid
            except AttributeError:
                first = second = 0
            if first > base and second > base:
                live = (a.data, b.data)
                return (first, second), live, live, a.edge is not None or b.edge is not None
        arrays: list[Any] = []
        ids: list[int] = []
        args: list[Any] = []
        tracked = False
        for port, value in enumerate(inputs):
            if value.__class__ is not Tensor:
                if value.__class__ is Written:
                    return None, None, None, False
                args.append(value)
                continue
            try:
                vid = value._vid
            except AttributeError:
                vid = 0
            ids.append(vid if vid > base else self.read_leaf(value, port))
            arrays.append(value.data)
            args.append(value.data)
            tracked = tracked or value.edge is not None
        return tuple(ids), tuple(arrays), args, tracked

    def _define(
        self, cursor: Cursor, entries: list[Entry], nth: int, op: Op, ids: tuple[int, ...],
        inputs: tuple[Any, ...], attrs: Attrs, state: State, data: tuple[Any, ...] = (),
    ) -> Entry:  # fmt: skip
        site: Site | None = None
        if nth >= len(entries) and not cursor.label:
            site = self.emitter.site(cursor, op.name, state)
            known, retell = site.again(ids, self.identity.by_value, self.emitter.unrolled())
            if known is not None:
                self.model_calls.note_long_loop(state)
                cursor.slots[op.name][0] = nth  # this call repeats a node, so it does not count
                if not retell:
                    return known
                nth = known.nth
        plain = attributes_of(op, inputs, attrs)
        known_specs = nth < len(entries)  # `reshape` corrects them once it has run
        spec = NodeSpec(
            op=op.name, family=op.family, role=op.role, writes=op.writes, inputs=ids,
            specs=() if known_specs else specs_of(op, inputs, attrs, data), attrs=plain,
            scope=cursor.scope, phase=cursor.phase, source=state.source or user_source(),
            forward=state.forward, label=cursor.label, device=cursor.device,
            control_inputs=cursor.control, origin=cursor.origin, graph=cursor.graph,
            loop=cursor.loop, call=cursor.call,
        )  # fmt: skip
        entry, values = self.identity.define(entries, nth, spec)
        try:
            if cursor.loop:
                self._note_loop(entry)
            if site is not None and entry.site is None:
                site.add(entry)
            if not known_specs:
                entry.loose = is_loose(op, inputs, attrs)
            if entry.node.attrs is plain:
                entry.given = given(inputs, attrs)
            if values is not None:
                self.emitter.tell(entry.node, values)
        except BaseException:
            entry.inputs = UNTOLD
            self.identity.changed = object()
            raise
        return entry

    def _note_loop(self, entry: Entry) -> None:
        self.has_loops = True
        if self.calls is not None:
            self.calls.note_loop(entry.outputs)

    # Leaves

    def leaf(self, tensor: Tensor) -> Any:
        """Emit a tensor that no observed op made, and return its value id."""
        if not self.emitter.marked:
            self.emitter.look(current())
        elif self.calls is not None and self.calls.read(tensor):
            return tensor._vid
        return self.read_leaf(tensor, 0)

    def read_leaf(self, tensor: Tensor, port: int) -> Any:
        """Like `leaf`, for the operand at a port."""
        emitter = self.emitter
        kind = getattr(tensor, "_kind", "tensor")
        scope, label, key = leaf_key(kind, getattr(tensor, "_name", ""))
        state = current()
        if kind == "parameter":
            known = self._read_before.get(id(tensor))
            if known is not None and known[0]() is tensor:
                if emitter.stepped:
                    self._read_before.pop(id(tensor), None)  # another thread may have read it, too
                self._read(tensor, known[1], state)
                return known[1].outputs[0]
            cursor = emitter.cursor_of(state, scope)
        else:
            token, home = emitter.token(state), state.cursor
            at_home = home is not None and (home.step is token or home.label)
            cursor = home if home is not None and at_home else emitter.cursor(state, token)
        if cursor.loop and not label:  # the next round may read other leaves, in another order
            key = f"{key}@{emitter.place()}:{port}"
        slot = cursor.slots.get(key) or cursor.slot(key)
        nth, entries = slot
        slot[0] = nth + 1
        entry: Entry | None = entries[nth] if nth < len(entries) else None
        site: Site | None = None
        if entry is None:
            site = emitter.site(cursor, key, state)
            entry, _ = site.again((), self.identity.by_value, emitter.unrolled())
            if entry is not None:
                slot[0] = nth  # this read repeats a node, so it does not count
        if entry is None or entry.inputs == UNTOLD:
            data = tensor.data
            node_spec = NodeSpec(
                op=kind, family="leaf", role=usual_role(kind, "leaf"), inputs=(), attrs={},
                specs=(TensorSpec(data.shape, data.dtype.name),), scope=cursor.scope,
                phase=cursor.phase, source=state.source or user_source(), label=label,
                loop=cursor.loop, call=cursor.call,
            )  # fmt: skip
            entry, values = self.identity.define(entries, nth, node_spec)
            try:
                if cursor.loop:
                    self._note_loop(entry)
                if site is not None and entry.site is None:
                    site.add(entry)
                if values is not None:
                    emitter.tell(entry.node, values)
            except BaseException:
                entry.inputs = UNTOLD
                raise
        if kind == "parameter" and not emitter.stepped:
            self._read_before[id(tensor)] = weakref.ref(tensor), entry
        elif self.calls is not None:
            note_read(self.reads, tensor, state, cursor, slot, entry, key)
        self._read(tensor, entry, state)
        return entry.outputs[0]

    def _read(self, tensor: Tensor, entry: Entry, state: State) -> None:
        """Emit that a leaf was read, and give the tensor its value id."""
        bus, step = self.bus, self.emitter.step
        start = _now() - bus.origin_ns
        if bus.demand.starts:
            bus.emit(NodeStarted(entry.node, (), step, state.thread, start))
        anew, tensor._vid = getattr(tensor, "_vid", 0) == ANEW, entry.outputs[0]
        if entry.loop or entry.recent:
            entry.recent = (id(tensor.data), *((-step,) if self.emitter.step_open else ()))
        data, spec = tensor.data, entry.values[0].spec
        if data.shape != spec.shape or dtype_name(data.dtype) != spec.dtype:
            self.reshape(entry, (data,))
        if (anew and (state.call or self.emitter.stepped)) or entry.node.role == "parameter":
            with self.emitter.lock:
                self.used.append((weakref.ref(tensor), entry))
                if not state.call:  # steps may never follow
                    self._many_used = without_old_reads(self.used, self._many_used)
        times, now = self.times(), _now() - bus.origin_ns
        if times is not None:
            times(entry.node.id, step, state.thread, start, now)
            return
        noted, node = self.outputs, entry.node
        if noted is not None and noted(node, node.id, step, state.thread, start, now, (), (data,)):
            return
        bus.emit(NodeFinished(node, (), (data,), step, state.thread, start, now))
        if bus.edits:
            self.take_edits((tensor,), state)

    # Gradients and updates

    def pair(self, tensor: Tensor, gradient: Tensor) -> None:
        """Report that ``gradient`` is the gradient of ``tensor``, if that is new."""
        base, value = self.base, getattr(tensor, "_vid", 0)
        if value <= base:
            return
        gradient_id = getattr(gradient, "_vid", 0)
        if gradient_id <= base:
            gradient_id = self.leaf(gradient)
        edits = self.emitter.gradient(value, gradient_id, gradient.data)
        if edits:
            self._take((gradient,), edits)

    def began(self, root: Tensor, site: Instruction) -> None:
        """Note that a backward pass began at a number, if a step is running."""
        emitter = self.emitter
        if emitter.step_open:
            emitter.losses.note(site, root.data, (emitter.observed and self.node_id(root)) or 0)
        elif not emitter.marked:
            emitter.loops.train(sys._getframe(1), sure=False)

    def node_id(self, tensor: Tensor) -> int | None:
        """The id of the node that made a tensor, if observed."""
        entry = self.identity.by_value.get(getattr(tensor, "_vid", 0))
        return None if entry is None else entry.node.id

    def backward(self) -> backward_phase:
        """Make the operations inside backward nodes."""
        return backward_phase(current(), self._place)

    def _place(self, tensor: Tensor | Bundle) -> tuple[str, int] | None:
        vid = tensor.ids[0] if isinstance(tensor, Bundle) else getattr(tensor, "_vid", 0)
        entry = self.identity.by_value.get(vid)
        return None if entry is None else (entry.node.scope, entry.node.id)

    def counted_calls(self) -> Any:
        """The native core's part if it may run a backward pass, else None.

        Outside of steps, the loop of a pass counts as a loop, which is known by its frame.
        """
        return self.calls if self.emitter.marked else None

    def optimizer(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Make the operations inside optimizer nodes under ``optimizer/<path>``."""
        if not self.emitter.marked:
            self.emitter.loops.train(sys._getframe(1), sure=True)
        return optimizer_phase(current(), path)
