"""Tracer: turns what the engine runs into events.

Value ids stand on the tensors (`Tensor._vid`); they only grow over the life of the process, so an
id from an earlier observation is recognised by being too small, and its tensor enters as a leaf.

Invariant: the observed road calls the same impls on the same arrays in the same order.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from nodescope.engine import modes
from nodescope.engine.observed import observed_operator
from nodescope.engine.phases import backward_phase, optimizer_phase
from nodescope.engine.run import cause, explained, several
from nodescope.engine.source import call_site, calling_line, user_source
from nodescope.engine.state import State, current
from nodescope.engine.tensor import SMOOTH, Attrs, Bundle, Tensor, Written, next_seq, settled
from nodescope.errors import UsageError
from nodescope.events import (
    Bus,
    GradientComputed,
    GradientReached,
    GraphExtended,
    HostSpan,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import TensorSpec
from nodescope.ir.identity import LOOPED, UNROLLED, Cursor, Entry, Identity, Site
from nodescope.ops.index import Port
from nodescope.ops.op import Op, port_name

# Fetching an item is told of from here on.
LEAST_FETCH_NS = 50_000

_value_ids = itertools.count(1)
_now = time.perf_counter_ns
_new = Tensor.__new__
_ndarray = np.ndarray
_asarray = np.asarray


def observe(bus: Bus) -> None:
    """Send events of everything that the engine does from now on to ``bus``.

    Raises:
        UsageError: A bus is observing already.
    """
    if modes.attending() is not None:
        raise UsageError("the engine is observed already", hint="call unobserve() first")
    modes.set_observer(Tracer(bus))


def unobserve() -> None:
    """Stop observing; a step that is open ends. Without an observer, nothing happens."""
    tracer = modes.attending()
    if tracer is not None:
        modes.set_observer(None)
        tracer.finish_step()


class Tracer:
    """One observation of the engine.

    Args:
        bus: Where events go.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.base = next(_value_ids)
        self.identity = Identity(_value_ids.__next__)
        self.step = 0
        self.epoch = object()  # of this step: a cursor that holds another counts from zero
        self._step_open = False
        self._observed = True  # this step
        self._lock = threading.RLock()  # a signal handler may compute here, too
        # Parameters that were read in this step; which of them stay alive is the program's affair.
        self._used: list[tuple[weakref.ref[Tensor], Entry]] = []
        self._pairs: dict[int, int] = {}
        self.graph_id = itertools.count(1).__next__
        """Gives ids of captured graphs."""

    # Steps

    def start_step(self) -> None:
        """Begin the next step, ending the one before. It may be left out: see `Bus.leaves_out`."""
        self.finish_step()
        bus = self.bus
        self._observed = not bus.leave_out(self.step + 1)
        with self._lock:
            if self._observed:
                for found, _ in self._used:
                    parameter = found()
                    if parameter is not None:
                        parameter._vid = 0
                self._used = []
                self.epoch = object()
            self.step += 1
            self._step_open = True
        if self._observed:
            modes.wake()
        else:
            modes.rest()
        bus.emit(StepStarted(self.step, bus.now_ns(), self._observed))

    def fetched(self, asked_ns: int) -> None:
        """Emit that the item of the next step was waited for, unless it was there at once."""
        bus = self.bus
        now = _now()
        if now - asked_ns < LEAST_FETCH_NS:
            return
        file, line, function = calling_line()
        start = max(asked_ns - bus.origin_ns, 0)
        bus.emit(
            HostSpan("data", current().thread, self.step + 1, start, now - bus.origin_ns,
                     file, line, function)
        )  # fmt: skip

    def finish_step(self) -> None:
        """End the step that is open, if any."""
        if self._step_open:
            self._step_open = False
            self.bus.emit(StepFinished(self.step, self.bus.now_ns(), self._observed))

    def end_of_steps(self, *, broken: bool) -> None:
        """No step follows for now: what runs is observed again, if the last step was left out.

        Calls are counted on from the last step that was observed, as if it had been this one, and
        the parameters that it read are read again.

        Args:
            broken: The last step was not gone through to its end.
        """
        self.bus.leave_out(-1 if broken else 0)
        if self._observed:
            return
        self._observed = True
        with self._lock:
            used, self._used = self._used, []
        modes.wake()
        state = current()
        for found, entry in used:
            parameter = found()
            if parameter is not None:
                self._read(parameter, entry, state)

    # Ops

    def run(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Tensor:
        """Run an op and emit what it did. Raises what its impl raises."""
        state = current()
        if state.builder is not None:
            return state.builder.run(op, inputs, attrs)  # type: ignore[no-any-return]
        key, live, args, tracked = self._inputs(inputs)
        if key is None:
            return self.run(op, tuple(map(settled, inputs)), attrs)
        cursor = state.cursor
        if cursor is None or cursor.step is not self.epoch:
            cursor = self._enter(state)
        slot = cursor.slots.get(op.name) or cursor.slot(op.name)
        nth: int = slot[0]
        slot[0] = nth + 1
        step = self.step  # another thread may begin the next one meanwhile
        entries: list[Entry] = slot[1]
        entry: Entry | None = None
        if nth < len(entries):
            entry = entries[nth]
            if entry.inputs != key:
                entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state)
        elif self.bus.starts:
            # Whoever may stop before a node has to know it. Its spec comes from `infer`.
            entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state)
        bus = self.bus
        origin = bus.origin_ns
        if bus.starts and entry is not None:
            bus.emit(NodeStarted(entry.node, live, step, state.thread, _now() - origin))
            if bus.edits:
                self.take_edits(inputs, state)
                _, live, args, _ = self._inputs(inputs)
        start = _now()
        try:
            data = op.impl(*args, **attrs) if attrs else op.impl(*args)
        except Exception as error:
            said = explained(op, inputs, attrs, error)
            if entry is None:
                entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state)
            self.failed(entry, live, step, state, start, said)
            raise said from cause(error)
        end = _now()
        if state.ran is not None:
            (start, end), state.ran = state.ran, None
        if data.__class__ is tuple:
            arrays = tuple(map(_asarray, data))
        else:
            arrays = (data if data.__class__ is _ndarray else _asarray(data),)
        if entry is None:
            entry = self._define(cursor, entries, nth, op, key, inputs, attrs, state, arrays)
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
        if attrs or len(live) != len(inputs):
            given = entry.given
            if given is None or given[0] != attrs or given[1] != _scalars(inputs):
                own = plain_attrs(op, inputs, attrs)
        bus.emit(
            NodeFinished(
                entry.node, live, arrays, step, state.thread, start - origin, end - origin,
                own,
            )
        )  # fmt: skip
        if bus.edits:
            self.take_edits((*(result if data.__class__ is tuple else (result,)), *inputs), state)
        return result  # type: ignore[no-any-return]

    def take_edits(self, tensors: Iterable[Any], state: State) -> None:
        """Take up what was edited while this thread stood: these tensors are others from now on.

        Of several that have one id, as in ``x = np.sin(x)``, the first is: what was made last.
        """
        mine = self.bus.edits.pop(state.thread, {})
        for each in tensors if mine else ():
            if each.__class__ is Tensor:
                array = mine.pop(getattr(each, "_vid", 0), None)
                if array is not None:
                    each.data = array

    def operator(self, op: Op) -> Callable[[Tensor, Any], Tensor]:
        """The operator method of a binary op while this observes."""
        return observed_operator(self, op)

    def failed(
        self, entry: Entry, live: tuple[Any, ...], step: int, state: State, start: int,
        error: Exception,
    ) -> None:  # fmt: skip
        """Emit that a node raised."""
        text = f"{type(error).__name__}: {error}"
        start -= self.bus.origin_ns
        self.bus.emit(NodeFailed(entry.node, live, step, state.thread, start, text))

    def _inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, Any, Any, bool]:
        """Value ids and arrays of the tensors, arguments of the impl, whether one has an edge.

        No ids at all if a tensor was written to: what it is now has to take its place.
        """
        base = self.base
        if len(inputs) == 2:  # most ops, unrolled
            a, b = inputs
            try:
                one, two = a._vid, b._vid
            except AttributeError:
                one = two = 0
            if one > base and two > base:
                live = (a.data, b.data)
                return (one, two), live, live, a.edge is not None or b.edge is not None
        arrays: list[Any] = []
        ids: list[int] = []
        args: list[Any] = []
        tracked = False
        for each in inputs:
            if each.__class__ is not Tensor:
                if each.__class__ is Written:
                    return None, None, None, False
                args.append(each)
                continue
            try:
                vid = each._vid
            except AttributeError:
                vid = 0
            ids.append(vid if vid > base else self.leaf(each))
            arrays.append(each.data)
            args.append(each.data)
            tracked = tracked or each.edge is not None
        return tuple(ids), tuple(arrays), args, tracked

    def _enter(self, state: State) -> Cursor:
        key = (state.scope, state.phase)
        cursor = state.cursors.get(key)
        if cursor is None or cursor.owner is not self.identity:
            cursor = state.cursors[key] = Cursor(self.identity, state.scope, state.phase)
        if cursor.step is not self.epoch:
            cursor.restart(self.epoch)
        state.cursor = cursor
        return cursor

    def _define(
        self,
        cursor: Cursor,
        entries: list[Entry],
        nth: int,
        op: Op,
        ids: tuple[int, ...],
        inputs: tuple[Any, ...],
        attrs: Attrs,
        state: State,
        data: tuple[Any, ...] = (),
    ) -> Entry:
        site: Site | None = None
        if nth >= len(entries) and not cursor.label:
            site = self._site(cursor, op.name, state)
            known, retell = site.again(ids, self.identity.by_value, self._unrolled())
            if known is not None:
                cursor.slots[op.name][0] = nth  # it is no further one
                if not retell:
                    return known
                nth = known.nth
        plain = plain_attrs(op, inputs, attrs)
        entry, values = self.identity.define(
            entries,
            nth,
            op=op.name,
            family=op.family,
            inputs=ids,
            specs=_specs(op, inputs, attrs, data),
            attrs=plain,
            scope=cursor.scope,
            phase=cursor.phase,
            source=state.source or user_source(),
            forward=state.forward,
            label=cursor.label,
            device=cursor.device,
            control_inputs=cursor.control,
            origin=cursor.origin,
            graph=cursor.graph,
        )
        if site is not None and entry.site is None:
            site.add(entry)
        if entry.node.attrs is plain:
            entry.given = (attrs, _scalars(inputs))
        if values is not None:
            self.bus.emit(GraphExtended((entry.node,), values, self.identity.version))
        return entry

    def _site(self, cursor: Cursor, key: str, state: State) -> Site:
        """The call site that the thread is at; of a backward node, with what it differentiates."""
        where = (call_site(), state.forward)
        return self.identity.site(cursor.scope, key, cursor.phase, where)

    def _unrolled(self) -> int:
        """How many nodes of one call site are no loop."""
        return UNROLLED if self._step_open else LOOPED

    # Leaves

    def leaf(self, tensor: Tensor) -> Any:
        """Emit a tensor that no observed op made, and return its value id."""
        kind = getattr(tensor, "_kind", "tensor")
        scope, _, label = tensor.name.rpartition("/")
        state = current()
        if kind == "parameter":
            cursor = self._cursor(state, scope)
        else:
            found = state.cursor
            cursor = self._enter(state) if found is None or found.step is not self.epoch else found
        key = f"{kind}:{label}" if label else kind
        slot = cursor.slots.get(key) or cursor.slot(key)
        nth, entries = slot
        slot[0] = nth + 1
        entry: Entry | None = None
        site: Site | None = None
        if nth < len(entries):
            entry = entries[nth]
        else:
            site = self._site(cursor, key, state)
            entry, _ = site.again((), self.identity.by_value, self._unrolled())
            if entry is not None:
                slot[0] = nth  # it is no further one
        if entry is None:
            data = tensor.data
            entry, values = self.identity.define(
                entries,
                nth,
                op=kind,
                family="leaf",
                inputs=(),
                specs=(TensorSpec(data.shape, data.dtype.name),),
                attrs={},
                scope=cursor.scope,
                phase=cursor.phase,
                source=state.source or user_source(),
                label=label,
            )
            if site is not None and entry.site is None:
                site.add(entry)
            if values is not None:
                self.bus.emit(GraphExtended((entry.node,), values, self.identity.version))
        self._read(tensor, entry, state)
        return entry.outputs[0]

    def _read(self, tensor: Tensor, entry: Entry, state: State) -> None:
        """Emit that a leaf was read, and let the tensor be its value."""
        bus, step = self.bus, self.step
        start = _now() - bus.origin_ns
        if bus.starts:
            bus.emit(NodeStarted(entry.node, (), step, state.thread, start))
        tensor._vid = entry.outputs[0]
        if entry.node.op == "parameter":
            with self._lock:
                self._used.append((weakref.ref(tensor), entry))
        now = _now() - bus.origin_ns
        bus.emit(NodeFinished(entry.node, (), (tensor.data,), step, state.thread, start, now))
        if bus.edits:
            self.take_edits((tensor,), state)

    def _cursor(self, state: State, scope: str) -> Cursor:
        """The count of a scope that the thread need not be in; phases stay what they are."""
        phase = "optimizer" if scope.startswith("optimizer/") else "forward"
        key = (scope, phase)
        cursor = state.cursors.get(key)  # type: ignore[arg-type]
        if cursor is None or cursor.owner is not self.identity:
            cursor = Cursor(self.identity, scope, phase)  # type: ignore[arg-type]
            state.cursors[key] = cursor  # type: ignore[index]
        if cursor.step is not self.epoch:
            cursor.restart(self.epoch)
        return cursor

    # Gradients and updates

    def pair(self, tensor: Tensor, gradient: Tensor) -> None:
        """Say that ``gradient`` is the gradient of ``tensor``, if that is news."""
        base = self.base
        value = getattr(tensor, "_vid", 0)
        if value <= base:
            return
        found = getattr(gradient, "_vid", 0)
        if found <= base:
            found = self.leaf(gradient)
        if self._pairs.get(value) != found:
            self._pairs[value] = found
            self.bus.emit(GradientComputed(value, found))
        bus = self.bus
        if bus.gradients:
            thread = current().thread
            bus.emit(GradientReached(value, found, gradient.data, self.step, thread, bus.now_ns()))

    def node_id(self, tensor: Tensor) -> int | None:
        """The id of the node that made a tensor, if it was observed."""
        entry = self.identity.by_value.get(getattr(tensor, "_vid", 0))
        return None if entry is None else entry.node.id

    @contextlib.contextmanager
    def backward(self) -> Iterator[Callable[[Any], None]]:
        """Make what runs inside backward nodes.

        Yields:
            To be called with the forward tensor before its rules run.
        """
        by_value = self.identity.by_value

        def place(tensor: Tensor | Bundle) -> tuple[str, int] | None:
            vid = tensor.ids[0] if isinstance(tensor, Bundle) else getattr(tensor, "_vid", 0)
            entry = by_value.get(vid)
            return None if entry is None else (entry.node.scope, entry.node.id)

        with backward_phase(current(), place) as differentiate:
            yield differentiate

    def optimizer(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Make what runs inside optimizer nodes under ``optimizer/<path>``."""
        return optimizer_phase(current(), path)


def _specs(
    op: Op, inputs: tuple[Any, ...], attrs: Attrs, data: tuple[Any, ...]
) -> tuple[TensorSpec, ...]:
    if data:
        return tuple(TensorSpec(each.shape, each.dtype.name) for each in data)
    specs = tuple(
        TensorSpec(each.data.shape, each.data.dtype.name) if each.__class__ is Tensor else each
        for each in inputs
    )
    try:
        found = op.infer(specs, attrs)
        return found if isinstance(found, tuple) else (found,)
    except (
        Exception
    ):  # it will fail, or its shape depends on values; the node is needed all the same
        first = specs[0] if specs and isinstance(specs[0], TensorSpec) else None
        return (TensorSpec((), first.dtype if first else "float64"),) * max(op.outputs, 1)


def _scalars(inputs: tuple[Any, ...]) -> list[Any]:
    """Operands that are no tensors, each with its class: 1 is not 1.0."""
    return [(each.__class__, each) for each in inputs if each.__class__ is not Tensor]


def plain_attrs(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> dict[str, Any]:
    """An op's attributes and scalar operands as JSON-like data."""
    found = {
        port_name(op, port): each
        for port, each in enumerate(inputs)
        if each.__class__ is not Tensor
    }
    found.update((name, _plain(value, name)) for name, value in attrs.items())
    return found


def _plain(value: Any, name: str) -> Any:
    if name == "index":
        return ", ".join(_index_text(each) for each in value)
    if isinstance(value, tuple | list):
        return [_plain(each, "") for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _index_text(item: Any) -> str:
    if isinstance(item, Port):
        return repr(item)
    if isinstance(item, slice):
        ends = [str(each) if each is not None else "" for each in (item.start, item.stop)]
        return ":".join([*ends, str(item.step)] if item.step is not None else ends)
    return "..." if item is Ellipsis else str(item)
