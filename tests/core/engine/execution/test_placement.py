"""Placement and segments: complete, balanced, few bytes, and always executable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope import nn, optim
from nodescope.engine.execution.placement import (
    TOLERANCE,
    cost_of,
    described,
    placed,
    transfers,
    worker_of,
)
from nodescope.engine.execution.segments import Segment, segments_of
from nodescope.ir.graph import GIVEN, Graph, Node
from nodescope.ir.scopes import join
from nodescope.ops.plan import Plan
from nodescope.passes.pipeline import Lowered, lower
from tests.depth import examples


def lowered(step: Any, *args: Any) -> Lowered:
    """The compiled graph of a function."""
    program = step.graph(*args)
    return lower(program.graph, program.constants)


def cnn() -> Lowered:
    rng = np.random.default_rng(7)

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, rng=rng)
            self.norm = nn.BatchNorm2d(outputs)
            self.pool = nn.MaxPool2d(2)

        def forward(self, x: ns.Tensor) -> ns.Tensor:
            return self.pool(nn.relu(self.norm(self.conv(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            self.block = [Block(1, 16), Block(16, 32)]
            self.output = nn.Linear(128, 10, rng=rng)

        def forward(self, x: ns.Tensor) -> ns.Tensor:
            for block in self.block:
                x = block(x)
            return self.output(x.reshape(len(x), -1))

    return training(Model(), rng.standard_normal((64, 1, 8, 8)), rng.integers(0, 10, 64))


def transformer() -> Lowered:
    rng = np.random.default_rng(7)

    class Model(nn.Module):
        def __init__(self) -> None:
            self.block = [nn.TransformerBlock(32, 4, rng=rng, causal=True) for _ in range(2)]
            self.output = nn.Linear(32, 10, rng=rng)

        def forward(self, x: ns.Tensor) -> ns.Tensor:
            for block in self.block:
                x = block(x)
            return self.output(x)[:, -1]

    return training(Model(), rng.standard_normal((8, 16, 32)), rng.integers(0, 10, 8))


def training(model: Any, x: Any, labels: Any) -> Lowered:
    optimizer = optim.Adam(model, lr=1e-3)

    @ns.compile
    def step(x: ns.Tensor, labels: ns.Tensor) -> ns.Tensor:
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    return lowered(step, ns.tensor(x.astype(np.float32)), ns.tensor(labels))


def computing(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op not in GIVEN]


def by_hand(graph: Graph, second: Callable[[str], bool]) -> dict[int, int]:
    """Place every forward node, its derivative and its update by their scope."""
    part_of = {}
    for node in computing(graph):
        scope = join(node.scope, node.name.rpartition("/")[2])
        for phase in ("backward", "optimizer"):
            scope = scope.removeprefix(f"{phase}/")
        part_of[node.id] = int(second(scope))
    return part_of


@pytest.mark.parametrize("network", [cnn, transformer])
def test_no_more_bytes_and_no_worse_balance_than_a_cut_by_hand(
    network: Callable[[], Lowered],
) -> None:
    graph = network().graph
    placement = placed(graph, 2)
    hand = described(
        graph, placement.parts, by_hand(graph, lambda scope: not scope.startswith("block_0"))
    )
    assert min(hand.costs) > 0
    assert placement.cut_bytes <= hand.cut_bytes
    assert placement.balance <= max(hand.balance, 1 + TOLERANCE)


@pytest.mark.parametrize("network", [cnn, transformer])
def test_a_training_step_alternates_as_seldom_as_possible(network: Callable[[], Lowered]) -> None:
    compiled = network()
    segments = segments_of(compiled.graph, compiled.arrays, placed(compiled.graph, 2))
    # Part 0 runs forward; part 1 runs forward and backward; part 0 runs the rest of the backward
    # pass and its updates. The updates of part 1 may be a segment of their own.
    assert [segment.part for segment in segments] in ([0, 1, 0], [0, 1, 0, 1])


def test_nodes_are_where_they_are_annotated() -> None:
    @ns.compile
    def two(x: ns.Tensor) -> ns.Tensor:
        with ns.device("worker:1"):
            a = ns.tensor(np.eye(3, dtype=np.float32)) @ x
        with ns.device("worker:0/cpu:0"):
            b = a @ x
        return b + 1

    graph = lowered(two, ns.tensor(np.ones((3, 3), np.float32))).graph
    placement = placed(graph, 7)
    assert placement.parts == ("worker:0", "worker:1")
    where = {node.op: placement.parts[placement.part_of[node.id]] for node in computing(graph)}
    products = [placement.part_of[node.id] for node in computing(graph) if node.op == "matmul"]
    assert products == [1, 0]
    assert where["add"] == "worker:0"  # Not annotated: placed beside its operand.
    assert placement.cut_bytes == 36


def test_a_derivative_is_where_its_node_is_annotated() -> None:
    @ns.compile
    def gradient(x: ns.Tensor) -> Any:
        def inner(x: ns.Tensor) -> ns.Tensor:
            with ns.device("worker:0"):
                a = np.tanh(x @ x)
            with ns.device("worker:1"):
                return (a @ a).sum()

        return ns.grad(inner)(x)

    graph = gradient.graph(ns.tensor(np.ones((3, 3)))).graph
    devices = {node.op: node.device for node in graph.nodes if node.phase == "forward"}
    assert devices["tanh"] == "worker:0"
    assert {node.device for node in graph.nodes if node.phase == "backward"} == {
        "worker:0", "worker:1"
    }  # fmt: skip
    makers = {node.id: node for node in graph.nodes}
    for node in graph.nodes:
        if node.forward is not None:
            assert node.device == makers[node.forward].device, node.name


@pytest.mark.parametrize(
    ("device", "worker"),
    [("worker:1", "worker:1"), ("worker:2/cpu:0", "worker:2"), ("worker", "worker:0"),
     ("cpu", ""), ("cpu:1", ""), ("", ""), ("worker:x", "")],
)  # fmt: skip
def test_the_worker_of_a_device(device: str, worker: str) -> None:
    assert worker_of(device) == worker


# Any graph

PROGRAM = st.lists(st.tuples(*[st.integers(0, 7)] * 3), min_size=1, max_size=24)


def traced(program: list[tuple[int, int, int]], devices: bool) -> Lowered:
    @ns.compile
    def function(x: ns.Tensor, y: ns.Tensor) -> list[ns.Tensor]:
        values = [x, y]
        for kind, i, j in program:
            a, b = values[i % len(values)], values[j % len(values)]
            with ns.device(f"worker:{(i + j) % 3}" if devices and kind != 5 else "cpu"):
                values.append(np.tanh(a) @ b if kind < 3 else a + b if kind < 6 else a * 0.5)
        return values[2:]

    shape = (4, 4)
    return lowered(function, ns.tensor(np.ones(shape)), ns.tensor(np.ones(shape)))


def run_in_order(
    graph: Graph, segments: tuple[Segment, ...], feeds: dict[int, Any]
) -> dict[int, Any]:
    """Run segments in order, each partition with separate memory."""
    memories: dict[int, dict[int, Any]] = {}
    sent: dict[int, Any] = {}
    for segment in segments:
        memory = memories.setdefault(segment.part, {})
        memory.update({value: feeds[value] for value in segment.fed})
        memory.update({value: sent[value] for value in segment.received})
        plan = Plan(segment.graph, segment.arrays)
        outputs = plan.run([memory[value] for value in segment.graph.inputs])
        memory.update(zip(segment.graph.outputs, outputs, strict=True))
        sent.update({value: memory[value] for value in segment.sent})
        for value in segment.dropped:
            memory.pop(value, None)
    assert not any(memories.values()), "something was kept that nobody needs"
    return sent


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(PROGRAM, st.integers(1, 5), st.booleans())
def test_any_graph_is_complete_balanced_and_executable(
    program: list[tuple[int, int, int]], count: int, devices: bool
) -> None:
    compiled = traced(program, devices)
    graph = compiled.graph
    placement = placed(graph, count)
    nodes = computing(graph)
    assert placement.part_of.keys() == {node.id for node in nodes}
    assert set(placement.part_of.values()) <= set(range(len(placement.parts)))
    segments = segments_of(graph, compiled.arrays, placement)
    assert sorted(n.id for s in segments for n in s.nodes) == sorted(node.id for node in nodes)
    assert all(placement.part_of[n.id] == s.part for s in segments for n in s.nodes)
    moved = sum(len(segment.received) for segment in segments)
    assert moved == len(transfers(graph, placement.part_of))
    if not any(worker_of(node.device) for node in nodes):
        specs = {value.id: value.tensor for value in graph.values}
        largest = max(cost_of(node, specs) for node in nodes)
        total = sum(placement.costs)
        share = total / len(placement.parts)
        assert max(placement.costs) <= share * (1 + TOLERANCE) + 2 * largest
    rng = np.random.default_rng(0)
    feeds = {value: rng.standard_normal((4, 4)) for value in graph.inputs}
    sent = run_in_order(graph, segments, feeds)
    whole = Plan(graph, compiled.arrays).run([feeds[value] for value in graph.inputs])
    for value, array in zip(graph.outputs, whole, strict=True):
        assert {**feeds, **compiled.arrays, **sent}[value].tobytes() == array.tobytes()


def test_a_compiled_function_that_runs_plainly_ignores_devices() -> None:
    @ns.compile
    def function(x: ns.Tensor) -> ns.Tensor:
        with ns.device("worker:1"):
            return x * 2

    with ns.disable_compile():
        assert function(ns.tensor(np.ones(2))).numpy().tolist() == [2, 2]
    with pytest.raises(ns.NodescopeError, match=r"compile the function"), ns.device("worker:1"):
        pass
