"""Compiled graphs: executions belong to the drawn nodes, and stop where tasks do."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.dag import InputNode, MultiOutputNode
from ray.dag.context import DAGContext

from tests.adapters.driving import WAIT_S, debugged
from tests.ray.observing import observed
from tests.ray.programs import Counter
from tests.ray.test_stops import set_value

Driver = Callable[[Callable[[], Any]], Callable[[], Any]]

FIRST, SECOND = "compiled_dag/Counter/add", "compiled_dag/Counter_1/add"


def chain(*values: int) -> list[Any]:
    """Executes a compiled graph of two actors."""
    one, other = Counter.remote(10), Counter.remote(20)
    with InputNode() as given:
        graph = other.add.bind(one.add.bind(given))
    compiled = graph.experimental_compile()
    try:
        return [ray.get(compiled.execute(value)) for value in values]
    finally:
        compiled.teardown(kill_actors=True)


def test_each_execution_is_of_the_drawn_nodes(driver: Driver, recording: Path) -> None:
    with observed(recording, driver(lambda: chain(2, 5))) as run:
        assert run.result == [32, 49]
        assert run.edges(SECOND) == [FIRST]
        assert [len(run.runs(name)) for name in (FIRST, SECOND)] == [2, 2]
        assert [run.value(name) for name in (f"{FIRST}.k", FIRST, SECOND)] == [5, 17, 49]
        first, second = run.runs(FIRST)[-1], run.runs(SECOND)[-1]
        assert first.worker != second.worker
        assert run.attrs(SECOND)["execution_s"] >= 0


def test_arguments_by_position_and_name(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        one, other = Counter.remote(0), Counter.remote(0)
        with InputNode() as given:
            graph = MultiOutputNode([one.add.bind(given[0]), other.add.bind(given["more"])])
        compiled = graph.experimental_compile()
        try:
            return ray.get(compiled.execute(3, more=4))
        finally:
            compiled.teardown(kill_actors=True)

    with observed(recording, driver(program)) as run:
        assert run.result == [3, 4]
        assert [run.value(f"{name}.k") for name in (FIRST, SECOND)] == [3, 4]


def test_what_needs_a_failed_result_did_not_run(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        with pytest.raises(TypeError):
            chain("two")  # type: ignore[arg-type]

    with observed(recording, driver(program)) as run:
        assert "TypeError" in (run.failure(FIRST) or "")
        said = run.failure(SECOND) or ""
        assert said.startswith(f"not run, because {FIRST} failed: TypeError")


def test_a_stop_outlasts_the_time_out_of_the_graph(
    driver: Driver, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = threading.Event()

    def program() -> Any:
        one = Counter.remote(10)
        with InputNode() as given:
            graph = one.add.bind(given)
        monkeypatch.setattr(DAGContext.get_current(), "get_timeout", 0.2)
        compiled = graph.experimental_compile()
        read, reads = compiled._dag_output_fetcher.read, itertools.count(1)

        def counted(timeout: float) -> Any:
            if next(reads) > 1:
                again.set()
            return read(timeout)

        monkeypatch.setattr(compiled._dag_output_fetcher, "read", counted)
        try:
            return ray.get(compiled.execute(2))
        finally:
            compiled.teardown(kill_actors=True)

    with debugged(recording, driver(program), "op:Counter.add") as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == (FIRST, "after")
        assert again.wait(WAIT_S), "the program waits no longer than the graph's time-out"
        set_value(run, FIRST, 50)
        run.go_on()
        assert run.end() == 50


def test_an_edit_of_an_argument(driver: Driver, recording: Path) -> None:
    with debugged(recording, driver(lambda: chain(2, 3)), f"before {SECOND}") as run:
        assert run.stop() is not None
        set_value(run, FIRST, 100)
        run.go_on()
        assert run.stop() is not None
        assert run.end() == [120, 135]
