"""What observing emits: identity over steps, order of events, phases, leaves, threads, failures."""

from __future__ import annotations

import contextlib
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.engine import dispatch_mode, tracer
from nodescope.errors import ShapeError, UsageError
from nodescope.events import (
    Bus,
    GradientComputed,
    GraphExtended,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    StepFinished,
    StepStarted,
)
from tests.core.engine.events_of import observed


def model(x: Any, w: Any) -> Any:
    with ns.name_scope("layer"):
        h = np.tanh(x @ w)
    with ns.name_scope("loss"):
        return np.mean(h * h)


def parameter() -> ns.Tensor:
    return ns.parameter(np.full((3, 2), 0.5), name="w")


def test_a_node_keeps_its_identity_over_steps() -> None:
    w = parameter()
    with observed() as events:
        for _ in ns.steps(range(3)):
            model(ns.tensor(np.ones((4, 3)), name="x"), w)
    assert events.ran == ["x", "w", "layer/matmul", "layer/tanh", "loss/multiply", "loss/mean"] * 3
    assert [len(event.nodes) for event in events.of(GraphExtended)] == [1] * 6
    assert [n.id for n in events.nodes.values()] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in events.of(NodeFinished)] == [1] * 6 + [2] * 6 + [3] * 6
    node = events.nodes["layer/matmul"]
    assert (node.op, node.family, node.scope, node.phase) == (
        "matmul", "matmul", "layer", "forward",
    )  # fmt: skip
    assert node.source is not None
    assert Path(node.source.file).name == "test_tracer.py"
    assert node.source.function == "model"


def test_a_definition_comes_before_its_first_execution_and_inputs_before_users() -> None:
    with observed() as events:
        model(np.ones((4, 3)), parameter()).backward()
    known: set[int] = set()
    values: set[int] = set()
    for event in events.all:
        if isinstance(event, GraphExtended):
            known.update(n.id for n in event.nodes)
            assert [v.id for v in event.values] == list(event.nodes[0].outputs)
        elif isinstance(event, NodeFinished):
            assert event.node.id in known
            assert set(event.node.inputs) <= values
            assert len(event.inputs) == len(event.node.inputs)
            assert len(event.outputs) == len(event.node.outputs)
            assert event.start_ns <= event.end_ns
            values.update(event.node.outputs)


def test_other_inputs_are_a_new_version_of_the_same_node() -> None:
    with observed() as events:
        a, b = ns.tensor(1.0, name="a"), ns.tensor(2.0, name="b")
        for first in (a, b, b):
            ns.step()
            first * 2.0
    defined = [e for e in events.of(GraphExtended) if e.nodes[0].op == "multiply"]
    assert [e.nodes[0].id for e in defined] == [3, 3]
    assert [e.nodes[0].inputs for e in defined] == [
        events.nodes["a"].outputs, events.nodes["b"].outputs,
    ]  # fmt: skip
    assert defined[1].version == defined[0].version + 1
    assert events.nodes["multiply"].attrs == {"x2": 2.0}


def test_repeated_ops_get_readable_unique_names() -> None:
    with observed() as events:
        x = ns.tensor(1.0)
        x + 1.0 + 1.0 + 1.0
    assert events.ran == ["tensor", "add", "add_1", "add_2"]


def test_arrays_become_constants_and_scalars_attributes() -> None:
    with observed() as events:
        x = ns.tensor(np.ones((2, 3)), name="x")
        np.where(x > 0, x * np.ones(3), 2)[0, 1:]
    assert events.ran == ["x", "greater", "constant", "multiply", "where", "getitem"]
    assert events.nodes["where"].attrs == {"y": 2}
    assert events.nodes["getitem"].attrs == {"index": (0, slice(1, None, None))}


def test_backward_is_nodes_that_name_what_they_differentiate() -> None:
    w = parameter()
    with observed() as events:
        loss = model(np.ones((4, 3)), w)
        loss.backward()
    backward = [n for n in events.nodes.values() if n.phase == "backward"]
    assert backward
    by_id = {n.id: n for n in events.nodes.values()}
    for node in backward:
        assert node.forward is not None
        forward = by_id[node.forward]
        assert node.scope == f"backward/{forward.scope}"
    pairs = {event.value: event.gradient for event in events.of(GradientComputed)}
    for name in ("loss/mean", "loss/multiply", "layer/tanh", "layer/matmul", "w"):
        assert events.nodes[name].outputs[0] in pairs, name
    last = {n: e for e in events.of(NodeFinished) for n in e.node.outputs}
    assert w.grad is not None
    result = last[pairs[events.nodes["w"].outputs[0]]].outputs[0]
    assert np.array_equal(result, w.grad.numpy())


