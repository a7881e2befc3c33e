"""Joint: the derivative of a compiled function, as a separate graph.

When gradients of a call may be needed later, the function's graph also returns the values that the
derivative reads (residuals), and the tape records the whole call as one edge. The derivative is
traced once for each set of results that receive cotangents.

Invariant: applies the same rules to the same values in the same order as eager execution of the
function.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.tape import alias_of, pull_many
from nodescope.engine.state import current
from nodescope.engine.static.lowering import Lowering, Wish, closed
from nodescope.engine.static.observed_run import runs_as_traced, watched_of
from nodescope.engine.static.play import play
from nodescope.engine.static.tracing import Traced, history
from nodescope.engine.tensor import Bundle, Tensor, make, next_seq, settled, spec_of
from nodescope.errors import GradientError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Graph, Node
from nodescope.ops.op import Op
from nodescope.ops.plan import Plan


@dataclass(frozen=True)
class Backward:
    """The derivative for one set of results.

    Attributes:
        graph: Its nodes, after those of the function.
        nodes: Only its own nodes.
        residuals: Value ids of the function that it needs.
        cotangents: Value ids of the cotangents.
        outputs: For each input that may require a gradient, the value id of its cotangent, or None.
        lowering: The lowering, which runs on residuals and cotangents.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    residuals: tuple[int, ...]
    cotangents: tuple[int, ...]
    outputs: tuple[int | None, ...]
    lowering: Lowering


