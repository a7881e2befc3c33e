"""Breakpoints before and after tasks and methods, conditions, steps and edits."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray

from nodescope.protocol import SetValue, StepNode
from nodescope.record.recording import Recording
from tests.adapters.driving import Debugged, debugged
from tests.ray import programs
from tests.ray.programs import Counter, Waiter, fails, large, outer, slow, task1, task2

Driver = Callable[[Callable[[], Any]], Callable[[], Any]]


def set_value(run: Debugged, name: str, number: float, index: str = "") -> None:
    """Change the newest value of a node's first output."""
    gate = run.run.gate
    assert gate is not None
    node = next(node for node in gate._catalog.nodes.values() if node.name == name)
    run.controller.command(SetValue(value=node.outputs[0], number=number, index=index))


def live(run: Debugged, name: str) -> Any:
    gate = run.run.gate
    assert gate is not None
    node = next(node for node in gate._catalog.nodes.values() if node.name == name)
    return gate.live_value(node.outputs[0])


def test_an_edit_of_a_result_is_what_the_program_goes_on_with(
    driver: Driver, recording: Path
) -> None:
    with debugged(recording, driver(programs.founding), "op:task1") as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == ("task1", "after")
        assert stop.stack[0].function == "founding"
        set_value(run, "task1", 50)
        run.go_on()
        assert run.stop() is None
        assert run.end() == 200


def test_an_edit_of_an_argument(driver: Driver, recording: Path) -> None:
    with debugged(recording, driver(programs.founding), "before task1") as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == ("task1", "before")
        set_value(run, "task1.a", 7)
        run.go_on()
        assert run.end() == 40


def test_conditions_on_arguments_and_results(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        return ray.get([task1.remote(x, 1) for x in range(6)])

    breakpoints = ("op:task1 if inputs[0] == 2", "op:task1 if value > 5")
    with debugged(recording, driver(program), *breakpoints) as run:
        # Tasks run side by side: either result may be there first.
        assert sorted(stop.text.split()[1] for stop in run.stops()) == ["1:", "2:"]
        assert run.end() == [1, 2, 3, 4, 5, 6]


def test_steps_go_from_task_to_task(driver: Driver, recording: Path) -> None:
    with debugged(recording, driver(programs.founding), stop_on_entry=True) as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when, stop.reason) == ("task1", "before", "entry")
        for name in ("task1", "task2"):
            run.controller.command(StepNode())
            stop = run.stop()
            assert stop is not None
            assert (stop.node_name, stop.when) == (name, "after")
        run.go_on()
        assert run.end() == 20


