"""``nodescope why``: elements, and what NaN and Inf did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "run.nscope"
    with ns.record(found, level="values"), np.errstate(all="ignore"):
        for x in ns.steps([1.0, -1.0, 2.0]):
            with ns.name_scope("loss"):
                np.sum(np.log(ns.tensor([x, 2.0])))
    return found


def test_an_element(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(path), "loss/log[0]@2"]) == 0
    assert "log of -1" in capsys.readouterr().out
    assert main(["why", "--step", "2", str(path), "loss/sum"]) == 0
    assert "* loss/log at (0,) = nan" in capsys.readouterr().out


def test_the_first_step_that_has_any(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(path)]) == 0
    assert capsys.readouterr().out.startswith("step 2: 2 of 3 nodes gave NaN or Inf\n")
    assert main(["why", str(path), "--step", "3"]) == 0
    assert "nothing but finite values" in capsys.readouterr().out


def test_none_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tmp_path / "run.nscope"
    with ns.record(found):
        for x in ns.steps([1.0]):
            np.log(ns.tensor([x]))
    assert main(["why", str(found)]) == 0
    assert capsys.readouterr().out.startswith("no NaN and no Inf in 1 step of ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["loss/lug"], "did you mean 'loss/log'"),
        (["loss/log[x]"], "is no index"),
        (["loss/log@9"], "step 9"),
    ],
)
def test_what_is_wrong(
    path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(path), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_no_such_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(tmp_path / "none.nscope")]) == 2
    assert "no recording" in capsys.readouterr().err