def test_adding_to_an_earlier_gradient_belongs_to_the_backward_pass() -> None:
    w = parameter()
    with observed() as events:
        for _ in ns.steps(range(2)):
            model(np.ones((4, 3)), w).backward()
    sums = [n for n in events.nodes.values() if n.op == "add" and not n.scope.endswith("loss")]
    assert sums
    for node in sums:
        assert (node.phase, node.scope.split("/")[0]) == ("backward", "backward")


def test_a_gradient_pair_is_reported_once() -> None:
    w = parameter()
    with observed() as events:
        for _ in ns.steps(range(3)):
            w.grad = None
            model(np.ones((4, 3)), w).backward()
    pairs = [(event.value, event.gradient) for event in events.of(GradientComputed)]
    assert len(pairs) == len(set(pairs))


def test_updates_are_nodes_of_the_optimizer() -> None:
    layer = nn.Linear(3, 2, rng=np.random.default_rng(0))
    with observed() as events:
        optimizer = optim.SGD(layer, lr=0.1, momentum=0.9)
        for _ in ns.steps(range(2)):
            np.mean(layer(ns.tensor(np.ones((4, 3), np.float32)))).backward()
            before = layer.weight.data
            optimizer.step()
            assert layer.weight.data is not before
    updates = [n for n in events.nodes.values() if n.phase == "optimizer"]
    assert {n.scope for n in updates} == {"optimizer/weight", "optimizer/bias"}
    assert events.ran.count("optimizer/weight/assign") == 2
    assert events.ran.count("weight") == 2
    assert events.ran.count("optimizer/weight/velocity") == 2


def test_steps_are_reported_and_closed() -> None:
    with observed() as events:
        ns.tensor(1.0)
        for i in ns.steps(range(5)):
            ns.tensor(1.0)
            if i == 1:
                break
        ns.step()
        ns.step()
    told_steps = [type(e).__name__ + str(getattr(e, "step", "")) for e in events.all
            if isinstance(e, StepStarted | StepFinished)]  # fmt: skip
    assert told_steps == [
        f"{kind}{n}" for n in (1, 2, 3, 4) for kind in ("StepStarted", "StepFinished")
    ]
    assert [e.step for e in events.of(NodeFinished)] == [0, 1, 2]


def test_a_start_is_reported_only_when_wanted_and_with_its_inputs() -> None:
    with observed() as events:
        ns.tensor(1.0) + 1.0
    assert not events.of(NodeStarted)
    with observed(starts=True) as events:
        x = ns.tensor(np.arange(3.0))
        x[x > 1]
    started = events.of(NodeStarted)
    assert [e.node.name for e in started] == events.ran
    assert started[-1].inputs[0] is x.data
    order = [type(e).__name__ for e in events.all]
    one_run = ["GraphExtended", "NodeStarted", "NodeFinished"]
    # The shape of a masked selection is known, and reported, after it has run.
    assert order == one_run * 2 + one_run[:2] + ["GraphExtended", "NodeFinished"]


def test_a_failing_node_is_reported_and_the_same_exception_continues() -> None:
    with observed() as events, pytest.raises(ShapeError) as caught:
        ns.tensor(np.ones((2, 3)), name="a") @ ns.tensor(np.ones((2, 3)), name="b")
    (failed,) = events.of(NodeFailed)
    assert failed.node.name == "matmul"
    assert [value.shape for value in failed.inputs] == [(2, 3), (2, 3)]
    assert failed.error == f"ShapeError: {caught.value}"
    assert "test_tracer.py" in failed.error
    error = OSError("disk")
    with observed() as events, pytest.raises(OSError, match="disk") as again:
        _failing(error)
    assert again.value is error
    assert events.of(NodeFailed)[0].error == "OSError: disk"


def _failing(error: Exception) -> None:
    from nodescope.engine.run import apply
    from nodescope.ops import Op

    def impl(x: Any) -> Any:
        raise error

    apply(Op("broken", "elementwise", lambda specs, attrs: specs[0], impl), (ns.tensor(1.0),), {})


def test_a_failing_probe_changes_nothing() -> None:
    class Broken:
        def emit(self, event: object) -> None:
            raise RuntimeError("no")

    faults: list[Exception] = []
    with observed() as events:
        events.bus.on_fault = lambda probe, fault: faults.append(fault)
        events.bus.add(Broken())
        assert (ns.tensor(1.0) + 1.0).item() == 2.0
    assert len(faults) == 1