class Joint:
    """The differentiable part of a traced function.

    Attributes:
        roots: Positions of the results with a history, among the trace's tensors.
        residuals: Value ids that the graph also returns, in order.
        forward: The lowering of the function itself.
        full: The derivative for cotangents through all roots; None if it cannot be a graph.
    """

    def __init__(
        self,
        traced: Traced,
        roots: tuple[int, ...],
        name: str,
        wish: Wish,
        *,
        full: Backward | None = None,
        elsewhere: Callable[[], Joint] | None = None,
    ) -> None:
        self.traced = traced
        self.roots = roots
        self.wish = wish
        self.forward: Lowering | None = None
        self.order = {position: i for i, position in enumerate(traced.form.dynamic)}
        self.places = [
            self.order[place] if isinstance(place, int) else place for place, _ in traced.inputs
        ]
        self._lock = threading.RLock()
        self._backwards: dict[tuple[bool, ...], Backward] = {}
        self._elsewhere = elsewhere
        all_present = (True,) * len(roots)
        if full is not None:
            self._backwards[all_present] = full
        self.op = Op(
            name=name, family="layout", infer=_unknown, impl=_unknown, vjp=(self._rule,),
            variadic=True, joint=True, partial=True,
        )  # fmt: skip
        needed: set[int] = set()
        try:
            self.full: Backward | None = self.backward(all_present)
            needed.update(self.full.residuals)
        except GradientError:  # it matters only if a gradient is requested
            self.full = None
            for i in range(len(roots)):
                with contextlib.suppress(GradientError):
                    alone = tuple(k == i for k in range(len(roots)))
                    needed.update(self.backward(alone).residuals)
        self.residuals = tuple(sorted(needed.difference(traced.builder.inputs)))

    @staticmethod
    def of(traced: Traced, name: str, wish: Wish) -> Joint | None:
        """The derivative of a traced function, or None if none of its results has one."""
        targets = {id(tensor): tensor for _, tensor in traced.inputs}
        if not targets:
            return None
        roots = tuple(
            i for i, tensor in enumerate(traced.tensors) if history(tensor, targets) == "whole"
        )
        return Joint(traced, roots, name, wish) if roots else None

    def resized(
        self, traced: Traced, nodes: Sequence[Node], elsewhere: Callable[[], Joint]
    ) -> Joint:
        """The derivative for the graph at another size.

        Args:
            traced: The trace with the other size.
            nodes: The nodes of the function and of the full derivative.
            elsewhere: The derivative of a trace at that size, for other sets of results.
        """
        full, mark = self.full, traced.mark
        assert full is not None
        graph = Graph(
            id=full.graph.id, kind="static", inputs=full.graph.inputs, outputs=full.graph.outputs,
            nodes=tuple(nodes), values=tuple(traced.builder.values),
            constants=full.graph.constants,
        )  # fmt: skip
        resized = Backward(
            graph, tuple(nodes[mark:]), full.residuals, full.cotangents, full.outputs,
            self._lowering(graph, traced.builder.arrays, patience=1),
        )  # fmt: skip
        return Joint(traced, self.roots, self.op.name, self.wish, full=resized, elsewhere=elsewhere)

    def _lowering(self, graph: Graph, arrays: Mapping[int, Any], patience: int = 0) -> Lowering:
        plan = Plan(graph, arrays, graph.outputs, graph.inputs)
        # Unused results may depend on values of the function that are not kept.
        name = f"the derivative of {self.op.name}"
        return Lowering(plan, closed(plan, plan.nodes), arrays, self.wish, name, patience)

    def results(
        self,
        leaves: list[Any],
        arrays: list[Any],
        feeds: dict[int, Any],
        count: int,
        ids: Sequence[int] = (),
        known: Mapping[int, int] | None = None,
    ) -> list[Tensor]:
        """The results of a call as tensors on the tape.

        Args:
            leaves: The arguments.
            arrays: The results of the plan: ``count`` outputs, then residuals.
            feeds: The plan's inputs by value id.
            ids: Value ids of the outputs in the observed run, if any.
            known: Value ids in the observed run of the plan's inputs and outputs, by value id in
                the graph.
        """
        inputs = tuple(
            settled(place) if isinstance(place, Tensor) else leaves[place] for place in self.places
        )
        saved = {**feeds, **dict(zip(self.residuals, arrays[count:], strict=True))}
        bundle = Bundle(
            tuple(arrays[root] for root in self.roots),
            (next_seq(), self.op, inputs, {"saved": saved, "known": known or {}}),
            tuple(ids[root] for root in self.roots) if ids else (0,) * len(self.roots),
        )
        tensors = [make(array) for array in arrays[: len(self.traced.tensors)]]
        for position, tensor in zip(self.roots, bundle.tensors(), strict=True):
            tensors[position] = tensor
        return tensors

    def lowerings(self) -> list[Lowering]:
        """The derivatives used so far."""
        return [
            backward.lowering for backward in self._backwards.values() if backward.lowering.lowered
        ]

    def backward(self, present: tuple[bool, ...]) -> Backward:
        """The derivative for cotangents that come through some of the roots."""
        with self._lock:
            backward_pass = self._backwards.get(present)
            if backward_pass is None and self._elsewhere is not None:
                backward_pass = self._backwards[present] = self._elsewhere().backward(present)
            if backward_pass is None:
                backward_pass = self._backwards[present] = self._trace(present)
        return backward_pass

    def _trace(self, present: tuple[bool, ...]) -> Backward:
        traced, builder = self.traced, self.traced.builder
        limit, builder.limit = builder.limit, None
        roots = [
            settled(traced.tensors[i]) for i, on in zip(self.roots, present, strict=True) if on
        ]
        targets = {id(tensor): tensor for _, tensor in traced.inputs}
        start = len(builder.nodes)
        with dispatch_mode.building(builder), _without_hooks(targets):
            state = current()
            state.phase, state.scope = "backward", "backward"
            # Cotangents are on the tape, so that `play` knows which values have a history when they
            # are differentiated again.
            cts = [builder.placeholder(spec_of(root), "cotangent", grad=True) for root in roots]
            ends = pull_many(
                roots, cts, traced=True, create_graph=True, keep=True, targets=targets,
                conjugate=False,
            )  # fmt: skip
            outputs = tuple(
                builder.value_of(ends[id(tensor)][1]) if id(tensor) in ends else None
                for _, tensor in traced.inputs
            )
            cotangents = tuple(map(builder.value_of, cts))
        builder.limit = limit
        nodes = tuple(builder.nodes[start:])
        present_outputs = tuple(output for output in outputs if output is not None)
        residuals = _residuals(nodes, present_outputs, traced)
        graph = Graph(
            id=builder.id, kind="static", inputs=(*residuals, *cotangents), outputs=present_outputs,
            nodes=(*builder.nodes[: traced.mark], *nodes), values=tuple(builder.values),
            constants=tuple(builder.arrays),
        )  # fmt: skip
        lowering = self._lowering(graph, builder.arrays)
        return Backward(graph, nodes, residuals, cotangents, outputs, lowering)

    def _rule(
        self, F: Any, ct: Any, out: Any, *inputs: Any, saved: dict[int, Any], known: dict[int, int]
    ) -> Any:
        backward_pass = self.backward(tuple(cotangent is not None for cotangent in ct))
        cotangents = [cotangent for cotangent in ct if cotangent is not None]
        kept = {residual: saved[residual] if residual in saved else _blank(backward_pass, residual)
                for residual in backward_pass.residuals}  # fmt: skip
        if F is ops.RAW:
            arrays = iter(backward_pass.lowering.run([*kept.values(), *cotangents]))
            return tuple(None if value is None else next(arrays) for value in backward_pass.outputs)
        again, observer = current().recording, dispatch_mode.observer()
        if not again and observer is not None:
            watched = watched_of(
                backward_pass.lowering, self.traced.builder.gradients, self.forward
            )
            if watched is not None:
                feeds = [_tensor(array, known.get(value, 0)) for value, array in kept.items()]
                try:
                    given_back = iter(watched.run(observer, [*feeds, *cotangents]))
                except Exception as error:
                    arguments = [*kept.values(), *(cotangent.data for cotangent in cotangents)]
                    if not runs_as_traced(backward_pass.lowering, error, arguments):
                        raise
                else:
                    return tuple(
                        None if value is None else next(given_back)
                        for value in backward_pass.outputs
                    )
        if again:
            behind = {value for node in backward_pass.nodes for value in node.inputs}
            values = self._again(inputs, saved, behind)
        else:
            values = {a: _tensor(array) for a, array in kept.items()}
        values.update(zip(backward_pass.cotangents, cotangents, strict=True))
        constants = [node for node in backward_pass.graph.nodes if node.op == "constant"]
        own = {node.id for node in backward_pass.nodes}
        play(
            self.traced,
            [*(n for n in constants if n.id not in own), *backward_pass.nodes],
            values,
            own,
        )
        return tuple(None if value is None else values[value] for value in backward_pass.outputs)

    def _again(
        self, inputs: tuple[Tensor, ...], saved: Mapping[int, Any], needed: set[int]
    ) -> dict[int, Any]:
        """The function's values on the tape, recomputed for second derivatives."""
        traced = self.traced
        values: dict[int, Any] = {}
        for (_, stands_for), tensor in zip(traced.inputs, inputs, strict=True):
            value = self._value(stands_for)
            values[value] = alias_of(tensor)
            values[value].data = saved[value]  # its array at the time of the call
        nodes = traced.builder.nodes[: traced.mark]
        for value, array in saved.items():
            if value not in values and value in traced.builder.inputs:
                values[value] = _tensor(array)
        ids = {node.id for node in nodes}
        play(traced, nodes, values, ids, phase="recompute", needed_values=needed)
        return values

    def _value(self, tensor: Tensor) -> int:
        """The value id of an input in the graph."""
        builder = self.traced.builder
        for known, value in builder.captures:
            if known is tensor:
                return value
        return builder.value_of(tensor)  # a stand-in


