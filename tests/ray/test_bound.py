"""Bind graphs: drawn before they run, executed on the drawn nodes, compared with the drawing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.dag import InputNode, MultiOutputNode

from nodescope.protocol import SetValue
from tests.adapters.driving import debugged
from tests.ray.observing import observed
from tests.ray.programs import Counter, halves, task1, task2, total

Driver = Callable[[Callable[[], Any]], Callable[[], Any]]


def bound() -> Any:
    with InputNode() as given:
        return task2.bind(task1.bind(given, 3), 4)


def test_each_execution_is_of_the_drawn_nodes(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        graph = bound()
        return [ray.get(graph.execute(2)), ray.get(graph.execute(5))]

    with observed(recording, driver(program)) as run:
        assert run.result == [20, 32]
        assert run.tasks == ["dag/task1", "dag/task2"]
        assert run.edges("dag/task2") == ["dag/task1", "dag/task2.b"]
        assert run.edges("dag/task1") == ["dag/task1.a", "dag/task1.b"]
        assert [len(run.runs(name)) for name in run.tasks] == [2, 2]
        assert run.value("dag/task1.a") == 5
        said = [row.text for row in run.recording.logs() if row.text.startswith("dag")]
        assert said == []


def test_a_bound_graph_is_drawn_before_it_runs(driver: Driver, recording: Path) -> None:
    with debugged(
        recording, driver(lambda: ray.get(bound().execute(2))), stop_on_entry=True
    ) as run:
        assert run.stop() is not None
        gate = run.run.gate
        assert gate is not None
        nodes = {node.name: node for node in gate._catalog.nodes.values()}
        assert {"dag/task1", "dag/task2"} <= nodes.keys()
        run.controller.command(SetValue(value=nodes["dag/task1.a"].outputs[0], number=7))
        run.go_on()
        assert run.end() == 40


def test_actors_containers_and_several_results(driver: Driver, recording: Path) -> None:
    import numpy as np

    def program() -> Any:
        with InputNode() as given:
            counter = Counter.bind(10)
            one, other = counter.add.bind(given), counter.add.bind(1)
            graph = MultiOutputNode([total.bind({"parts": [one, other]}), halves.bind(np.ones(4))])
        return [ray.get(graph.execute(x)[0]) for x in (1, 2)]

    with observed(recording, driver(program)) as run:
        assert run.result == [11 + 12, 12 + 13]
        assert set(run.tasks) == {
            "dag/Counter/__init__", "dag/Counter/add", "dag/Counter/add_1", "dag/total",
            "dag/halves",
        }  # fmt: skip
        assert run.edges("dag/total") == ["dag/Counter/add", "dag/Counter/add_1"]
        assert len(run.runs("dag/Counter/add")) == 2


def test_differences_from_the_bound_graph_are_reported(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        with InputNode() as given:
            graph = task1.bind(given, given)
        return ray.get(graph.execute("text"))

    with observed(recording, driver(program)) as run:
        assert run.result == "texttext"
        (said,) = [row.text for row in run.recording.logs() if row.text.startswith("dag")]
        assert said == "dag: 0 of 1 bound tasks were submitted as bound, and 1 otherwise"
