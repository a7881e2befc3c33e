"""Loops that mark no steps: the graph of one closes after a few rounds, however long it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.events import GraphExtended, NodeFinished
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
    assert len(definitions(events)) < 6 * (LOOPED + 2)
    assert len(events.of(NodeFinished)) == 2 + 5 * rounds  # each execution is told


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


def test_short_loops_and_steps_are_unrolled_as_they_are() -> None:
    with observed() as events:
        x = ns.tensor(np.ones(3))
        for _ in range(LOOPED):
            x = x + 1.0
        for _ in ns.steps(range(2)):
            y = ns.tensor(np.ones(3))
            for _ in range(10 * LOOPED):
                y = y * 0.5
    made = [node.op for node in definitions(events) if node.op != "tensor"]
    assert made.count("add") == LOOPED
    assert len({node.id for node in definitions(events) if node.op == "multiply"}) == 10 * LOOPED


def test_distinct_operands_stay_distinct_nodes() -> None:
    weights = [ns.parameter(np.full(2, float(each)), name=f"w{each}") for each in range(60)]
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


def test_call_sites_and_callers_tell_loops_apart() -> None:
    def scaled(x: Any) -> Any:
        return x * 2.0

    x = ns.tensor(np.ones(3))
    with observed() as events:
        for _ in range(3 * LOOPED):
            scaled(x)
        for _ in range(LOOPED):
            scaled(x)
    made = [node for node in definitions(events) if node.op == "multiply"]
    assert len(made) == 2 * LOOPED
