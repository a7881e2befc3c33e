"""Observed run of a compiled graph, kernel by kernel.

Each node of the compiled graph runs the same machine code as in an unobserved run, on its own
memory, and is recorded as an event. An open kernel first runs node by node on its real inputs, for
inspection only: its result is always what the kernel computes.

Invariant: the results are bit-identical to those of the unobserved compiled run.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine.codegen.backend import Kernel, Runner, took
from nodescope.engine.crosscheck.active import cross_check
from nodescope.engine.execution.elsewhere import RemoteRunner
from nodescope.engine.execution.node_by_node import place
from nodescope.engine.stale_values import forget_results, forget_rounds, tensors_in
from nodescope.engine.state import State, current
from nodescope.engine.static.lowering import Lowering
from nodescope.engine.static.observed_elsewhere import may_stop, ran_at, together
from nodescope.engine.static.report import costs_of
from nodescope.engine.tensor import Tensor, alias, make
from nodescope.events import NodeFinished
from nodescope.ir.graph import Graph, Node, TensorSpec
from nodescope.ir.identity import LOOPED, Cursor, Entry
from nodescope.ir.scopes import join
from nodescope.ops.calls import Call, Scalar, call_of
from nodescope.ops.op import Op
from nodescope.passes.compile_events import events_of
from nodescope.passes.cost import node_work

if TYPE_CHECKING:
    from nodescope.engine.tracer import Tracer

_uses = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Step:
    """One node of the compiled graph, prepared to run under the tracer.

    Attributes:
        op: Its op with the kernel in place of the impl.
        attrs: The attributes shown.
        drop: Values that are no longer needed afterwards.
    """

    node: Node
    call: Call
    op: Op
    attrs: dict[str, Any]
    drop: tuple[int, ...]


class Watched:
    """A compiled graph as observed; made once per lowering.

    Args:
        lowering: The lowering, with its runner.
        gradients: Traced value ids, with those of their gradients; ids not in the graph are
            ignored.
        forward: The observed graph of the function, if this is its derivative.
    """

    def __init__(
        self, lowering: Lowering, gradients: Mapping[int, int], forward: Watched | None = None
    ) -> None:
        assert lowering.lowered is not None
        assert lowering.runner is not None
        self.lowering, self.graph = lowering, lowering.lowered.graph
        self.key = f"compiled{next(_uses)}"
        self.steps = tuple(_steps(self.graph, lowering.runner))
        runner = lowering.runner
        self.elsewhere = runner if isinstance(runner, RemoteRunner) else None
        self.ops = frozenset(step.node.op for step in self.steps)
        self.constants = lowering.lowered.arrays
        self.by_id = {node.id: node for node in self.graph.nodes}
        self.producers = {value: node for node in self.graph.nodes for value in node.outputs}
        replacement_of = lowering.lowered.provenance.value
        self.gradients: dict[int, list[int]] = {}
        for value, gradient in gradients.items():
            now = replacement_of(gradient)
            of = replacement_of(value)
            if now is not None and of is not None:
                self.gradients.setdefault(now, []).append(of)
        self.forward = forward
        self.entered: dict[str, tuple[tuple[int, ...], tuple[Entry, ...]]] = {}
        """For each key of a call: the ids of its inputs, and the entries of the nodes that ran."""
        self.latest: tuple[str, str] | None = None
        """Key and scope of the last call."""
        self._reported: tuple[weakref.ref[Tracer] | None, int] = (None, 0)
        self._calls: tuple[Any, int] = (None, 0)
        # Outside of steps: numbers of the calls of a run, by the ids of their inputs; and the
        # latest results, by the key of their call.
        self._numbers: tuple[weakref.ref[Tracer] | None, dict[Hashable, int]] = (None, {})
        self._results: dict[str, list[weakref.ref[Tensor]]] = {}

    def run(self, tracer: Tracer, feeds: Sequence[Any]) -> list[Any]:
        """Run the graph; return its outputs as tensors that the tracer knows, without history.

        Args:
            tracer: The engine's tracer.
            feeds: For each input of the graph a tensor, or a Python float.
        """
        run = _Run(self, tracer, current())
        results = run.run(feeds)
        check = cross_check()
        if check is not None:
            arrays = [feed.data if feed.__class__ is Tensor else feed for feed in feeds]
            seen = [result.data for result in results]
            check.call(self.lowering, run.graph, tracer.step, arrays, seen)
        return results

    def key_of(self, tracer: Tracer, inputs: tuple[int, ...], *, taped: bool) -> str:
        """The key of a call: calls with different keys have nodes of their own.

        In a step or a model call, that is each call. Elsewhere, a program may call the function
        without end: there are nodes for a limited number of calls, and later ones have those of the
        last one, redefined. A call with the inputs of an earlier one executes the nodes of that one
        again.

        Args:
            tracer: Who observes the call.
            inputs: The ids of its inputs.
            taped: Whether its results have gradients, which may differ although the inputs do not.
        """
        emitter, call = tracer.emitter, current().call
        key = f"{self.key}@{call}" if call else self.key
        if emitter.step_open or call:
            epoch, nth = self._calls
            nth = nth + 1 if epoch is tracer.epoch else 0
            if call and nth == LOOPED:
                nth -= 1
                tracer.model_calls.note_long_loop(current())
            self._calls = tracer.epoch, nth
        else:
            key += "@outside" * emitter.stepped
            run, numbers = self._numbers
            if run is None or run() is not tracer:
                numbers = {}
                self._numbers = weakref.ref(tracer), numbers
            known: Hashable = len(numbers) if taped else inputs
            nth = min(numbers.get(known, len(numbers)), LOOPED - 1)
            if len(numbers) < LOOPED:
                numbers[known] = nth
        return f"{key}:{nth}" if nth else key

    def note_result(self, tracer: Tracer, computed: Sequence[int], result: Any) -> None:
        """Note the result of a call outside of steps; that of the last one with the same key is
        forgotten, as its nodes have run again.

        Args:
            tracer: Who observed the call.
            computed: The ids of the values that the call has computed.
            result: What it returned.
        """
        if tracer.emitter.step_open or self.latest is None:
            return
        key, _ = self.latest
        results = [(getattr(tensor, "_vid", 0), tensor) for tensor in tensors_in(result)]
        now = {value: tensor for value, tensor in results if value in computed}
        forget_results(self._results.get(key, ()), now)
        self._results[key] = [*map(weakref.ref, now.values())]

    def report_compilation(self, tracer: Tracer) -> int:
        """Report once what was compiled; return the run's id of the compiled graph."""
        known, graph = self._reported
        if known is None or known() is not tracer:
            lowering = self.lowering
            assert lowering.lowered is not None
            start = time.perf_counter_ns()
            graph_ids: list[int] = []

            def new_id() -> int:
                graph_ids.append(tracer.graph_id())
                return graph_ids[-1]

            for event in events_of(
                lowering.lowered, lowering.name, new_id, backend=lowering.backend,
                fallback=lowering.reason, costs=costs_of(lowering.lowered),
                memory=lowering.memory(),
                compile_ns=lowering.lower_ns + lowering.build_ns,
            ):  # fmt: skip
                tracer.bus.emit(event)
            graph = graph_ids[-1]
            lowering.tell(start, " (its graph is recorded)")
            self._reported = (weakref.ref(tracer), graph)
        return graph

    def entries(self, node: Node, tracer: Tracer, key: str, base: str) -> list[Entry]:
        """The entries of a node in a run, in the call with that key and scope."""
        return tracer.identity.entries(place(node, base), f"{key}/{node.id}", node.phase)

    def stands_for(self, traced: int, tracer: Tracer, key: str, base: str) -> int | None:
        """The id, in a run, of the node that does the work of a traced node in a call."""
        assert self.lowering.lowered is not None
        fate = self.lowering.lowered.provenance.fates.get(traced)
        for node_id in () if fate is None else fate.into:
            known = self.entries(self.by_id[node_id], tracer, key, base)
            if known:
                return known[0].node.id
        before = self.forward
        if before is None or before.latest is None:
            return None
        return before.stands_for(traced, tracer, *before.latest)


