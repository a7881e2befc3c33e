"""Observed programs give the same results, and a graph of their tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

import nodescope as ns
from tests.ray import programs
from tests.ray.observing import observed
from tests.ray.programs import (
    Counter,
    Waiter,
    fails,
    fails_once,
    halves,
    large,
    outer,
    slow,
    task1,
    task2,
    total,
)

Driver = Callable[[Callable[[], Any]], Callable[[], Any]]


def test_the_founding_example(driver: Driver, recording: Path) -> None:
    with observed(recording, driver(programs.founding)) as run:
        assert run.result == 20
        assert run.tasks == ["task1", "task2"]
        assert run.edges("task1") == ["task1.a", "task1.b"]
        assert run.edges("task2") == ["task1", "task2.b"]
        names = ("task1.a", "task1.b", "task1", "task2.b", "task2")
        assert [run.value(name) for name in names] == [2, 3, 5, 4, 20]
        task = run.nodes["task2"]
        assert task.role == "task"
        assert task.dialect == "ray"
        assert task.native == "ray::task2"
        assert task.source is not None
        assert Path(task.source.file).name == "programs.py"
        assert task.source.function == "founding"


def test_scopes_that_the_program_opens(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        with ns.name_scope("search"):
            counter = Counter.remote(1)
            held = [counter.add.remote(1), outer.remote(1)]
        return ray.get([*held, task1.remote(1, 1)])

    with observed(recording, driver(program)) as run:
        assert sorted(run.tasks) == [
            "search/Counter/__init__", "search/Counter/add", "search/outer", "search/outer/task1",
            "task1",
        ]  # fmt: skip


def test_times_and_places_of_a_task(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        return ray.get(task1.remote(slow.remote(1, 0.2), 1))

    with observed(recording, driver(program)) as run:
        attrs = run.attrs("task1")
        assert attrs["waiting_s"] >= 0.2
        assert attrs["scheduling_s"] >= 0
        assert attrs["transfer_s"] >= 0
        assert 0 <= attrs["execution_s"] < 0.2
        assert run.attrs("slow")["execution_s"] >= 0.2
        ran, before = run.runs("task1")[0], run.runs("slow")[0]
        assert ran.worker > 0
        assert ran.start_ns >= before.start_ns + before.duration_ns


def test_references_within_containers_are_edges(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        return ray.get(total.remote({"parts": [task1.remote(1, 1), task1.remote(2, 2)]}))

    with observed(recording, driver(program)) as run:
        assert run.result == 6
        assert run.edges("total") == ["task1", "task1_1"]


def test_tasks_of_tasks_are_in_the_scope_of_their_caller(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        return ray.get([outer.remote(2), outer.remote(1)])

    with observed(recording, driver(program)) as run:
        assert run.result == [2, 0]
        assert set(run.tasks) == {
            "outer", "outer_1", "outer/task1", "outer/task1_1", "outer_1/task1",
        }  # fmt: skip
        source = run.nodes["outer/task1"].source
        assert source is not None
        assert source.function.startswith("outer")


def test_an_actor_is_a_scope(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        one, other = Counter.remote(10), Counter.remote(start=20)
        return ray.get([one.add.remote(1), other.add.remote(one.add.remote(2))])

    with observed(recording, driver(program)) as run:
        assert run.result == [11, 33]
        assert set(run.tasks) == {
            "Counter/__init__", "Counter_1/__init__", "Counter/add", "Counter/add_1",
            "Counter_1/add",
        }  # fmt: skip
        assert run.edges("Counter_1/add") == ["Counter/add_1"]
        assert run.edges("Counter_1/__init__") == ["Counter_1/__init__.start"]
        method = run.nodes["Counter/add"]
        assert method.op == "Counter.add"
        assert method.control_inputs == (run.nodes["Counter/__init__"].id,)
        assert run.runs("Counter/add")[0].worker == run.runs("Counter/__init__")[0].worker
        assert run.runs("Counter/add")[0].worker != run.runs("Counter_1/add")[0].worker


def test_methods_that_are_coroutines(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        waiter = Waiter.remote()
        return ray.get([waiter.double.remote(x) for x in range(5)])

    with observed(recording, driver(program)) as run:
        assert run.result == [0, 2, 4, 6, 8]
        assert [run.value(name) for name in run.tasks if "double" in name] == [0, 2, 4, 6, 8]


def test_several_results_are_ports(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        low, high = halves.remote(np.arange(4.0))
        return ray.get(task1.remote(high, low))

    with observed(recording, driver(program)) as run:
        assert run.result.tolist() == [2.0, 4.0]
        assert len(run.nodes["halves"].outputs) == 2
        assert run.value("halves", 1).tolist() == [2.0, 3.0]
        assert run.nodes["task1"].inputs == run.nodes["halves"].outputs[::-1]


def test_objects_that_were_put(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        shared = ray.put(np.ones(3))
        return ray.get(task1.remote(shared, shared)).sum()

    with observed(recording, driver(program)) as run:
        assert run.result == 6
        assert run.edges("task1") == ["put", "put"]
        assert run.value("put").tolist() == [1, 1, 1]


@pytest.mark.parametrize("level", ["summary", "values"])
def test_of_large_results_statistics_or_every_element(
    driver: Driver, recording: Path, level: str
) -> None:
    def program() -> Any:
        return float(ray.get(large.remote(100_000)).sum())

    with observed(recording, driver(program), level) as run:
        node = run.nodes["large"]
        result = run.recording.latest_at(node.outputs[0])
        assert result is not None
        assert result.summary is not None
        assert result.summary.max == 99_999
        whole = run.value("large")
        assert (whole is not None) == (level == "values")


def test_the_root_cause_is_told_from_the_consequences(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        bad = fails.remote(7)
        return ray.get(task2.remote(task1.remote(bad, 1), 2))

    with observed(recording, driver(program)) as run:
        assert "bad 7" in str(run.result)
        assert run.failure("fails") == "ValueError: bad 7"
        for name in ("task1", "task2"):
            assert run.failure(name) == "not run, because fails failed: ValueError: bad 7"
        assert run.runs("task1")[0].worker == 0


def test_a_retry_is_another_execution(driver: Driver, recording: Path, tmp_path: Path) -> None:
    folder = str(tmp_path)

    with observed(recording, driver(lambda: ray.get(fails_once.remote(folder)))) as run:
        assert run.result == "done"
        first, second = run.runs("fails_once")
        assert run.recording.failure(first.seq) == "OSError: not yet"
        assert run.recording.failure(second.seq) is None
        assert run.attrs("fails_once")["attempt"] == 2
        assert run.attrs("fails_once")["result"] == "'done'"


def test_the_steps_of_a_program_share_their_nodes(driver: Driver, recording: Path) -> None:
    import nodescope as ns

    def program() -> Any:
        x = ray.put(1)
        for _ in ns.steps(range(3)):
            x = task1.remote(x, 1)
            ray.get(x)
        return ray.get(x)

    with observed(recording, driver(program)) as run:
        assert run.result == 4
        assert run.tasks == ["task1"]
        assert [row.step for row in run.runs("task1")] == [1, 2, 3]


def test_results_are_those_of_the_unobserved_program(driver: Driver, recording: Path) -> None:
    def program() -> Any:
        pairs = [halves.remote(np.linspace(0, 1, 10) ** k) for k in range(4)]
        sums = [task1.remote(low, high) for low, high in pairs]
        return [array.tobytes() for array in ray.get(sums)]

    plain = driver(program)()
    with observed(recording, driver(program)) as run:
        assert run.result == plain


@ray.remote
def environment(name: str) -> str | None:
    import os

    return os.environ.get(name)


@pytest.mark.parametrize("by_job", [False, True])
def test_the_programs_own_set_up_of_workers_runs(
    cluster: Any, recording: Path, by_job: bool
) -> None:
    from ray.job_config import JobConfig

    def own_set_up() -> None:
        import os

        os.environ["SET_UP"] = os.environ.get("SET_UP", "") + "once"

    own = {"worker_process_setup_hook": own_set_up, "env_vars": {"OWN": "variable"}}
    options: dict[str, Any] = {"runtime_env": own}
    if by_job:
        options = {"job_config": JobConfig(runtime_env=own)}

    def program() -> Any:
        ray.init(address=cluster.address, logging_level="ERROR", **options)
        try:
            return ray.get([environment.remote("SET_UP"), environment.remote("OWN")])
        finally:
            ray.shutdown()

    with observed(recording, program) as run:
        assert run.result == ["once", "variable"]
        assert run.attrs("environment")["result"] == "'once'"


def test_a_workers_set_up_that_belongs_to_the_job_stays(
    driver: Driver, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("nodescope.adapters.ray.attachment.say", said.append)

    def program() -> Any:
        with monkeypatch.context() as job:
            job.setenv(
                "RAY_JOB_CONFIG_JSON_ENV_VAR",
                '{"runtime_env": {}, "x": "worker_process_setup_hook"}',
            )
            ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="ERROR")
        try:
            return ray.get(task1.remote(2, 3))
        finally:
            ray.shutdown()

    with observed(recording, program) as run:
        assert run.result == 5
        assert run.tasks == ["task1"]
    (line,) = said
    assert line.startswith("Ray's workers are not observed: UsageError: their set-up is the job's")
