"""The programs of the speed table give the same numbers in every form, and in plain NumPy."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from bench import __main__ as command
from bench import programs
from bench.__main__ import _as_json, _line
from bench.measure import Row
from bench.programs.case import BACKENDS, EAGER, HAND, NUMPY, OURS, PLAIN, C, Contender, line_up
from nodescope.engine.codegen.backend import get


@pytest.mark.parametrize("program", programs.PROGRAMS)
def test_all_forms_agree(program: str) -> None:
    case = programs.tiny(program)
    assert {EAGER, *BACKENDS, HAND} <= set(case.makers)
    forms = (EAGER, *(name for name, item in BACKENDS.items() if not get(item).missing()), HAND)
    assert {PLAIN, NUMPY} <= set(forms)  # Only C may be missing.
    field = line_up(case, forms)
    assert not field.left_out
    assert set(field.contenders) == set(forms)
    for name, contender in field.contenders.items():
        assert (contender.compiled is not None) == (name in BACKENDS)


@pytest.mark.parametrize("program", programs.PROGRAMS)
def test_a_contender_with_a_wrong_result_is_left_out(program: str) -> None:
    """A contender whose last result is off by a hundredth of its scale is left out."""
    case = programs.tiny(program)

    def off() -> Contender:
        right = case.makers[HAND]()

        def arrays(result: object) -> list[np.ndarray]:
            *leading, last = right.arrays(result)
            return [*leading, last + np.float32(0.01) * np.abs(last).max()]

        return dataclasses.replace(right, arrays=arrays)

    field = line_up(dataclasses.replace(case, makers={HAND: off}))
    assert "is off by" in field.left_out[HAND]
    assert not field.contenders


@pytest.mark.parametrize("program", programs.PROGRAMS)
def test_each_back_end_has_a_peer_that_runs_the_program(program: str) -> None:
    for case in programs.cases(program):
        assert set(case.limits) == set(OURS)
        assert all(limit.peer in case.makers for limit in case.limits.values())


def test_a_contender_that_cannot_run_is_left_out_with_the_reason() -> None:
    def absent() -> Contender:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    def broken() -> Contender:
        raise ValueError("no compiler\nand more")

    case = dataclasses.replace(programs.tiny("chain"), makers={"torch": absent, C: broken})
    assert line_up(case).left_out == {
        "torch": "torch is not installed", C: "ValueError: no compiler"
    }  # fmt: skip


def test_a_row_without_a_figure_says_so() -> None:
    row = Row("LSTM, compiled, C", "jax.jit", None, must=0.7, detail="cc is missing")
    assert row.reaches(row.must) is None
    assert "not measured" in _line(row)
    assert "cc is missing" in _line(row)
    assert json.loads(json.dumps(_as_json(row, "here")))["met"] is None


def test_groups_that_are_not_measured_keep_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LATEST", tmp_path / "results" / "latest.json")
    command._write("memory", [{"name": "one"}])
    command._write("compiled", [{"name": "two"}])
    command._write("memory", [{"name": "three"}])
    written = json.loads(command.LATEST.read_text())
    assert written == {"compiled": [{"name": "two"}], "memory": [{"name": "three"}]}