def freed_root(traced: Traced, tensor: Tensor) -> bool:
    """Whether a result's history was used up inside the function."""
    targets = {id(t): t for _, t in traced.inputs}
    return traced.recording and history(tensor, targets) == "freed"


def _residuals(
    nodes: tuple[Node, ...], outputs: tuple[int, ...], traced: Traced
) -> tuple[int, ...]:
    """Values of the function that the derivative's nodes or outputs need."""
    builder = traced.builder
    last = max((max(node.outputs, default=0) for node in builder.nodes[: traced.mark]), default=0)
    needed = set(outputs)
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
    return tuple(sorted(value for value in needed if value <= last and value not in builder.arrays))


@contextlib.contextmanager
def _without_hooks(tensors: Mapping[int, Tensor]) -> Iterator[None]:
    """Remove hooks while tracing: the eager backward pass runs the hooks of leaves when it reaches
    them.
    """
    saved = [(tensor, tensor._hooks) for tensor in tensors.values() if hasattr(tensor, "_hooks")]
    for tensor, _ in saved:
        del tensor._hooks
    try:
        yield
    finally:
        for tensor, hooks in saved:
            tensor._hooks = hooks


def _blank(backward_pass: Backward, value: int) -> Any:
    """Zeros for a value that was not kept, because the derivative through all results does not read
    it.

    Only ``zeros_like`` reads it, to make missing cotangents of an op with several results.
    """
    users = {node.op for node in backward_pass.nodes if value in node.inputs}
    assert users <= {"zeros_like"}, f"value {value} was not kept"
    spec = backward_pass.graph.values[value - 1].spec
    return np.broadcast_to(np.zeros((), as_dtype(spec.dtype)), spec.shape)


def _tensor(value: Any, known: int = 0) -> Any:
    if isinstance(value, float):
        return value
    tensor = make(value)
    if known:
        tensor._vid = known
    return tensor


def _unknown(*_: Any, **__: Any) -> Any:
    raise AssertionError("a compiled call is an edge of the tape, not an operation")
