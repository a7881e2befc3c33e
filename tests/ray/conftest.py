"""Fixtures: a real cluster for each module, which each program joins as a separate driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.e2e.conftest import browser, page, start, window
from tests.ray import settings

__all__ = ["browser", "page", "settings", "start", "window"]

os.environ["PYTHONFAULTHANDLER"] = "1"  # a program that does not end says where, see `killing`


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # Ray warns of the sockets and processes that it leaves behind.
        item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of one node with two processors."""
    started = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
    try:
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


@pytest.fixture
def driver(cluster: Cluster) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Wraps a function into a program that joins the cluster, and leaves it at the end."""

    def of(program: Callable[[], Any]) -> Callable[[], Any]:
        def joined() -> Any:
            ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
            try:
                return program()
            finally:
                ray.shutdown()

        return joined

    return of


@pytest.fixture
def connected(cluster: Cluster) -> Iterator[None]:
    """This process as a driver of the cluster."""
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """The path of a recording."""
    return tmp_path / "run.nscope"
