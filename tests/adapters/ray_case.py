"""The programs of `cases`, as tasks of Ray on a real cluster: make test-ray."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import nodescope as ns
from tests.adapters import ray_tasks as tasks
from tests.adapters.cases import ROWS, STEPS, WEIGHTS, Case
from tests.ray import settings

__all__ = ["RAY", "settings"]

_addresses: list[str] = []


@contextmanager
def _cluster() -> Iterator[None]:
    """A cluster of one processor: each program is a separate driver, with one worker."""
    started = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    _addresses.append(started.address)
    try:
        yield
    finally:
        _addresses.remove(started.address)
        ray.shutdown()
        started.shutdown()


def _driver(program: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(program)
    def joined(*args: Any) -> Any:
        ray.init(address=_addresses[-1], logging_level="ERROR", log_to_driver=False)
        try:
            return program(*args)
        finally:
            ray.shutdown()

    return joined


@_driver
def _train_ray() -> Any:
    w = WEIGHTS
    for _ in ns.steps(range(STEPS)):
        with ns.name_scope("layer"):
            h = tasks.bend.remote(tasks.multiply.remote(ROWS, w))
        loss = ray.get(tasks.average.remote(h))
        w = w - 0.1 * loss
    return loss


@_driver
def _loop_ray(rounds: int) -> Any:
    x = ray.put(ROWS)
    for _ in range(rounds):
        x = tasks.bend.remote(tasks.multiply.remote(x, WEIGHTS))
    return ray.get(x)


@_driver
def _grow_ray(rounds: int) -> Any:
    x = row = ray.put(ROWS[:1])
    for _ in range(rounds):
        x = tasks.pile.remote(x, row)
    return ray.get(x)


@_driver
def _fail_ray() -> None:
    ray.get(tasks.refuse.remote(ROWS))


@_driver
def _differentiate_ray() -> Any:
    product = tasks.multiply.remote(ROWS, ray.put(WEIGHTS))
    return ray.get(tasks.average.remote(tasks.bend.remote(product)))


@_driver
def _write_ray() -> Any:
    w = ray.put(WEIGHTS)
    tasks.average.remote(tasks.multiply.remote(ROWS, w))
    return ray.get(tasks.multiply.remote(ROWS, tasks.lowered.remote(w, 0.1)))


@_driver
def _view_ray() -> Any:
    return ray.get(tasks.average.remote(tasks.row.remote(ROWS, 1)))


@_driver
def _select_ray() -> Any:
    return ray.get(tasks.bend.remote(tasks.positive.remote(ROWS)))


@_driver
def _overflow_ray() -> Any:
    return ray.get(tasks.explode.remote(1e3 * ROWS))


RAY = Case(
    adapter="nodescope.adapters.ray", dialect="ray",
    product="multiply", bend="bend", mean="average",
    train=_train_ray, loop=_loop_ray, grow=_grow_ray, growing="pile",
    fail=_fail_ray, raises=ArithmeticError, differentiate=_differentiate_ray,
    write=_write_ray, written="lowered", view=_view_ray, viewed="row",
    select=_select_ray, selected="positive", opaque=None, obscured="",
    overflow=_overflow_ray, overflowing="explode", weight="put",
    around=_cluster, marks=(pytest.mark.ray, pytest.mark.filterwarnings("default")),
)  # fmt: skip