def watched_of(
    lowering: Lowering, gradients: Mapping[int, int], forward: Lowering | None = None
) -> Watched | None:
    """The compiled graph of a lowering as observed; None if the lowering runs as traced."""
    if lowering.watched is None:
        if lowering.ready() is not None:
            before = None if forward is None else forward.watched
            lowering.watched = Watched(lowering, gradients, before)
        elif (check := cross_check()) is not None and lowering.given_up:
            tracer = dispatch_mode.attending()
            check.failed(lowering, 0 if tracer is None else tracer.step)
    observed: Watched | None = lowering.watched
    return observed


def runs_as_traced(lowering: Lowering, error: BaseException, feeds: Sequence[Any]) -> bool:
    """Whether an error of an observed call is the compiler's fault; if so, the lowering runs as
    traced from now on.
    """
    runner = lowering.runner
    if not lowering.gives_up(error, feeds):
        return False
    check = cross_check()
    if check is not None and runner is not None:
        tracer = dispatch_mode.attending()
        check.raised(lowering, runner, 0 if tracer is None else tracer.step, feeds)
    return True


def _steps(graph: Graph, runner: Runner) -> Iterator[_Step]:
    calls = [call_of(node) for node in graph.nodes if not ops.get(node.op).is_leaf]
    last: dict[int, int] = {}
    for i, call in enumerate(calls):
        for value in (*call.node.inputs, *call.node.outputs):
            last[value] = i
    ends: dict[int, list[int]] = {}
    for value, i in last.items():
        if value not in graph.outputs:
            ends.setdefault(i, []).append(value)
    specs = {value.id: value.tensor for value in graph.values}
    for i, call in enumerate(calls):
        node = call.node
        output_specs = tuple(specs[value] for value in node.outputs)
        op = dataclasses.replace(
            call.op, impl=_impl(call, runner.kernels[node.id]), vjp=None, inline=None,
            infer=_constantly(output_specs if call.op.outputs != 1 else output_specs[0]),
        )  # fmt: skip
        yield _Step(node, call, op, shown(node, call.attrs, specs), tuple(ends.get(i, ())))


