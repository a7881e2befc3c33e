"""Compiled graphs in partitions on Ray: bit-identical to one process, in all three phases."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
import ray

import nodescope as ns
from tests.ray.networks import Network, cnn, computed, trained, transformer

NETWORKS = pytest.mark.parametrize("network", [cnn, transformer], ids=["cnn", "transformer"])


@NETWORKS
def test_training_gives_the_same_bits(connected: None, network: Callable[[], Network]) -> None:
    expected = trained(network())
    for partitions in (1, 2, 4):
        assert trained(network(), executor="ray", partitions=partitions) == expected, partitions


@NETWORKS
def test_a_backward_pass_outside_gives_the_same_bits(
    connected: None, network: Callable[[], Network]
) -> None:
    expected = computed(network())
    for partitions in (1, 2, 4):
        assert computed(network(), executor="ray", partitions=partitions) == expected, partitions


def test_nodes_run_where_they_are_annotated(connected: None) -> None:
    executor = ns.RayExecutor()

    @ns.compile(executor=executor)
    def function(x: ns.Tensor) -> ns.Tensor:
        with ns.device("worker:0"):
            y = np.tanh(x @ x)
        with ns.device("worker:1"):
            z = y @ x
        with ns.device("worker:0/cpu:0"):
            return z + y

    x = np.random.default_rng(1).standard_normal((8, 8))
    expected = np.tanh(x @ x) @ x + np.tanh(x @ x)
    assert function(ns.tensor(x)).numpy().tobytes() == expected.tobytes()
    members = [executor.pool.member(f"worker:{i}") for i in range(2)]
    assert len({member.pid for member in members}) == 2


def test_results_can_be_written_to(connected: None) -> None:
    @ns.compile(executor="ray", partitions=2)
    def function(x: ns.Tensor) -> tuple[ns.Tensor, ns.Tensor]:
        return x + 1, x.reshape(-1)

    more, same = function(ns.tensor(np.zeros((64, 1024))))
    more[0, 0] = 7
    same[0] = 3
    assert more.numpy()[0, :2].tolist() == [7, 1]
    assert same.numpy()[:2].tolist() == [3, 0]


def test_a_result_that_is_an_argument_or_a_constant(connected: None) -> None:
    constant = np.arange(3.0)

    @ns.compile(executor="ray")
    def function(x: ns.Tensor) -> tuple[ns.Tensor, ns.Tensor, ns.Tensor]:
        return x, ns.tensor(constant), x * 2

    results = function(ns.tensor(np.ones(2)))
    assert [result.numpy().tolist() for result in results] == [[1, 1], [0, 1, 2], [2, 2]]


def test_an_error_of_the_program_is_its_own_with_its_line(connected: None) -> None:
    @ns.compile(executor="ray")
    def function(x: ns.Tensor, at: ns.Tensor) -> ns.Tensor:
        return (x * 2)[at] + 1

    with pytest.raises(IndexError) as raised:
        function(ns.tensor(np.ones(3)), ns.tensor(np.array([7])))
    assert "test_partitions.py" in str(raised.value)
    fine = function(ns.tensor(np.ones(3)), ns.tensor(np.array([1])))
    assert fine.numpy().tolist() == [3]


def test_loops_and_branches(connected: None) -> None:
    def function(x: ns.Tensor) -> ns.Tensor:
        carried, rows = ns.scan(lambda c, row: (c + row, c * row), x[0], x)
        return ns.cond(carried.sum() > 0, lambda: rows * 2, lambda: rows - 1) @ x.T

    x = ns.tensor(np.random.default_rng(2).standard_normal((5, 5)))
    here = ns.compile(function)(x)
    there = ns.compile(function, executor="ray", partitions=3)(x)
    assert here.numpy().tobytes() == there.numpy().tobytes()


def test_calls_of_several_threads(connected: None) -> None:
    from concurrent.futures import ThreadPoolExecutor

    @ns.compile(executor="ray", partitions=2)
    def function(x: ns.Tensor) -> ns.Tensor:
        return np.tanh(x @ x) @ x

    inputs = [np.random.default_rng(i).standard_normal((16, 16)) for i in range(12)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda x: function(ns.tensor(x)).numpy(), inputs))
    for x, result in zip(inputs, results, strict=True):
        assert result.tobytes() == (np.tanh(x @ x) @ x).tobytes()


def test_letting_go_of_a_graph_does_not_start_ray_again(connected: None) -> None:
    compiled = ns.compile(lambda x: np.tanh(x @ x), executor="ray")
    compiled(ns.tensor(np.ones((2, 2))))
    ray.shutdown()
    del compiled
    gc.collect()
    assert not ray.is_initialized()
