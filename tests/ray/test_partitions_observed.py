"""Partitions under observation: one run, aligned clocks, stops at a consistent cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.protocol import SetValue
from nodescope.record.recording import Recording
from tests.adapters.driving import debugged, recorded
from tests.ray.networks import cnn, trained

Driver = Callable[[Callable[[], Any]], Callable[[], Any]]


def steps_of(recording: Recording, step: int) -> list[Any]:
    """The executions of compiled nodes in a step, in the order of their numbers."""
    partitioned = {row.node.id for row in recording.nodes() if row.node.device.startswith("worker")}
    return [row for row in recording.executions() if row.step == step and row.node in partitioned]


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
def test_the_events_of_all_workers_are_one_run(driver: Driver, recording: Path, level: str) -> None:
    expected = trained(cnn())
    program = driver(lambda: trained(cnn(), executor="ray", partitions=2))
    assert recorded(recording, program, level=level) == expected
    with Recording.open(recording) as run:
        nodes = {row.node.id: row.node for row in run.nodes()}
        assert {node.device for node in nodes.values()} >= {"worker:0/cpu:0", "worker:1/cpu:0"}
        # nodescope's own tasks are not recorded.
        assert not any(node.dialect == "ray" for node in nodes.values())
        lanes = run.device_table.names()
        assert sorted(name.partition(" · ")[0] for name in lanes.values()) == [
            "worker:0", "worker:1"
        ]  # fmt: skip
        last = steps_of(run, 3)
        assert {lanes[row.lane].partition(" · ")[0] for row in last} == {"worker:0", "worker:1"}
        assert all(row.worker for row in last)  # Workers run side by side, not node by node.
        for row in last:  # Each node runs where it is placed.
            assert nodes[row.node].device.startswith(lanes[row.lane].partition(" · ")[0])
        ended = {row.node: row.start_ns + row.duration_ns for row in last}
        makers = {value: node.id for node in nodes.values() for value in node.outputs}
        begun = {row.node: row.start_ns for row in last}
        for node, start in begun.items():  # Clocks agree: no node begins before its operands.
            for value in nodes[node].inputs:
                if makers.get(value) in ended:
                    assert ended[makers[value]] <= start
        step = next(row for row in run.steps() if row.step == 3)
        assert all(step.start_ns <= row.start_ns for row in last)
        if level == "values":
            loss = next(n for n in nodes.values() if n.op == "cross_entropy")
            seq = next(row.seq for row in last if row.node == loss.id)
            array = run.array(loss.outputs[0], seq)
            assert array is not None
            assert array.tobytes() == expected["losses"][8 if array.itemsize == 4 else 16 :]


def chain(partitions: int, seen: list[Any]) -> Callable[[], Any]:
    def program() -> Any:
        @ns.compile(executor=ns.RayExecutor(partitions=partitions), passes="none")
        def function(x: ns.Tensor) -> ns.Tensor:
            a = np.tanh(x @ x)
            b = np.exp(a @ x)
            c = np.sin(b @ a)
            return np.cos(c @ b) + a

        x = np.random.default_rng(3).standard_normal((6, 6)) / 4
        seen.extend(function(ns.tensor(x)).numpy() for _ in ns.steps(range(3)))
        return seen[-1]

    return program


def test_a_stop_is_a_consistent_cut(driver: Driver, recording: Path) -> None:
    """Before `sin` in step 2, exactly the nodes before it have run, in every partition."""
    seen: list[Any] = []
    with debugged(recording, driver(chain(2, seen)), "before op:sin if step == 2") as run:
        stop = run.stop()
        assert stop is not None
        assert stop.node_name == "sin"
        with Recording.open(recording) as live:
            nodes = {row.node.id: row.node for row in live.nodes()}
            ran = [nodes[row.node].op for row in steps_of(live, 2)]
        assert ran == ["matmul", "tanh", "matmul", "exp", "matmul"]
        assert len(seen) == 1
        run.go_on()
        run.end()
    assert len({array.tobytes() for array in seen}) == 1


def test_an_edit_in_one_partition_reaches_the_others(driver: Driver, recording: Path) -> None:
    seen: list[Any] = []
    with debugged(recording, driver(chain(3, seen)), "op:tanh if step == 2") as run:
        stop = run.stop()
        assert stop is not None
        with Recording.open(recording) as live:
            tanh = next(row.node for row in live.nodes() if row.node.op == "tanh")
        run.controller.command(SetValue(tanh.outputs[0]))
        run.go_on()
        run.end()
    x = np.random.default_rng(3).standard_normal((6, 6)) / 4
    a = np.zeros((6, 6))
    b = np.exp(a @ x)
    expected = np.cos(np.sin(b @ a) @ b) + a
    assert seen[1].tobytes() == expected.tobytes()
    assert seen[0].tobytes() == seen[2].tobytes() != seen[1].tobytes()


@pytest.mark.parametrize("partitions", [2, 4])
def test_at_every_stop_exactly_what_comes_before_has_run(
    driver: Driver, recording: Path, partitions: int
) -> None:
    order = ["matmul", "tanh", "matmul", "exp", "matmul", "sin", "matmul", "cos", "add"]
    seen: list[Any] = []
    breakpoints = [f"op:{op} if step == 2" for op in dict.fromkeys(order)]
    program = driver(chain(partitions, seen))
    with debugged(recording, program, *breakpoints) as run:
        for count in range(1, len(order) + 1):
            assert run.stop() is not None
            with Recording.open(recording) as live:
                nodes = {row.node.id: row.node for row in live.nodes()}
                ran = [nodes[row.node].op for row in steps_of(live, 2)]
            assert ran == order[:count]
            assert len(seen) == 1
            run.go_on()
        run.end()
    assert len({array.tobytes() for array in seen}) == 1


def test_a_segment_that_sends_nothing_reports_too(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        @ns.compile(executor="ray")
        def function(x: ns.Tensor) -> ns.Tensor:
            with ns.device("worker:1"):
                kept = x @ x
            with ns.device("worker:0"):
                sent = np.tanh(x)
            with ns.device("worker:1"):
                return kept @ sent

        x = ns.tensor(np.eye(3))
        return [function(x).numpy() for _ in ns.steps(range(3))]

    recorded(recording, driver(program), level="summary")
    with Recording.open(recording) as run:
        last = steps_of(run, 3)
        assert len(last) == 3
        assert all(row.worker for row in last)