def shown(node: Node, attrs: Mapping[str, Any], specs: Mapping[int, TensorSpec]) -> dict[str, Any]:
    """The attributes shown for a node: for a kernel, the nodes that it covers, and their flops."""
    if node.op != "fused":
        return dict(attrs)
    body: Graph = attrs["body"]
    covers, flops = [n.name for n in body.nodes], node_work(node, specs).flops
    return {"pattern": attrs["pattern"], "covers": covers, "flops": flops}


def _constantly(inferred: Any) -> Any:
    return lambda specs, attrs: inferred


def _impl(call: Call, kernel: Kernel) -> Any:
    ports = [i for i, argument in enumerate(call.args) if not isinstance(argument, Scalar)]
    several = call.op.outputs != 1
    plain = len(ports) == len(call.args)

    def impl(*args: Any, **attrs: Any) -> Any:
        took.span = None
        result = kernel(*args) if plain else kernel(*[args[i] for i in ports])
        current().ran = took.span
        return result if several else result[0]

    return impl


class _Run:
    """One observed call."""

    def __init__(self, watched: Watched, tracer: Tracer, state: State) -> None:
        self.watched, self.tracer, self.state = watched, tracer, state
        self.key, self.base = watched.key, state.scope
        self.graph = watched.report_compilation(tracer)

    def run(self, feeds: Sequence[Any]) -> list[Any]:
        state, tracer, watched = self.state, self.tracer, self.watched
        saved = (state.scope, state.phase, state.cursor, state.forward, state.source,
                 state.recording, state.cursors)  # fmt: skip
        state.recording = False
        try:
            if tracer.has_loops:
                forget_rounds(feeds, tracer.base, tracer.identity.by_value)
            values = self._leaves(feeds)
            input_ids = tuple(getattr(values[value], "_vid", 0) for value in watched.graph.inputs)
            taped = saved[5] and any(getattr(feed, "edge", None) is not None for feed in feeds)
            self.key = watched.key_of(tracer, input_ids, taped=taped)
            watched.latest = self.key, self.base
            known = watched.entered.get(self.key)
            demand = tracer.bus.demand
            seen = demand.arrays or demand.starts or demand.opened
            if known and known[0] == input_ids:
                if watched.elsewhere is not None:
                    results = self._together(watched.elsewhere, known[1], values)
                else:
                    results = None if seen else self._timed(known[1], values)
                if results is not None:
                    return results
            for step in watched.steps:
                args = tuple(argument.value if isinstance(argument, Scalar) else values[argument]
                             for argument in step.call.args)  # fmt: skip
                if self._opened(step):
                    self._open(step, args)
                self._place(step.node)
                result: Any = tracer.run(step.op, args, step.attrs)
                if watched.elsewhere is not None:
                    lane = watched.elsewhere.lane_of(step.node.id)
                    ran_at(tracer, lane, self._entries(step.node)[0].node.id, took.span)
                outputs = result if result.__class__ is tuple else (result,)
                for value, output in zip(step.node.outputs, outputs, strict=True):
                    values[value] = output
                    for of in watched.gradients.get(value, ()):
                        self._pair(of, output, values)
                for dropped in step.drop:
                    values.pop(dropped, None)
            ran = tuple(self._entries(step.node)[0] for step in watched.steps)
            watched.entered[self.key] = (input_ids, ran)
            return [values[value] for value in watched.graph.outputs]
        finally:
            (state.scope, state.phase, state.cursor, state.forward, state.source,
             state.recording, state.cursors) = saved  # fmt: skip

    def _timed(self, entries: Sequence[Entry], values: Mapping[int, Any]) -> list[Any] | None:
        """Run all nodes in one call, and report only their times; for runs whose values nobody
        observes.

        Returns None if a node fails: a run node by node then shows which, and at which line.
        """
        watched, tracer, bus = self.watched, self.tracer, self.tracer.bus
        runner = watched.lowering.runner
        assert runner is not None
        stamps = np.zeros(2 * len(entries), np.int64)
        feeds = [
            timed_step.data if (timed_step := values[value]).__class__ is Tensor else timed_step
            for value in watched.graph.inputs
        ]
        try:
            arrays = runner.run_timed(feeds, stamps)
        except Exception:
            return None
        times = (stamps - bus.origin_ns).tolist()
        step, thread, note = tracer.step, self.state.thread, tracer.times()
        ids: dict[int, int] = {}
        for i, (timed_step, entry) in enumerate(zip(watched.steps, entries, strict=True)):
            ids.update(zip(timed_step.node.outputs, entry.outputs, strict=True))
            start, end = times[2 * i], times[2 * i + 1]
            if note is not None:
                note(entry.node.id, step, thread, start, end)
            else:
                bus.emit(NodeFinished(entry.node, (), (), step, thread, start, end))
        return self._outputs(arrays, ids, values)

    def _together(
        self, runner: RemoteRunner, entries: Sequence[Entry], values: Mapping[int, Any]
    ) -> list[Any] | None:
        """Run all nodes at once in other processes, unless the program may stop in the graph."""
        watched, tracer = self.watched, self.tracer
        if may_stop(tracer.bus.demand, watched.ops):
            return None
        by_node = {step.node.id: entry for step, entry in zip(watched.steps, entries, strict=True)}
        arrays = together(runner, watched.graph, watched.constants, tracer, self.state, by_node,
                          values)  # fmt: skip
        if arrays is None:
            return None
        ids = {
            value: out
            for step, entry in zip(watched.steps, entries, strict=True)
            for value, out in zip(step.node.outputs, entry.outputs, strict=True)
        }
        return self._outputs(arrays, ids, values)

    def _outputs(
        self, arrays: Sequence[Any], ids: Mapping[int, int], values: Mapping[int, Any]
    ) -> list[Any]:
        """The outputs as tensors that the tracer knows."""
        outputs: list[Any] = []
        for value, array in zip(self.watched.graph.outputs, arrays, strict=True):
            tensor = make(array)
            tensor._vid = ids.get(value) or values[value]._vid
            outputs.append(tensor)
        return outputs

    # Taking the place of a node

    def _entries(self, node: Node) -> list[Entry]:
        return self.watched.entries(node, self.tracer, self.key, self.base)

    def _place(self, node: Node) -> None:
        state, tracer, watched = self.state, self.tracer, self.watched
        scope = place(node, self.base)
        cursor = Cursor(tracer.identity, scope, node.phase)
        cursor.step = tracer.epoch
        cursor.label = node.name.rpartition("/")[2]
        cursor.slots[node.op] = [0, self._entries(node)]
        cursor.device, cursor.origin, cursor.graph = node.device, node.origin, self.graph
        cursor.control = tuple(
            known[0].node.id
            for control in node.control_inputs
            if control in watched.by_id and (known := self._entries(watched.by_id[control]))
        )
        state.cursor, state.scope, state.phase = cursor, scope, node.phase
        state.source, state.forward = node.source, None
        if node.forward is not None:
            state.forward = watched.stands_for(node.forward, tracer, self.key, self.base)

    def _leaves(self, feeds: Sequence[Any]) -> dict[int, Any]:
        """Tensors of inputs and constants by value id; the tracer records those that it does not
        know.
        """
        state, tracer, watched = self.state, self.tracer, self.watched
        values: dict[int, Any] = dict(zip(watched.graph.inputs, feeds, strict=True))
        for value, array in watched.constants.items():
            node = watched.producers[value]
            values[value] = make(array, kind="constant", name=node.name)
        for value, tensor in values.items():
            node_of = watched.producers.get(value)
            if tensor.__class__ is not Tensor or getattr(tensor, "_vid", 0) > tracer.base:
                continue
            state.cursor, state.scope, state.phase = None, self.base, "forward"
            if node_of is not None:
                state.scope, state.phase = place(node_of, self.base), node_of.phase
                state.source = node_of.source
            tracer.leaf(tensor)
        return values

    def _pair(self, value: int, gradient: Any, values: Mapping[int, Any]) -> None:
        leaf = values.get(value)
        if leaf is None:
            node = self.watched.producers[value]
            known = self._entries(node)
            if not known:
                return
            leaf = Tensor.__new__(Tensor)
            leaf._vid = known[0].outputs[node.outputs.index(value)]
        if leaf.__class__ is Tensor:
            self.tracer.pair(leaf, gradient)

    # Opened kernels

    def _opened(self, step: _Step) -> bool:
        """Whether a demand opens this kernel or a node inside it."""
        opened = self.tracer.bus.demand.opened
        node = step.node
        if not opened or not (node.op == "fused" or step.call.op.inline is not None):
            return False
        inside: tuple[Node, ...] = node.attrs["body"].nodes if node.op == "fused" else ()
        named = [self._named(node_) for node_ in (node, *inside)]
        return any(wants(name) for wants in opened for name in named)

    def _named(self, node: Node) -> Node:
        """A copy of a node with its name and scope in this call."""
        scope = place(node, self.base)
        name = join(scope, node.name.rpartition("/")[2])
        return msgspec.structs.replace(node, name=name, scope=scope)

    def _open(self, step: _Step, args: tuple[Any, ...]) -> None:
        """Run the content of a kernel node by node on the kernel's inputs, before the kernel
        runs.
        """
        state, tracer, node = self.state, self.tracer, step.node
        self._place(node)
        body_inputs = tuple(
            alias(argument) if argument.__class__ is Tensor else argument for argument in args
        )
        for body_input, arg in zip(body_inputs, args, strict=True):
            if body_input.__class__ is Tensor:
                body_input._vid = getattr(arg, "_vid", 0)
        if node.op != "fused":
            state.cursor, state.scope, state.cursors = None, join(self.base, node.name), {}
            assert step.call.op.inline is not None
            step.call.op.inline(body_inputs, step.call.attrs)
            return
        body: Graph = node.attrs["body"]
        values = dict(zip(body.inputs, body_inputs, strict=True))
        for member in body.nodes:
            self._place(member)
            call = call_of(member)
            operands = tuple(argument.value if isinstance(argument, Scalar) else values[argument]
                          for argument in call.args)  # fmt: skip
            result: Any = tracer.run(call.op, operands, call.attrs)
            outputs = result if result.__class__ is tuple else (result,)
            values.update(zip(member.outputs, outputs, strict=True))