def test_methods_of_actors(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        counter, waiter = Counter.remote(10), Waiter.remote()
        return ray.get([counter.add.remote(1), waiter.double.remote(4)])

    with debugged(recording, driver(program), "op:Counter.add", "before op:Waiter.double") as run:
        for stop in run.stops():
            if stop.node_name == "Counter/add":
                set_value(run, "Counter/add", 100)
            else:
                set_value(run, "Waiter/double.x", 5)
        assert run.end() == [100, 10]


def test_tasks_of_tasks(driver: Driver, recording: Path) -> None:
    with debugged(
        recording, driver(lambda: ray.get(outer.remote(2))), "before outer/task1_1"
    ) as run:
        stop = run.stop()
        assert stop is not None
        set_value(run, "outer/task1.a_1", 10)
        run.go_on()
        assert run.end() == 11


def test_a_stopped_task_gives_its_processors_back(driver: Driver, recording: Path) -> None:
    ran = []

    def program() -> Any:
        held = [task1.remote(x, 1) for x in range(2)]  # One for each processor.
        ran.append(ray.get(task2.remote(3, 4), timeout=60))
        return ray.get(held)

    with debugged(recording, driver(program), "before op:task1") as run:
        assert run.stop() is not None
        deadline = time.monotonic() + 60
        while not ran and time.monotonic() < deadline:
            run.controller.wait(0.1)
        assert ran == [12]
        assert len(list(run.stops())) == 2
        assert run.end() == [1, 2]


def test_elements_are_fetched_from_the_waiting_task(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        return float(ray.get(large.remote(100_000))[5])

    with debugged(
        recording, driver(program), "op:large if value[99_999] > 9", level="summary"
    ) as run:
        assert run.stop() is not None
        array = live(run, "large")
        assert array.content.data is None
        from nodescope.arrays import to_numpy

        assert to_numpy(array, (slice(3, 6),)).tolist() == [3, 4, 5]
        set_value(run, "large", -1, "5")
        run.go_on()
        assert run.end() == -1


def test_where_a_task_raises(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        try:
            return ray.get(fails.remote(3))
        except ValueError as error:
            return str(error.cause if hasattr(error, "cause") else error)

    with debugged(recording, driver(program)) as run:
        stop = run.stop()
        assert stop is not None
        assert stop.reason == "exception"
        assert stop.node_name == "fails"
        assert stop.stack[0].function == "fails"
        run.go_on()
        assert "bad 3" in run.end()


def test_without_breakpoints_tasks_ask_nothing(driver: Driver, recording: Path) -> None:
    """Tasks without a breakpoint do not ask the run."""
    from unittest.mock import patch

    from nodescope.adapters.ray.book import Book

    asked: list[str] = []
    original = Book._asked

    def counted(self: Book, worker: Any, task: Any, message: Any) -> None:
        asked.append(message.ran.name)
        original(self, worker, task, message)

    def program() -> Any:
        return ray.get([task2.remote(task1.remote(x, 1), 2) for x in range(10)])

    with (
        patch.object(Book, "_asked", counted),
        debugged(recording, driver(program), "op:task2 if value > 100") as run,
    ):
        assert not list(run.stops())
        assert run.end() == [2 * x + 2 for x in range(10)]
    assert asked == ["task2"] * 10


def test_a_value_is_the_class_that_it_was(driver: Driver, recording: Path) -> None:
    @ray.remote
    def kinds(a: int, b: float, c: list[int], d: np.ndarray) -> list[str]:
        return [type(x).__name__ for x in (a, b, c, d)] + [repr(c)]

    def program() -> Any:
        return ray.get(kinds.remote(1, 2.0, [1, 2], d=np.zeros(2)))

    with debugged(recording, driver(program), "before op:kinds") as run:
        assert run.stop() is not None
        for name in ("a", "b", "c", "d"):
            set_value(run, f"kinds.{name}", 3)
        run.go_on()
        assert run.end() == ["int", "float", "list", "ndarray", "[3, 3]"]


def test_other_tasks_go_on_and_are_recorded_while_one_is_stopped(
    driver: Driver, recording: Path
) -> None:
    def program() -> Any:
        held = task1.remote(1, 1)
        return ray.get([slow.remote(1, 0.0), held])

    with debugged(recording, driver(program), "before op:task1") as run:
        assert run.stop() is not None
        deadline = time.monotonic() + 60
        done = False
        while not done and time.monotonic() < deadline:
            run.run.recorder.flush()
            with Recording.open(recording) as opened:
                names = {row.node.id: row.node.name for row in opened.nodes()}
                done = "slow" in [names[row.node] for row in opened.executions()]
        assert done
        run.go_on()
        assert run.end() == [1, 2]


def test_a_stopped_task_whose_worker_is_killed(
    driver: Driver, recording: Path, tmp_path: Path
) -> None:
    """The stop ends, and the program gets Ray's error, or the next attempt."""
    argument = programs.Unpickled(tmp_path / "pids")

    def program() -> Any:
        return ray.get(task1.options(max_retries=1).remote(argument, 1))

    with debugged(recording, driver(program), "before op:task1") as run:
        stop = run.stop()
        assert stop is not None
        run.run.recorder.flush()
        (pid,) = argument.pids()
        os.kill(pid, signal.SIGKILL)  # And no other: the next attempt may run in any of them.
        again = next(other for other in run.stops() if other.seq != stop.seq)
        assert again.node_name == "task1"
        assert run.end() == 2
    with Recording.open(recording) as opened:
        failures = [text for row in opened.executions() if (text := opened.failure(row.seq))]
    assert len(failures) == 1
    assert "died while it ran, attempt 1 of 2" in failures[0]


def test_a_stopped_task_without_news_from_the_run_continues(
    driver: Driver, recording: Path
) -> None:
    """It waits ten seconds for a sign of life."""
    from unittest.mock import patch

    from nodescope.adapters.ray.hub import Hub
    from nodescope.adapters.ray.worker import SILENT_S

    with (
        patch.object(Hub, "_beat", lambda hub: None),
        debugged(recording, driver(programs.founding), "before op:task1") as run,
    ):
        assert run.stop() is not None
        began = time.monotonic()
        assert run._ended.wait(6 * SILENT_S)  # No command continues it.
        assert time.monotonic() - began > SILENT_S / 2
        assert run.result == 20