def test_tensors_from_before_enter_as_leaves() -> None:
    w = parameter()
    h = w * 2.0
    with observed() as events:
        h + 1.0
    assert events.ran == ["tensor", "add"]
    with observed() as events:
        (h + 1.0).sum().backward()
    assert events.ran[:3] == ["tensor", "add", "sum"]
    assert [n.id for n in events.nodes.values()] == list(range(1, len(events.nodes) + 1))
    assert w.grad is not None


def test_scopes_nest_and_decorate() -> None:
    @ns.name_scope("inner/most")
    def inner(x: Any) -> Any:
        return x + 1.0

    with observed() as events:
        with ns.name_scope("outer"):
            inner(ns.tensor(1.0))
            with pytest.raises(KeyError), ns.name_scope("broken"):
                raise KeyError
            inner(ns.tensor(1.0))
        inner(ns.tensor(1.0))
    assert events.ran == [
        "outer/tensor", "outer/inner/most/add", "outer/tensor_1", "outer/inner/most/add_1",
        "tensor", "inner/most/add",
    ]  # fmt: skip


def test_threads_count_for_themselves_and_share_nodes() -> None:
    barrier = threading.Barrier(4)
    failures: list[BaseException] = []

    def added(x: Any, times: int) -> Any:
        with ns.name_scope("work"):
            x = x + 1.0
        return added(x, times - 1) if times > 1 else x

    def work() -> None:
        try:
            barrier.wait(60)
            added(ns.tensor(np.ones(3), name="x"), 30)
        except BaseException as error:
            failures.append(error)

    with observed() as events:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not failures
    names = [n.name for e in events.of(GraphExtended) for n in e.nodes if e.version]
    assert len(set(names)) == 31
    ids = {n.id for e in events.of(GraphExtended) for n in e.nodes}
    assert len(ids) == 31
    assert len(events.ran) == 124
    assert len({e.thread for e in events.of(NodeFinished)}) == 4


@pytest.mark.parametrize("kind", [NodeFinished, NodeFailed])
def test_what_began_in_a_step_belongs_to_it_though_another_thread_has_begun_the_next(
    kind: Any,
) -> None:
    from nodescope.engine.run import apply
    from nodescope.ops import Op

    first_step_entered, on = threading.Event(), threading.Event()

    def impl(x: Any) -> Any:
        first_step_entered.set()
        assert on.wait(60)
        if kind is NodeFailed:
            raise OSError("disk")
        return x

    slow = Op("slow", "elementwise", lambda specs, attrs: specs[0], impl)

    def work() -> None:
        with contextlib.suppress(OSError):
            apply(slow, (ns.tensor(1.0),), {})

    with observed() as events:
        events.bus.leaves_out = lambda step, _: step == 2
        ns.step()
        thread = threading.Thread(target=work)
        thread.start()
        assert first_step_entered.wait(60)
        ns.step()
        on.set()
        thread.join(60)
    (results,) = [event for event in events.of(kind) if event.node.op == "slow"]
    assert results.step == 1


def test_parameters_are_not_kept_alive() -> None:
    with observed():
        made = ns.parameter(np.ones(3), name="p")
        weight = weakref.ref(made)
        np.sum(made * 2.0)
        del made
        assert weight() is None
        ns.step()  # A step visits the parameters that were read.


def test_a_resting_observer_still_counts() -> None:
    with observed():
        dispatch_mode.rest()
        with pytest.raises(UsageError, match="already observed"):
            tracer.observe(Bus())
        dispatch_mode.wake()


def test_only_one_observer() -> None:
    with observed(), pytest.raises(UsageError, match="already observed"):
        tracer.observe(Bus())
    tracer.unobserve()


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_results_are_bit_identical(make: Any) -> None:
    def train() -> list[bytes]:
        rng = np.random.default_rng(1)
        network = nn.Sequential(nn.Linear(5, 8, rng=rng), nn.gelu, nn.Linear(8, 3, rng=rng))
        optimizer = make(network, lr=0.05)
        images = rng.standard_normal((16, 5)).astype(np.float32)
        labels = rng.integers(0, 3, 16)
        for _ in ns.steps(range(5)):
            optimizer.zero_grad()
            nn.cross_entropy(network(ns.tensor(images)), labels).backward()
            optimizer.step()
        return [tensor.numpy().tobytes() for tensor in network.parameters()]

    plain = train()
    with observed():
        assert train() == plain
    with observed(starts=True):
        assert train() == plain
