"""A run across two nodes, each with its own processes and object store."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

import nodescope as ns
from nodescope.errors import WorkerError
from nodescope.record.recording import Recording
from tests.adapters.driving import debugged, recorded
from tests.ray.networks import cnn, trained
from tests.ray.observing import observed
from tests.ray.programs import large, task1


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a cluster of two nodes, which have the resources ``first`` and ``second``."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "resources": {"first": 1}},
    )
    cluster.add_node(num_cpus=1, resources={"second": 1})
    try:
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


def across(address: str) -> float:
    """An array made on one node and read on the other."""
    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    try:
        made = large.options(resources={"first": 1}).remote(200_000)
        moved = task1.options(resources={"second": 1}).remote(made, made)
        return float(np.sum(ray.get(moved)))
    finally:
        ray.shutdown()


def test_a_run_across_two_nodes(address: str, tmp_path: Path) -> None:
    expected = float(np.sum(np.arange(200_000.0) * 2))
    with observed(tmp_path / "run.nscope", lambda: across(address), "summary") as run:
        assert run.result == expected
        assert run.edges("task1") == ["large", "large"]
        one, other = run.runs("large")[0], run.runs("task1")[0]
        assert one.worker != other.worker
        assert run.attrs("task1")["resources"] == "{'second': 1}"
        lanes: dict[int, str] = run.recording.device_table.names()
        nodes = {lanes[row.lane].partition(" · ")[0] for row in (one, other)}
        assert nodes == {"node 1", "node 2"}


def test_a_stop_on_the_other_node(address: str, tmp_path: Path) -> None:
    def program() -> Any:
        return across(address)

    with debugged(tmp_path / "run.nscope", program, "before op:task1") as run:
        stop = run.stop()
        assert stop is not None
        assert stop.node_name == "task1"
        run.go_on()
        assert run.end() == float(np.sum(np.arange(200_000.0) * 2))


def test_a_dead_worker_is_named_with_its_node(address: str) -> None:
    executor = ns.RayExecutor(partitions=2, timeout_s=60)

    @ns.compile(executor=executor)
    def function(x: ns.Tensor) -> ns.Tensor:
        with ns.device("worker:0"):
            y = np.tanh(x)
        with ns.device("worker:1"):
            return np.exp(y)

    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    try:
        function(ns.tensor(np.ones(4)))
        member = executor.pool.member("worker:1")
        nodes = {
            node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]
        }
        where = f"node {sorted(nodes).index(member.node) + 1}, {nodes[member.node]}"
        os.kill(member.pid, signal.SIGKILL)
        with pytest.raises(WorkerError) as raised:
            function(ns.tensor(np.ones(4)))
        assert f"worker:1 (pid {member.pid} on {where}) died while it ran 'exp'" in str(
            raised.value
        )
    finally:
        ray.shutdown()


def test_partitions_on_both_nodes(address: str, tmp_path: Path) -> None:
    expected = trained(cnn())
    executor = ns.RayExecutor(partitions=2)

    def program() -> Any:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        try:
            result = trained(cnn(), executor=executor)
            members = [executor.pool.member(f"worker:{i}") for i in range(2)]
            assert len({member.node for member in members}) == 2
        finally:
            ray.shutdown()
        return result

    path = tmp_path / "run.nscope"
    assert recorded(path, program, level="timing") == expected
    with Recording.open(path) as run:
        places = {tuple(name.split(" · ")[:2]) for name in run.device_table.names().values()}
    assert {node for node, _ in places} == {"node 1", "node 2"}
    assert {part for _, part in places} == {"worker:0", "worker:1"}
