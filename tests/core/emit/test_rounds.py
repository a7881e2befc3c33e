"""Loops without marked steps: a loop's graph closes after a few rounds, however long it runs."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.events import GradientComputed, GraphExtended, NodeFinished
from nodescope.ir.graph import Node
from nodescope.ir.identity import LOOPED
from tests.core.engine.events_of import observed


def definitions(events: Any) -> list[Node]:
    return [node for event in events.of(GraphExtended) for node in event.nodes]


@pytest.mark.parametrize("rounds", [200, 2000])
def test_a_loop_without_steps_has_as_many_nodes_however_long_it_runs(rounds: int) -> None:
    w = ns.tensor(np.eye(3))
    with observed() as events:
        x = ns.tensor(np.ones((3, 3)))
        for _ in range(rounds):
            x = np.tanh(x @ w) + 0.5
            ns.tensor(np.ones(2)) * 2.0
    assert len({node.id for node in definitions(events)}) == 7
    assert len(events.of(NodeFinished)) == 2 + 5 * rounds  # Each execution has an event.


def test_a_loop_is_closed_by_what_it_computes() -> None:
    w = ns.tensor(np.eye(3))
    with observed() as events:
        x = ns.tensor(np.ones((3, 3)))
        for _ in range(3 * LOOPED):
            x = np.tanh(x @ w)
    nodes = {node.id: node for node in definitions(events)}
    *_, product, tanh = [event.node for event in events.of(NodeFinished)]
    assert nodes[product.id].inputs[0] in tanh.outputs
    assert nodes[tanh.id].inputs == product.outputs


def test_what_is_in_no_loop_and_in_steps_is_unrolled_as_it_is() -> None:
    def added(x: Any, times: int) -> Any:
        return added(x + 1.0, times - 1) if times else x

    with observed() as events:
        added(ns.tensor(np.ones(3)), LOOPED)
        for _ in ns.steps(range(2)):
            y = ns.tensor(np.ones(3))
            for _ in range(10 * LOOPED):
                y = y * 0.5
    op_names = [node.op for node in definitions(events) if node.op != "tensor"]
    assert op_names.count("add") == LOOPED
    assert len({node.id for node in definitions(events) if node.op == "multiply"}) == 10 * LOOPED


def test_distinct_operands_stay_distinct_nodes() -> None:
    weights = [ns.parameter(np.full(2, float(index)), name=f"w{index}") for index in range(60)]
    with observed() as events:
        for _ in range(50):
            for weight in weights:
                weight * 2.0
    inputs = {node.inputs for node in definitions(events) if node.op == "multiply"}
    assert len(inputs) == len(weights)
    assert len(definitions(events)) < 3 * len(weights)


def test_a_training_loop_without_steps_is_bounded() -> None:
    w = ns.parameter(np.eye(4), name="w")
    counts = []
    for rounds in (100, 400):
        with observed() as events:
            for _ in range(rounds):
                loss = np.mean(np.tanh(ns.tensor(np.ones((2, 4))) @ w) ** 2)
                loss.backward()
                w.data -= 0.01 * w.grad.numpy()
                w.grad = None
        counts.append(len(definitions(events)))
    assert counts[0] == counts[1]


def test_loops_differ_by_call_site_and_caller() -> None:
    def scaled(x: Any) -> Any:
        return x * 2.0

    x = ns.tensor(np.ones(3))
    with observed() as events:
        for _ in range(3 * LOOPED):
            scaled(x)
        for _ in range(LOOPED):
            scaled(x)
    multiplies = [node for node in definitions(events) if node.op == "multiply"]
    assert len(multiplies) == 2


def ran(events: Any) -> list[str]:
    return [event.node.name for event in events.of(NodeFinished)]


def weights(count: int) -> list[Any]:
    return [ns.parameter(np.eye(3) * (index + 1)) for index in range(count)]


def test_a_round_is_the_same_nodes_from_the_second_one_on() -> None:
    w = ns.tensor(np.eye(3))
    with observed() as events:
        x = ns.tensor(np.ones((3, 3))) * 2.0
        for _ in range(4):
            x = np.tanh(x @ w) @ w
        x * 3.0
    assert ran(events) == [
        "tensor", "multiply", "tensor_1", *("matmul", "tanh", "matmul_1") * 4, "multiply_1",
    ]  # fmt: skip


def test_layers_that_a_loop_goes_through_are_nodes_of_their_own() -> None:
    layers = weights(4)
    with observed() as events:
        x = ns.tensor(np.ones((3, 3)))
        for w in layers:
            x = np.tanh(x @ w)
    products = [node for node in definitions(events) if node.op == "matmul"]
    assert len({node.id for node in products}) == len(layers)
    assert len({node.inputs[1] for node in products}) == len(layers)


@pytest.mark.parametrize("apart", [False, True])
def test_layers_keep_their_nodes_from_batch_to_batch(apart: bool) -> None:
    layers = weights(4)

    def forward(x: Any) -> Any:
        for w in layers:
            x = np.tanh(x @ w)
        return x

    with observed() as events, ns.no_grad():
        for _ in range(50):
            x = ns.tensor(np.ones((3, 3)))
            if apart:
                x = forward(x)
            else:
                for w in layers:
                    x = np.tanh(x @ w)
            np.mean(x)
    assert len({node.id for node in definitions(events)}) == 1 + 3 * len(layers) + 1
    per_node = Counter(ran(events))
    assert per_node["matmul_3"] == per_node["mean"] == 50


def test_epochs_and_what_is_around_batches() -> None:
    w = ns.parameter(np.eye(3), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    with observed() as events:
        for _ in range(3):
            for _ in range(20):
                loss = np.mean((ns.tensor(np.ones((2, 3))) @ w) ** 2)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            np.mean(ns.tensor(np.zeros((2, 3))) @ w)
    per_node = Counter(ran(events))
    assert per_node["matmul"] == 60
    assert per_node["optimizer/w/assign"] == 60
    assert sum(count for name, count in per_node.items() if name.startswith("mean")) == 63
    assert len(per_node) < 40


def test_a_recurrent_network_is_unrolled_for_its_gradients() -> None:
    w = ns.parameter(np.eye(3), name="w")
    with observed() as events:
        for _ in range(20):
            x = ns.tensor(np.ones((3, 3)))
            for _ in range(5):
                x = np.tanh(x @ w)
            np.mean(x).backward()
            w.data -= 0.1 * w.grad.numpy()
            w.grad = None
    forward = [name for name in ran(events) if name.startswith("tanh")]
    assert Counter(forward[-5:]) == Counter(dict.fromkeys(forward[-5:], 1))
    products = [name for name in ran(events)[-60:] if name.startswith("backward/matmul")]
    assert len(products) > len(set(products)) / 2
    counts = Counter(ran(events))
    assert max(counts.values()) <= 20 + 1  # No node runs twice in a round.


def test_a_single_call_over_and_over_and_several_ops_of_one_call() -> None:
    with observed() as events:
        x = ns.tensor(np.arange(4.0))
        for _ in range(10):
            x = np.tanh(x)
        for _ in range(10):
            x = x / np.std(x) + np.var(x)
    assert Counter(ran(events))["tanh"] == 10
    assert all(count in (1, 10) for count in Counter(ran(events)).values())


def test_observing_a_loop_keeps_nothing_of_the_program_alive() -> None:
    class Large:
        pass

    def round_of(x: Any) -> Any:
        large = Large()
        dropped.append(weakref.ref(large))
        return x + 1.0

    dropped: list[Any] = []
    with observed():
        x = ns.tensor(np.ones(2))
        for _ in range(3):
            x = round_of(x)
            assert dropped[-1]() is None


def doubled(x: Any) -> Any:
    return np.tanh(x) * 2.0


def in_a_loop(call: Callable[[Any], Any], x: Any, rounds: int) -> None:
    for _ in range(rounds):
        call(x)


def in_no_loop_of_bytecode(call: Callable[[Any], Any], x: Any, rounds: int) -> None:
    assert len(list(map(call, [x] * rounds))) == rounds


def among_other_operations(call: Callable[[Any], Any], x: Any, rounds: int) -> None:
    number = 0
    while number < rounds:
        number += 1
        call(call(x) + 1.0)


def on_another_thread(call: Callable[[Any], Any], x: Any, rounds: int) -> None:
    thread = threading.Thread(target=in_a_loop, args=(call, x, rounds))
    thread.start()
    thread.join()


def of_its_own_results(call: Callable[[Any], Any], x: Any, rounds: int) -> None:
    for _ in range(rounds):
        x = call(x)


@pytest.mark.parametrize(
    ("called", "nodes"),
    [(in_a_loop, 2), (in_no_loop_of_bytecode, 2), (among_other_operations, 5),
     (on_another_thread, 2), (of_its_own_results, 2 * LOOPED)],
)  # fmt: skip
def test_a_compiled_function_that_is_called_again_and_again_has_few_nodes(
    called: Any, nodes: int
) -> None:
    compiled = ns.compile(doubled)
    with observed() as events:
        called(compiled, ns.tensor(np.ones(3)), 3 * LOOPED)
    assert len({node.id for node in definitions(events) if node.op != "tensor"}) == nodes
    executions = [event for event in events.of(NodeFinished) if event.node.op == "tanh"]
    assert len(executions) == 3 * LOOPED * (2 if called is among_other_operations else 1)


def test_calls_of_a_compiled_function_with_other_inputs_are_other_nodes() -> None:
    compiled = ns.compile(doubled)
    layers = [ns.nn.Linear(3, 3, rng=np.random.default_rng(number)) for number in range(2)]
    model = ns.nn.Sequential(layers[0], compiled, layers[1], compiled)
    with observed() as events, ns.no_grad():
        in_a_loop(model, ns.tensor(np.ones((2, 3), np.float32)), 3)
    made_by = {value: node.name for node in definitions(events) for value in node.outputs}
    read = {
        (node.name, *[made_by[value] for value in node.inputs])
        for node in definitions(events)
        if node.op == "tanh"
    }
    assert {("tanh", "layer_0/add"), ("tanh_1", "layer_2/add")} <= read
    assert len({name for name, _ in read}) == len({source for _, source in read}) == len(read)


def test_compiled_layers_on_a_tape_have_gradients_of_their_own() -> None:
    compiled = ns.compile(lambda x, w: np.tanh(x * w))
    weights = [ns.parameter(np.full(3, 0.5 + number), name=f"w{number}") for number in range(3)]
    x = ns.tensor(np.ones(3), name="x")
    with observed() as events:
        h = x
        for w in weights:
            h = compiled(h, w)
        (h + compiled(x, weights[0])).sum().backward()
    forward = [node for node in definitions(events) if node.phase == "forward"]
    products = {node.id: node.inputs for node in forward if node.op == "multiply"}
    assert len(set(products.values())) == len(weights)  # one more repeats the inputs of the first
    assert len(products) == len(weights) + 1
    results = {node.outputs[0] for node in forward if node.op == "tanh"}
    pairs = {(event.value, event.gradient) for event in events.of(GradientComputed)}
    assert len([value for value, _ in pairs if value in results]) == len(results)
