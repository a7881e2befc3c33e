"""Observed compiled functions: kernels are nodes, and nothing else changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.codegen import backend as backends
from nodescope.engine.tracer import observe, unobserve
from nodescope.errors import BoundsError
from nodescope.events import (
    Bus,
    Compiled,
    Demand,
    GradientComputed,
    GraphCaptured,
    HostSpan,
    NodeFailed,
    NodeFinished,
    PassApplied,
)
from nodescope.ir.graph import Node
from nodescope.ir.scopes import join
from nodescope.passes.cost import node_work
from tests.core.engine.events_of import Events, observed

BACKENDS = [
    all_backend.name for all_backend in backends.all_backends() if not all_backend.missing()
]


def step_of(**how: Any) -> tuple[Any, dict[str, Any]]:
    """A training step with everything in it, and the state that it changes."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": ns.parameter(rng.standard_normal((6, 8)), np.float32, name="w1"),
        "b1": ns.parameter(np.zeros(8), np.float32, name="b1"),
        "w2": ns.parameter(rng.standard_normal((8, 3)), np.float32, name="w2"),
    }
    optimizer = ns.optim.SGD(weights.values(), lr=0.1, momentum=0.9)

    @ns.compile(**how)
    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        with ns.name_scope("hidden"):
            h = np.tanh(x @ weights["w1"] + weights["b1"]) * 2.0 - 0.5
        loss = ns.cross_entropy(h @ weights["w2"], labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, weights


def batches() -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    for _ in range(3):
        x = ns.tensor(rng.standard_normal((5, 6)).astype(np.float32), name="x")
        yield x, ns.tensor(rng.integers(0, 3, 5), name="labels")


def trained(**how: Any) -> list[bytes]:
    step, weights = step_of(**how)
    results = []
    with ns.name_scope("outer"):
        for x, labels in ns.steps(batches()):
            results.append(step(x, labels).numpy().tobytes())
    return [*results, *(weight.numpy().tobytes() for weight in weights.values())]


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_watching_changes_no_bit(backend: str, opened: bool) -> None:
    expected = trained(backend=backend)
    with observed() as events:
        if opened:
            events.bus.want(events, Demand(opened=(lambda node: True,)))
        assert trained(backend=backend) == expected
    ran = [event.node for event in events.of(NodeFinished) if event.node.graph]
    assert {"forward", "backward", "optimizer"} <= {node.phase for node in ran}
    assert trained(backend=backend) == expected


def test_a_run_receives_what_was_compiled() -> None:
    with observed() as events:
        trained()
    graphs = {event.graph.id: event for event in events.of(GraphCaptured)}
    stages = [graph.stage for graph in graphs.values()]
    assert stages[0] == "traced"
    assert stages[-1] == "final"
    (compilation,) = events.of(Compiled)
    (final,) = [graph.graph for graph in graphs.values() if graph.stage == "final"]
    traced = next(graph.graph for graph in graphs.values() if graph.stage == "traced")
    assert len(compilation.fates) == len(traced.nodes)
    for event in events.of(PassApplied):
        assert {event.before, event.after} <= set(graphs)
    by_name = {join("outer", node.name) if node.phase == "forward" else "": node
               for node in final.nodes}  # fmt: skip
    known = {node.id for node in traced.nodes}
    specs = {value.id: value.tensor for value in final.values}
    flops = {node.origin: node_work(node, specs).flops for node in final.nodes}
    ran = [event.node for event in events.of(NodeFinished) if event.node.graph]
    assert ran
    for node in ran:
        assert node.graph == final.id
        assert set(node.origin) <= known
        if node.phase == "forward":
            assert by_name[node.name].op == node.op
        if node.op == "fused":
            assert node.attrs["covers"]
            assert node.attrs["pattern"]
            assert node.attrs["flops"] == flops[node.origin] > 0


def test_nodes_stay_the_same_from_step_to_step() -> None:
    with observed() as events:
        trained()
    counts: dict[int, int] = {}
    for event in events.of(NodeFinished):
        if event.node.graph:
            counts[event.node.id] = counts.get(event.node.id, 0) + 1
    assert set(counts.values()) == {3}
    assert events.of(GradientComputed)


def test_an_opened_kernel_shows_what_it_covers_on_its_real_inputs() -> None:
    def wants(node: Node) -> bool:
        return node.name == "layer/tanh"

    @ns.compile(passes=("fuse",), backend="plain")
    def f(x: Any) -> Any:
        with ns.name_scope("layer"):
            return np.tanh(x * 2.0) + 1.0

    x = np.linspace(-1, 1, 1 << 18)
    with observed() as events:
        events.bus.want(events, Demand(opened=(wants,)))
        result = f(ns.tensor(x)).numpy()
    ran = {event.node.name: event for event in events.of(NodeFinished)}
    kernels = [event for event in ran.values() if event.node.op == "fused"]
    assert [kernel.node.attrs["covers"] for kernel in kernels] == [
        ["layer/multiply", "layer/tanh", "layer/add"]
    ]
    np.testing.assert_array_equal(ran["layer/tanh"].outputs[0], np.tanh(x * 2.0))
    np.testing.assert_array_equal(ran["layer/add"].outputs[0], result)
    np.testing.assert_array_equal(kernels[0].outputs[0], result)


def test_gradients_requested_later_run_compiled_too() -> None:
    w = ns.parameter(np.full(4, 0.5), name="w")
    f = ns.compile(lambda x: (np.tanh(x * w) * w).sum())
    x = ns.tensor(np.arange(4.0), name="x")
    f(x).backward()
    expected = w.grad.numpy().tobytes()
    w.grad = None
    with observed() as events:
        f(x).backward()
    assert w.grad.numpy().tobytes() == expected
    backward = [event.node for event in events.of(NodeFinished) if event.node.phase == "backward"]
    assert any(node.graph for node in backward)
    names = {node.id: node.name for node in events.nodes.values()}
    assert all(names[node.forward] for node in backward if node.forward is not None)
    leaves = [event.node.name for event in events.of(NodeFinished) if event.node.is_leaf]
    assert len(leaves) == len(set(leaves)) <= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_observers_of_values_a_plan_runs_in_one_call(backend: str) -> None:
    expected = trained(backend=backend)
    with observed() as events:
        events.bus.want(events, Demand(arrays=False))
        assert trained(backend=backend) == expected
    ran = [event for event in events.of(NodeFinished) if event.node.graph]
    # In step 1 the observer learns the nodes.
    assert all(node.outputs for node in ran if node.step == 1)
    later = [item for item in ran if item.step > 1]
    assert not any(node.outputs for node in later)
    names = [[event.node.name for event in ran if event.step == step] for step in (1, 2, 3)]
    assert names[0] == names[1] == names[2]
    for before, after in itertools.pairwise(later):
        assert before.start_ns <= before.end_ns <= after.start_ns


def test_a_failing_kernel_is_a_failed_node_at_the_users_line() -> None:
    @ns.compile
    def f(x: Any, i: Any) -> Any:
        return np.tanh(x)[i] + 1.0

    x = ns.tensor(np.ones(3))
    assert f(x, ns.tensor(np.array([0, 1]))).shape == (2,)
    with observed() as events, pytest.raises(BoundsError) as raised:
        f(x, ns.tensor(np.array([0, 9])))
    assert "test_compile_watched.py" in str(raised.value)
    assert [event.node.op for event in events.of(NodeFailed)]
    assert _counted(events) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plan_that_fails_in_one_call_names_the_node(backend: str) -> None:
    f = ns.compile(lambda x, i: np.tanh(x)[i] + 1.0, backend=backend)
    x, i = ns.tensor(np.ones(3), name="x"), ns.tensor(np.array([0]), name="i")

    def run() -> None:
        for step in ns.steps(range(3)):
            i.data = np.array([9 * (step == 2)])
            f(x, i)

    with observed() as events:
        events.bus.want(events, Demand(arrays=False))
        with pytest.raises(BoundsError, match=r"test_compile_watched\.py"):
            run()
    failed = events.of(NodeFailed)
    assert [(event.node.op, event.step) for event in failed] == [("getitem", 3)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_of_the_derivative_are_not_those_of_the_function(backend: str) -> None:
    f = ns.compile(lambda x: tuple(ns.linalg.eigh(x)), backend=backend)
    x = ns.tensor(np.diag([1.0, 2.0, 4.0]) + 0.5, requires_grad=True)
    f(x)[0].sum().backward()
    with observed() as events:
        f(x)[0].sum().backward()
    assert {"eigh"} <= {event.node.op for event in events.of(NodeFinished) if event.node.graph}
    assert {trace.backend for trace in f.explain().traces[0].compiled} == {backend}


def _counted(events: Events) -> int:
    return len(events.of(NodeFailed))


def test_tracing_and_compiling_are_reported_with_the_functions_line() -> None:
    spans: list[HostSpan] = []

    class Spans:
        def emit(self, event: object) -> None:
            if isinstance(event, HostSpan):
                spans.append(event)

    bus = Bus()
    bus.add(Spans())

    @ns.compile
    def slow_to_trace(x: ns.Tensor) -> ns.Tensor:
        for _ in range(200):
            x = np.tanh(x)
        return x

    observe(bus)
    try:
        for _ in ns.steps(range(2)):
            slow_to_trace(ns.tensor(np.ones(2)))
    finally:
        unobserve()
    compilations = [span for span in spans if span.kind == "compiling"]
    names = [item.function for item in compilations]
    # The trace, its graph, and the graph's record; none in the second step.
    assert names[:2] == ["slow_to_trace"] * 2
    assert names[2:] == ["slow_to_trace (its graph is recorded)"]
    line = slow_to_trace.__wrapped__.__code__.co_firstlineno
    assert {(item.step, item.file, item.line) for item in compilations} == {(1, __file__, line)}
    assert all(first.end_ns <= two.start_ns for first, two in itertools.pairwise(compilations))
    assert all(item.start_ns < item.end_ns for item in compilations)
