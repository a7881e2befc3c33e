"""Partitions whose workers die or do not answer: an error in time, or the right result."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.on_ray import pool
from nodescope.errors import WorkerError
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.depth import some
from tests.ray.networks import cnn, trained

LIMIT_S = 40.0
"""The longest time of a call: twice the executor's time-out here."""


def executor_of(restarts: int = 0, partitions: int = 2) -> ns.RayExecutor:
    return ns.RayExecutor(partitions=partitions, timeout_s=LIMIT_S / 2, restarts=restarts)


def products(executor: ns.RayExecutor) -> Any:
    @ns.compile(executor=executor, passes="none")
    def function(x: ns.Tensor) -> ns.Tensor:
        y = x
        for _ in range(8):
            y = np.tanh(y @ x)
        return y

    return function


X = np.random.default_rng(0).standard_normal((600, 600)).astype(np.float32) / 30


def expected() -> bytes:
    y = X
    for _ in range(8):
        y = np.tanh(y @ X)
    return y.tobytes()


def kill(executor: ns.RayExecutor, part: int) -> int:
    """Kill the process of a partition, and return its number."""
    pid = executor.pool.member(f"worker:{part}").pid
    os.kill(pid, signal.SIGKILL)
    return pid


def test_a_worker_starts_on_a_node_that_has_just_joined(
    connected: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two other nodes are known at first; each worker is on a third."""
    others = {"a": "10.0.0.1", "b": "10.0.0.2"}
    addresses_of = pool.addresses_of
    calls = itertools.count()

    def joining(ray: Any) -> dict[str, str]:
        return {**others, **addresses_of(ray)} if next(calls) % 2 else others

    monkeypatch.setattr(pool, "addresses_of", joining)
    # Place workers by resources: by node, a worker would wait for a node that does not exist.
    placed: dict[str, dict[str, float]] = {"worker:0": {}, "worker:1": {}}
    executor = ns.RayExecutor(partitions=2, timeout_s=LIMIT_S / 2, resources=placed)
    assert products(executor)(ns.tensor(X)).numpy().tobytes() == expected()
    assert next(calls) == 4
    assert re.fullmatch(r"node \d, [\d.]+", executor.pool.member("worker:1").place)


def test_a_dead_worker_is_named_with_its_nodes_and_line(connected: None) -> None:
    executor = executor_of()
    function = products(executor)
    function(ns.tensor(X))
    pid = kill(executor, 1)
    with pytest.raises(WorkerError) as raised:
        function(ns.tensor(X))
    error = raised.value
    assert error.part == "worker:1"
    assert f"function: worker:1 (pid {pid}) died while it ran" in error.message
    assert "nodes from '" in error.message
    assert "test_partitions_faults.py" in error.source
    assert error.node > 0
    # The next call starts another worker.
    assert function(ns.tensor(X)).numpy().tobytes() == expected()


@pytest.mark.parametrize("seed", some(range(50), 13))
def test_killed_at_any_moment(connected: None, seed: int) -> None:
    """Each call gives the right result, or names the worker that died; none hangs."""
    rng = random.Random(seed)
    executor = executor_of(restarts=seed % 2)
    function = products(executor)
    function(ns.tensor(X))
    start = time.perf_counter()
    function(ns.tensor(X))
    took = time.perf_counter() - start
    part = rng.randrange(2)
    timer = threading.Timer(rng.uniform(0, took), kill, (executor, part))
    timer.start()
    begun = time.perf_counter()
    errors = []
    for _ in range(3):
        try:
            assert function(ns.tensor(X)).numpy().tobytes() == expected()
        except WorkerError as error:
            errors.append(error)
    assert time.perf_counter() - begun < 3 * LIMIT_S
    timer.join()
    assert len(errors) <= 1
    assert all(error.part == f"worker:{part}" for error in errors)
    if seed % 2:
        assert not errors


def test_training_resumes_from_the_last_step(connected: None) -> None:
    whole = trained(cnn(4))
    executor = executor_of(restarts=1)
    network = cnn(4)

    class Killing(list[Any]):
        """Kills a worker before the third batch is read."""

        def __iter__(self) -> Any:
            for number, batch in enumerate(super().__iter__()):
                if number == 2:
                    kill(executor, 0)
                yield batch

    network = network._replace(batches=Killing(network.batches))
    assert trained(network, executor=executor) == whole


def test_a_failed_step_leaves_the_state_as_it_was(connected: None) -> None:
    executor = executor_of()
    weight = ns.parameter(np.ones((3, 3)), name="weight")

    @ns.compile(executor=executor)
    def step(x: ns.Tensor) -> ns.Tensor:
        ns.assign(weight, weight @ x)
        return weight.sum()

    step(ns.tensor(np.eye(3) * 2))
    before = weight.numpy().copy()
    kill(executor, 1)
    with pytest.raises(WorkerError):
        step(ns.tensor(np.eye(3) * 2))
    assert weight.numpy().tobytes() == before.tobytes()


def test_a_worker_that_does_not_answer(connected: None) -> None:
    executor = ns.RayExecutor(partitions=2)
    function = products(executor)
    function(ns.tensor(X))
    limit_s = executor.timeout_s
    # Set only now, because workers start slowly on a busy machine.
    object.__setattr__(executor, "timeout_s", 3)
    pid = executor.pool.member("worker:0").pid
    os.kill(pid, signal.SIGSTOP)
    try:
        begun = time.perf_counter()
        with pytest.raises(WorkerError, match=r"worker:0 \(pid \d+\) has not ended .* within 3 s"):
            function(ns.tensor(X))
        assert time.perf_counter() - begun < LIMIT_S
    finally:
        os.kill(pid, signal.SIGKILL)
        object.__setattr__(executor, "timeout_s", limit_s)
    assert function(ns.tensor(X)).numpy().tobytes() == expected()


def test_a_cluster_without_room_says_so(connected: None) -> None:
    executor = ns.RayExecutor(partitions=2, num_cpus=64, timeout_s=3)
    with pytest.raises(WorkerError, match=r"worker:0 did not start within 3 s.*num_cpus=64"):
        products(executor)(ns.tensor(X))


def test_a_worker_that_dies_as_it_starts_is_reported_with_the_cause(
    connected: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dies:
        def process(self) -> None:
            os._exit(3)

    monkeypatch.setattr(pool, "Worker", Dies)
    with pytest.raises(WorkerError, match=r"worker:0 died before it had started\. .*process"):
        products(executor_of())(ns.tensor(X))


@pytest.mark.parametrize("alone", [False, True], ids=["together", "node by node"])
def test_the_recording_is_complete_up_to_the_failure(
    driver: Callable[[Callable[[], Any]], Callable[[], Any]], recording: Path, alone: bool
) -> None:
    def program() -> Any:
        executor = executor_of()
        function = products(executor)
        for number in ns.steps(range(3)):
            if number == (0 if alone else 2):  # The first call runs node by node.
                if alone:
                    executor.pool.member("worker:1")
                kill(executor, 1)
            function(ns.tensor(X))

    with pytest.raises(WorkerError) as raised:
        recorded(recording, driver(program), level="summary")
    assert raised.value.part == "worker:1"
    with Recording.open(recording) as run:
        nodes = {row.node.id: row.node for row in run.nodes()}
        step = 1 if alone else 3
        rows = [row for row in run.executions() if row.step == step
                and nodes[row.node].device.startswith("worker")]  # fmt: skip
        failed = [row for row in rows if run.failure(row.seq)]
        assert [nodes[row.node].device for row in failed] == ["worker:1/cpu:0"]
        assert "worker:1" in str(run.failure(failed[0].seq))
        first = [row for row in rows if nodes[row.node].device == "worker:0/cpu:0"]
        assert len(first) == len([n for n in nodes.values() if n.device == "worker:0/cpu:0"])
