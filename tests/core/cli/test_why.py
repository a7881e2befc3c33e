"""``nodescope why``: elements, and what NaN and Inf did."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.cli import main
from nodescope.errors import ShapeError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    result = tmp_path / "run.nscope"
    with ns.record(result, level="values"), np.errstate(all="ignore"):
        for x in ns.steps([1.0, -1.0, 2.0]):
            with ns.name_scope("loss"):
                np.sum(np.log(ns.tensor([x, 2.0])))
    return result


def test_an_element(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(path), "loss/log[0]@2"]) == 0
    assert "log of -1" in capsys.readouterr().out
    assert main(["why", "--step", "2", str(path), "loss/sum"]) == 0
    assert "* loss/log at [0] = nan" in capsys.readouterr().out


def test_a_gradient_and_the_reason_for_a_missing_one(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ns.record(tmp_path / "cut.nscope", level="values"):
        below, above = (
            ns.parameter(np.ones(2), name="below"),
            ns.parameter(np.ones(2), name="above"),
        )
        for _ in ns.steps(range(2)):
            np.sum(np.tanh(below).detach() * above).backward()
    assert main(["why", str(tmp_path / "cut.nscope"), "above.grad[1]"]) == 0
    assert "backward/" in capsys.readouterr().out.splitlines()[0]
    assert main(["why", str(tmp_path / "cut.nscope"), "below.grad"]) == 0
    assert capsys.readouterr().out.startswith(
        "below has no gradient: its gradient ends at detach ("
    )
    assert main(["why", str(path), "loss/log.grad"]) == 0
    assert capsys.readouterr().out == "loss/log has no gradient: no backward pass was recorded\n"


def test_options_may_stand_anywhere(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for arguments in (["--step", "2", str(path), "log[0]"], [str(path), "--step", "2", "log[0]"],
                  [str(path), "log[0]", "--step", "2"]):  # fmt: skip
        assert main(["why", *arguments]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0].startswith("loss/log at [0] is nan in step 2")
    assert outputs == outputs[:1] * 3
    watches = ["--watch", "nan on loss/log", "--strict"]
    for arguments in ([*watches, str(path)], [str(path), *watches]):
        assert main(["check", *arguments]) == 1
        assert "loss/log" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["why", "{}", "--of", "log"], ["check", "{}", "--strict", "x"]]
)
def test_what_has_no_place_is_refused(
    path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([item.format(path) for item in arguments])
    assert ended.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_the_first_step_that_has_any(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(path)]) == 0
    assert capsys.readouterr().out.startswith("step 2: 2 of 2 operations produced NaN or Inf\n")
    assert main(["why", str(path), "--step", "3"]) == 0
    assert "only finite values" in capsys.readouterr().out


def test_none_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tmp_path / "run.nscope"
    with ns.record(result):
        for x in ns.steps([1.0]):
            np.log(ns.tensor([x]))
    assert main(["why", str(result)]) == 0
    assert capsys.readouterr().out.startswith("no NaN or Inf in 1 step of ")


def test_a_mask_of_infinities_is_not_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "run.nscope"
    with ns.record(result):
        for x in ns.steps([1.0]):
            scores = np.where(np.array([True, False]), ns.tensor([x, x]), -np.inf)
            ns.softmax(scores * 2.0)
    assert main(["why", str(result)]) == 0
    first = capsys.readouterr().out
    assert first.startswith("no NaN or Inf in 1 step of ")
    assert ", except Inf that the program writes, in 2 nodes" in first  # where and multiply.


@pytest.mark.parametrize("caught", [False, True])
def test_the_error_that_ended_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caught: bool
) -> None:
    path = tmp_path / "run.nscope"
    run = Run(path, level="values", say=lambda _: None)
    run.start()
    for step in ns.steps([1, 2]):
        target = ns.tensor(np.ones(4 if step == 1 else 3), name="target")
        with contextlib.suppress(ShapeError):
            np.exp(ns.tensor(np.zeros(4))) * target
    run.finish(1, "KeyError: 'other'" if caught else "ShapeError: shapes do not fit")
    assert main(["why", str(path)]) == 0
    first, _, rest = capsys.readouterr().out.partition("\n")
    assert first.startswith("no NaN or Inf in 2 steps of ")
    assert ("multiply (test_why.py:" in rest) is not caught
    assert ("raised in step 2: ShapeError" in rest) is not caught
    assert (". target is (3,), and was (4,) in step 1" in rest) is not caught


def test_what_was_not_recorded_is_not_called_finite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "run.nscope"
    with ns.record(result, level="timing"), np.errstate(all="ignore"):
        for x in ns.steps([-1.0]):
            np.log(ns.tensor([x]))
    assert main(["why", str(result)]) == 0
    assert capsys.readouterr().out.startswith("NaN and Inf are unknown for ")
    assert main(["why", str(result), "--step", "1"]) == 0
    assert capsys.readouterr().out.endswith("so NaN and Inf are unknown\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["loss/lug"], "did you mean 'loss/log'"),
        (["loss/log[x]"], "is not an index"),
        (["loss/log@9"], "step 9"),
    ],
)
def test_what_is_wrong(
    path: Path, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(path), *arguments]) == 2
    assert expected in capsys.readouterr().err


def test_no_such_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(tmp_path / "none.nscope")]) == 2
    assert "no recording" in capsys.readouterr().err


def test_what_is_run_again_does_not_warn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level="values"), warnings.catch_warnings(action="ignore"):
        np.mean(ns.tensor(np.zeros(0)))
    with warnings.catch_warnings(action="error"):
        assert main(["why", str(path), "mean"]) == 0
        assert main(["why", str(path)]) == 0
    assert capsys.readouterr().out.startswith("mean is nan in step 0: mean of no elements")


def test_nan_is_looked_for_in_the_first_step_that_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level="values"), np.errstate(all="ignore"):
        w = ns.parameter(np.array([1.0, 2.0]), name="w")
        for x in ns.steps([1.0, -1.0, 2.0, -2.0, 3.0]):
            with ns.name_scope("training"):
                np.mean(np.log(w * x)).backward()
    for element in ("training/log[nan]", "log", "loss[nan]", "loss"):
        assert main(["why", str(path), element]) == 0
        output = capsys.readouterr().out
        assert "is nan in step 2: log of -1" in output
        assert output.startswith("step 2 is the first of 2 steps with NaN")
        assert "@4 explains the last one" in output
    assert main(["why", str(path), "loss@4"]) == 0
    assert capsys.readouterr().out.startswith("training/mean is nan in step 4: ")
    assert main(["why", str(path), "training/multiply[nan]"]) == 2
    assert "training/multiply has no NaN: it was recorded 5 times" in capsys.readouterr().err
    assert main(["why", str(path), "training/multiply"]) == 0
    assert "in step 5" in capsys.readouterr().out
