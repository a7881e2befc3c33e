"""Tasks and methods that yield their results: their executions, and the users of their items."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.adapters.driving import debugged
from tests.ray.observing import observed
from tests.ray.programs import AsyncSource, Source, numbers, task1
from tests.ray.test_stops import set_value

Driver = Callable[[Callable[[], Any]], Callable[[], Any]]

FORMS = {
    "task": (lambda: numbers, "numbers"),
    "method": (lambda: Source.remote().numbers, "Source/numbers"),
    "coroutine": (lambda: AsyncSource.remote().numbers, "AsyncSource/numbers"),
}


@pytest.mark.parametrize(("made", "name"), FORMS.values(), ids=FORMS)
def test_items_go_from_the_generator_to_their_users(
    driver: Driver, recording: Path, made: Callable[[], Any], name: str
) -> None:
    def program() -> Any:
        items = made().options(num_returns="streaming").remote(3)
        return ray.get([task1.remote(item, 10) for item in items])

    with observed(recording, driver(program)) as run:
        assert run.result == [10, 11, 12]
        assert run.attrs(name)["result"] == "3 yielded"
        assert run.attrs(name)["execution_s"] > 0
        for user in ("task1", "task1_1", "task1_2"):
            assert run.edges(user)[0] == name


def test_results_of_a_known_number_are_the_items(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        return ray.get(Source.remote().numbers.options(num_returns=2).remote(2))

    with observed(recording, driver(program)) as run:
        assert run.result == [0, 1]
        assert [run.value("Source/numbers", port) for port in range(2)] == [0, 1]


def test_a_generator_that_raises_has_failed(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        items = Source.remote().bad.options(num_returns="streaming").remote(7)
        first = ray.get(next(items))
        with pytest.raises(ray.exceptions.RayTaskError):
            ray.get(next(items))
        return first

    with observed(recording, driver(program)) as run:
        assert run.result == 7
        assert run.failure("Source/bad") == "ValueError: bad 7"


@pytest.mark.parametrize(("made", "name"), FORMS.values(), ids=FORMS)
def test_an_argument_is_edited_before_the_first_item(
    driver: Driver, recording: Path, made: Callable[[], Any], name: str
) -> None:
    def program() -> Any:
        return ray.get(list(made().options(num_returns="streaming").remote(3)))

    with debugged(recording, driver(program), f"before {name}") as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == (name, "before")
        set_value(run, f"{name}.n", 1)
        run.go_on()
        assert run.end() == [0]


def test_the_end_is_a_stop(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        return ray.get(list(Source.remote().numbers.options(num_returns="streaming").remote(2)))

    with debugged(recording, driver(program), "op:Source.numbers") as run:
        assert [stop.when for stop in run.stops()] == ["after"]
        assert run.end() == [0, 1]
