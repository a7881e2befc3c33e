"""Problems of a run: the first one is the origin, even with loaded, edited or healed values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.gate.gate import Gate
from nodescope.debug.report.problems import NodeProblem, Problems
from nodescope.debug.report.run_summary import summarise_run
from nodescope.debug.why.first_nonfinite import nonfinite_origin
from nodescope.errors import NodescopeError
from nodescope.protocol import Command, Continue, SetValue, Stop
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.debug.debugged import debugged


def program(bad: set[int]) -> None:
    """`log` of -1 in some steps; `where` removes the NaN again; the last step is finite."""
    x = ns.parameter(np.array([1.0, 2.0]), name="x")
    for step in ns.steps(range(1, 6)):
        with ns.name_scope("loss"), np.errstate(all="ignore"):
            y = np.log(x * (-1.0 if step in bad else 1.0))
            z = y * 2.0
        np.where(np.isnan(z), 0.0, z)


def rows(recording: Recording) -> dict[str, NodeProblem]:
    names = {node.node.id: node.node.name for node in recording.nodes()}
    return {names[row.node]: row for row in Problems(recording).rows()}


def kinds(problem: NodeProblem) -> tuple[bool, bool, bool]:
    return problem.nan, problem.inf, problem.failed


def test_the_first_is_the_earliest_of_the_whole_recording(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"):
        program({2, 4})
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = rows(recording)
    assert list(result) == ["loss/log", "loss/multiply_1"]
    log = result["loss/log"]
    assert (log.count, log.first_step, log.last_step) == (2, 2, 4)
    assert kinds(log) == (True, False, False)
    assert log.first_seq < result["loss/multiply_1"].first_seq < log.last_seq
    assert all(item.healed for item in result.values())


def test_what_continues_to_the_end_is_not_healed(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"):
        program({5})
        with np.errstate(all="ignore"):
            np.divide(ns.tensor([1.0]), 0.0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = rows(recording)
    assert not any(item.healed for item in result.values())
    assert kinds(result["divide"]) == (False, True, False)


def test_problems_of_a_growing_recording_are_updated(tmp_path: Path) -> None:
    with ns.record(tmp_path / "all.nscope"):
        program({2, 4})
    with Recording.open(tmp_path / "all.nscope") as recording:
        whole = Problems(recording).rows()
        middle = (whole[0].first_seq + whole[0].last_seq) // 2
        problems, last_seq = Problems(recording), recording.last_seq
        recording.last_seq = lambda: middle  # type: ignore[method-assign]
        assert [row.count for row in problems.rows()] == [1, 1]
        recording.last_seq = last_seq  # type: ignore[method-assign]
        assert problems.rows() == whole


def test_errors_are_problems(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"):
        x = ns.tensor(np.ones((2, 3)), name="x")
        with pytest.raises(NodescopeError):
            x @ x
    with Recording.open(tmp_path / "r.nscope") as recording:
        (result,) = rows(recording).values()
    assert kinds(result) == (False, False, True)
    assert "ShapeError" in result.error


def test_a_value_that_a_person_made_nan_is_the_first(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope")

    def then(stop: Stop, gate: Gate) -> Command:
        (value,) = gate._catalog.nodes[stop.node].outputs
        gate.command(SetValue(value, "set", float("nan"), "0"))
        return Continue()

    with debugged("op:exp [step 2]", then=then, first=recorder):
        for _ in ns.steps(range(3)):
            np.exp(ns.tensor(np.zeros(2))) * 10.0
    recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = rows(recording)
    assert list(result) == ["exp", "multiply"]
    assert (result["exp"].edited, result["exp"].count, result["exp"].edits) == (
        True, 0, ("exp[0] set to nan",),
    )  # fmt: skip
    assert not result["multiply"].edited
    assert result["exp"].healed


def test_an_inf_constant_of_the_program_is_not_a_problem(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"), np.errstate(all="ignore"):
        x = ns.tensor(np.array([[1.0, 2.0], [3.0, 4.0]]), name="x")
        masked = np.where(np.array([[True, False], [True, True]]), x, -np.inf)
        attention = ns.softmax(masked * 0.5)
        np.log(attention)  # The program takes log(0) itself: this is a problem.
        np.add(masked * 2.0, np.log(attention))
    with Recording.open(tmp_path / "r.nscope") as recording:
        result, problems = rows(recording), Problems(recording)
        assert (len(problems.rows()), problems.masks) == (3, 3)
    assert [*result] == ["log", "log_1", "add"]
    assert result["log"].first


def test_nan_from_a_mask_is_a_problem(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"), np.errstate(all="ignore"):
        masked = np.where(np.array([False, False]), ns.tensor(np.ones(2)), -np.inf)
        ns.softmax(masked)
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = rows(recording)
    assert [*result] == ["softmax"]
    assert kinds(result["softmax"])[0]


def test_the_summary_does_not_name_inf_constants(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"), np.errstate(all="ignore"):
        masked = np.where(np.array([True, False]), ns.tensor(np.ones(2)), -np.inf)
        np.log(ns.softmax(masked * 2.0))
    with Recording.open(tmp_path / "r.nscope") as recording:
        summary = summarise_run(recording)
    assert [(row.name, row.nodes) for row in summary.troubles] == [("log", 1)]
    with ns.record(tmp_path / "masks.nscope"):
        ns.softmax(np.where(np.array([True, False]), ns.tensor(np.ones(2)), -np.inf))
    with Recording.open(tmp_path / "masks.nscope") as recording:
        assert summarise_run(recording).troubles == ()
        assert nonfinite_origin(recording) is None
