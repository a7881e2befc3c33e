"""Runs of explicitly built graphs are checked in each form in which they may run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.crosscheck.active import set_cross_check
from nodescope.engine.crosscheck.checker import CrossCheck
from nodescope.engine.execution import parallel, partition
from nodescope.ir.differences import FunctionCheck
from nodescope.ops.plan import Plan
from tests.conformance.planted import PLANTED, all_planted, by_hand
from tests.conformance.planted.named import NAMED


def checked(folder: Path, program: Callable[[], Any]) -> tuple[FunctionCheck, ...]:
    check = CrossCheck()
    set_cross_check(check)
    try:
        with ns.record(folder / "run.nscope"):
            program()
    finally:
        set_cross_check(None)
    return check.report().functions


def counting(options: ns.RunOptions | None = None, steps: int = 4) -> list[float]:
    """A variable that grows by a product, on two devices."""
    with ns.Graph().as_default() as graph:
        x = ns.placeholder(np.float32, (3, 3), name="x")
        total = ns.variable(np.zeros((3, 3), np.float32), name="total")
        with ns.device("cpu:1"):
            doubled = ns.identity(x * 2.0, name="doubled")
        sums = ns.identity(doubled + total, name="sums")
        with ns.control_dependencies([sums.op]):
            ns.assign_add(total, x)
        ns.global_variables_initializer()
    with ns.Session(graph) as session:
        session.run("init")
        return [
            session.run(["sums:0", "assign_add"], {x: np.full((3, 3), step)}, options)[0].sum()
            for step in ns.steps(range(steps))
        ]


FORMS = [ns.RunOptions(partition=False), ns.RunOptions(parallel=True, partition=False), None]


@pytest.mark.parametrize("options", FORMS, ids=["in order", "threads", "partitions"])
def test_no_alarm_and_nothing_changes(options: ns.RunOptions | None, tmp_path: Path) -> None:
    results: list[float] = []
    checks = checked(tmp_path, lambda: results.extend(counting(options)))
    assert [(check.function, check.calls) for check in checks] == [
        ("Session.run of init", 1), ("Session.run of sums", 4),
    ]  # fmt: skip
    assert all(check.built and check.difference is None and not check.fault for check in checks)
    assert results == counting(options)


def test_a_fault_on_threads_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = parallel._Run._calls

    def wrong(self: Any, positions: Any) -> None:
        calls(self, positions)
        for value in self.schedule.plan.outputs:
            if value in self.values and self.schedule.plan.producer(value).op == "multiply":
                self.values[value] = self.values[value] + (self.values[value] > 2)

    monkeypatch.setattr(parallel._Run, "_calls", wrong)
    options = ns.RunOptions(parallel=True, partition=False)
    with ns.Graph().as_default() as graph:
        x = ns.placeholder(np.float32, (3,), name="x")
        product = x * 2.0
        ns.identity(product + 1.0, name="more")

    def program() -> None:
        with ns.Session(graph) as session:
            for step in ns.steps(range(4)):
                session.run([product, "more:0"], {x: np.full(3, step, np.float32)}, options)

    (check,) = checked(tmp_path, program)
    assert check.difference is not None
    assert (check.difference.kind, check.difference.step) == ("form", 3)
    assert check.difference.name == "multiply"
    assert check.difference.detail == "when it runs on threads"


def test_a_lost_update_between_devices_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def idle(*args: Any) -> dict[int, Any]:
        result = run(*args)
        return {value: np.zeros_like(array) for value, array in result.items()}

    run = partition.run_partitions
    monkeypatch.setattr("nodescope.engine.graphs.session.run_partitions", idle)
    _, check = checked(tmp_path, counting)
    assert check.difference is not None
    assert check.difference.detail == "when it runs cut by device"
    assert check.difference.name == "multiply"


def test_a_fault_of_what_runs_at_once_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Plan.run
    monkeypatch.setattr(Plan, "run", lambda self, feeds: [-item for item in run(self, feeds)])
    with ns.Graph().as_default() as graph:
        x = ns.placeholder(np.float32, (3,), name="x")
        ns.identity(x * 2.0, name="product")

    def program() -> None:
        with ns.Session(graph) as session:
            session.run("product:0", {x: np.ones(3, np.float32)})

    (check,) = checked(tmp_path, program)
    assert check.difference is not None
    assert check.difference.detail == "when it runs as one plan"
    assert check.difference.name == "multiply"


@pytest.mark.parametrize(
    "fault", ["cse_waiting", "dce_waited_for", "effects_merge", "schedule_waits"]
)
def test_faults_of_waiting_and_effects_are_named(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_planted()
    PLANTED.get(fault).plant(monkeypatch)
    _, check = checked(tmp_path, lambda: by_hand.run(2))
    assert check.built
    assert check.difference is not None
    assert check.difference.kind == NAMED[fault][1]
    assert NAMED[fault][2] in check.difference.rules
    assert check.difference.name
