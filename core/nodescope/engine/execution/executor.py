"""Executor: runs the calls of a plan, one after another.

Unobserved, they run on plain arrays. In `execute_observed`, every node goes through the tracer: it
is an event with its own scope, phase and source line, and the debugger can stop at it.

Invariant: both paths run the same impls on the same arrays in the same order.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nodescope import ops
from nodescope.engine.run import out_of_bounds
from nodescope.engine.state import State, current
from nodescope.engine.tensor import Tensor, alias, make
from nodescope.errors import NodescopeError
from nodescope.events import GraphExtended, NodeFinished, NodeStarted
from nodescope.ir.graph import Node, TensorSpec
from nodescope.ir.identity import Cursor, Entry, NodeSpec
from nodescope.ops.calls import Call, Scalar
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan

if TYPE_CHECKING:
    from nodescope.engine.tracer import Tracer

Before = Callable[[Call, list[Any]], list[Any]]
After = Callable[[Call, tuple[Any, ...]], None]
Around = Callable[[Call], contextlib.AbstractContextManager[Any]]
_NOTHING = contextlib.nullcontext()


class Effects:
    """Side effects of ops: reading and writing a session's variables, and so on.

    Attributes:
        before: By op name, returns the arguments that a call gets instead of its own.
        after: By op name, takes the outputs.
        around: A context for each call that has ``before``.
        instead: By op name, a function that runs instead of the op's impl.
    """

    def __init__(
        self,
        before: Mapping[str, Before] | None = None,
        after: Mapping[str, After] | None = None,
        around: Around = lambda call: _NOTHING,
        instead: Mapping[str, Callable[[Call, list[Any]], tuple[Any, ...]]] | None = None,
    ) -> None:
        self.instead = dict(instead or {})
        self.before = dict(before or {})
        self.after = dict(after or {})
        self.around = around


NO_EFFECTS = Effects()


def run_call(call: Call, args: list[Any], effects: Effects) -> tuple[Array, ...]:
    """One call's outputs.

    Raises:
        The op's exception: an error of nodescope with the line that made the node, any other with a
        note that names the node.
    """
    before = effects.before.get(call.node.op)
    try:
        if before is None:
            instead = effects.instead.get(call.node.op)
            if instead is not None:
                return instead(call, args)
            return _arrays(call.op.impl(*args, **call.attrs))
        with effects.around(call):
            data = call.op.impl(*before(call, args), **call.attrs)
            outputs = _arrays(data)
            after = effects.after.get(call.node.op)
            if after is not None:
                after(call, outputs)
            return outputs
    except Exception as error:
        raise located(call, error)  # noqa: B904 (the same error)


def located(call: Call, error: Exception) -> Exception:
    """The error with the name and the line of the node that failed."""
    if type(error) is IndexError:
        located_error = out_of_bounds(call.op, error, str(call.node.source or ""))
        located_error.__cause__ = error
        error = located_error
    if not getattr(error, "__notes__", None):
        place = f", made at {call.node.source}" if call.node.source else ""
        error.add_note(f"in the node {call.node.name!r}{place}")
        if isinstance(error, NodescopeError) and not error.source and call.node.source:
            error.source = str(call.node.source)
    return error


def _arrays(data: Any) -> tuple[Array, ...]:
    if data.__class__ is tuple:
        return tuple(map(np.asarray, data))
    return (data if data.__class__ is np.ndarray else np.asarray(data),)


def run_calls(
    plan: Plan,
    feeds: Sequence[Array],
    *,
    effects: Effects = NO_EFFECTS,
    measure: Callable[[int], None] | None = None,
) -> list[Array]:
    """Run a plan on arrays, with effects; see `Plan.run` for a plan without any.

    Args:
        plan: The plan to run.
        feeds: An array for each of ``plan.fed``.
        effects: Called around stateful ops.
        measure: Called with the peak bytes of results held at once.
    """
    values: dict[int, Any] = dict(plan.constants)
    values.update(zip(plan.fed, feeds, strict=True))
    fed = set(plan.fed)
    live_bytes = _Held(values.values()) if measure is not None else None
    for call in plan.calls:
        args = [
            argument.value if isinstance(argument, Scalar) else values.get(argument)
            for argument in call.args
        ]
        outputs = run_call(call, args, effects)
        del args
        for value, output in zip(call.node.outputs, outputs, strict=True):
            if value not in fed:
                values[value] = output
                if live_bytes is not None:
                    live_bytes.add(value, output)
        del outputs
        for dropped in call.drop:
            values.pop(dropped, None)
            if live_bytes is not None:
                live_bytes.drop(dropped)
    if measure is not None and live_bytes is not None:
        measure(live_bytes.peak)
    return [values[value] for value in plan.outputs]


class _Held:
    """Counts bytes of results: each buffer once, however many views of it are held."""

    def __init__(self, feeds: Iterable[Array]) -> None:
        self.peak = self._now = 0
        self._given = {id(_owner(feed)) for feed in feeds}
        self._users: dict[int, int] = {}
        self._buffer: dict[int, tuple[int, int]] = {}

    def add(self, value: int, array: Array) -> None:
        owner = _owner(array)
        key, size = id(owner), owner.nbytes
        if key in self._given:
            return
        self._buffer[value] = (key, size)
        if not self._users.get(key):
            self._now += size
            self.peak = max(self.peak, self._now)
        self._users[key] = self._users.get(key, 0) + 1

    def drop(self, value: int) -> None:
        key, size = self._buffer.pop(value, (0, 0))
        if not key:
            return
        self._users[key] -= 1
        if not self._users[key]:
            self._now -= size


def _owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def execute_observed(
    tracer: Tracer,
    plan: Plan,
    feeds: Sequence[Array | Tensor],
    *,
    key: str,
    gradients: Mapping[int, int] | None = None,
    effects: Effects = NO_EFFECTS,
) -> list[Tensor]:
    """Run a plan node by node under the tracer, on the calling thread.

    Each node of the graph is one node of the run, however often it runs and for any outputs.

    Args:
        tracer: The engine's observer: `dispatch_mode.observer()`.
        plan: The plan to run.
        feeds: A tensor or array for each of ``plan.fed``. A tensor that the tracer has seen keeps
            its node; everything else enters as a leaf of the graph.
        key: Identifies the graph in this process, so that other graphs' nodes are not taken for its
            own.
        gradients: Value ids with those of their gradients, to be reported to the tracer.
        effects: Called around stateful ops, with tensors.

    Returns:
        The outputs, as tensors without history.
    """
    state = current()
    saved = (state.scope, state.phase, state.cursor, state.forward, state.source, state.recording,
             state.cursors)  # fmt: skip
    run = _ObservedRun(tracer, plan, key, state)
    state.recording = False
    try:
        values = run.leaves(feeds)
        fed = set(plan.fed)
        whose = _by_gradient(gradients)
        for call in plan.calls:
            before = effects.before.get(call.node.op)
            args = [argument.value if isinstance(argument, Scalar) else values.get(argument)
                    for argument in call.args]  # fmt: skip
            inline = call.op.inline
            run.place(call.node, inside=inline is not None)
            with effects.around(call) if before is not None else _NOTHING:
                if before is not None:
                    args = before(call, args)
                result: Any = (
                    tracer.run(call.op, tuple(args), call.attrs)
                    if inline is None
                    else inline(tuple(args), call.attrs)
                )
                outputs = result if isinstance(result, tuple) else (result,)
                after = effects.after.get(call.node.op)
                if after is not None:
                    after(call, outputs)
            for value, output in zip(call.node.outputs, outputs, strict=True):
                if value not in fed:
                    values[value] = output
            if whose:
                run.pairs(call.node, values, whose)
            for dropped in call.drop:
                values.pop(dropped, None)
        return [values[value] for value in plan.outputs]
    finally:
        (state.scope, state.phase, state.cursor, state.forward, state.source,
         state.recording, state.cursors) = saved  # fmt: skip


class _ObservedRun:
    """One observed execution: the place of each node, and its leaves."""

    def __init__(self, tracer: Tracer, plan: Plan, key: str, state: State) -> None:
        self.tracer = tracer
        self.plan = plan
        self.key = key
        self.state = state

    def entries(self, node: Node) -> list[Entry]:
        key = f"{self.key}/{node.id}"
        return self.tracer.identity.entries(node.scope, key, node.phase)

    def place(self, node: Node, *, inside: bool = False) -> None:
        """Set the thread's place to that of the node, with a counter for the node alone.

        Args:
            inside: Whether the nodes of its bodies run instead of the node, in a scope of its name.
        """
        state, tracer = self.state, self.tracer
        cursor = Cursor(tracer.identity, node.scope, node.phase)
        cursor.step = tracer.epoch
        cursor.label = node.name.rpartition("/")[2] if node.scope else node.name
        cursor.slots[node.op] = [0, self.entries(node)]
        cursor.device, cursor.control = node.device, tuple(self._waits(node))
        state.cursor, state.scope, state.phase = cursor, node.scope, node.phase
        state.source, state.forward = node.source, None
        if inside:
            state.cursor, state.scope, state.cursors = None, node.name, {}
        if node.forward is not None:
            forward = self.plan.by_id.get(node.forward)
            known = self.entries(forward) if forward is not None else []
            state.forward = known[0].node.id if known else None

    def _waits(self, node: Node) -> Iterator[int]:
        """Ids, in this run, of the nodes that a node waits for."""
        for control in node.control_inputs:
            before = self.plan.by_id.get(control)
            known = self.entries(before) if before is not None else []
            if known:
                yield known[0].node.id

    def leaves(self, feeds: Sequence[Array | Tensor]) -> dict[int, Any]:
        """Tensors of constants and feeds by value id."""
        values: dict[int, Any] = {}
        for value, feed in zip(self.plan.fed, feeds, strict=True):
            if isinstance(feed, Tensor) and getattr(feed, "_vid", 0) > self.tracer.base:
                values[value] = alias(feed)
                continue
            array = feed.data if isinstance(feed, Tensor) else feed
            values[value] = self.leaf(self.plan.producer(value), array)
        for value, array in self.plan.constants.items():
            if value not in values:
                values[value] = self.leaf(self.plan.producer(value), array)
        return values

    def leaf(self, node: Node | None, array: Array) -> Tensor:
        """Emit a leaf of the graph, or a value fed in place of a node's output."""
        leaf_tensor = make(array)
        if node is None:
            self.tracer.leaf(leaf_tensor)
            return leaf_tensor
        tracer = self.tracer
        leaf = ops.get(node.op).is_leaf
        entries = self.entries(node) if leaf else tracer.identity.entries(
            node.scope, f"{self.key}/{node.id}/fed", node.phase
        )  # fmt: skip
        if entries:
            entry = entries[0]
        else:
            spec = NodeSpec(
                op=node.op if leaf else "placeholder", family="leaf", inputs=(),
                role=node.role if leaf else "input",
                specs=(TensorSpec(array.shape, array.dtype.name),), attrs={}, scope=node.scope,
                phase=node.phase, source=node.source, label=node.name.rpartition("/")[2],
                device=node.device,
            )  # fmt: skip
            entry, values = tracer.identity.define(entries, 0, spec)
            if values is not None:
                version = tracer.identity.version
                tracer.bus.emit(GraphExtended((entry.node,), values, version))
        bus, thread = tracer.bus, self.state.thread
        start = time.perf_counter_ns() - bus.origin_ns
        if bus.demand.starts:
            bus.emit(NodeStarted(entry.node, (), tracer.step, thread, start))
        leaf_tensor._vid = entry.outputs[0]
        end = time.perf_counter_ns() - bus.origin_ns
        bus.emit(NodeFinished(entry.node, (), (array,), tracer.step, thread, start, end))
        if bus.edits:
            tracer.take_edits((leaf_tensor,), self.state)
        return leaf_tensor

    def pairs(
        self, node: Node, values: Mapping[int, Any], gradients: Mapping[int, Sequence[int]]
    ) -> None:
        """Report gradients that have just been computed to the tracer."""
        for gradient in node.outputs:
            for value in gradients.get(gradient, ()):
                of = self._known(value, values)
                if of is not None:
                    self.tracer.pair(of, values[gradient])

    def _known(self, value: int, values: Mapping[int, Any]) -> Tensor | None:
        """A tensor with the run's id of a value, which may have been released already."""
        known_tensor: Tensor | None = values.get(value)
        if known_tensor is not None:
            return known_tensor
        node = self.plan.producer(value)
        known = self.entries(node) if node is not None else []
        if node is None or not known:
            return None
        stand_in = Tensor.__new__(Tensor)
        stand_in._vid = known[0].outputs[node.outputs.index(value)]
        return stand_in


def _by_gradient(gradients: Mapping[int, int] | None) -> dict[int, list[int]]:
    values_by_gradient: dict[int, list[int]] = {}
    for value, gradient in (gradients or {}).items():
        values_by_gradient.setdefault(gradient, []).append(value)
    return values_by_gradient
