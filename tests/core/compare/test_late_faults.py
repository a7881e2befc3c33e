"""Faults that appear late, or only in one phase, shape or form, are found where they appear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.compare.verdict import Verdict
from tests import depth
from tests.conformance.planted.late_faults import Biting, plant
from tests.core.compare.models import PROGRAMS
from tests.core.compare.programs import judged

FIRST = ("attention", "derivative_outside", "evaluation_after")
ALL = [
    pytest.param(name, marks=() if name in FIRST else pytest.mark.deep, id=name)
    for name in PROGRAMS
]


def with_fault(folder: Path, name: str, fault: Biting, large: int = 4) -> Verdict:
    program, _ = PROGRAMS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, fault)
        return judged(folder, lambda: program(large))


@pytest.mark.parametrize("name", ALL)
def test_a_fault_is_found_in_the_step_in_which_it_bites(name: str, tmp_path: Path) -> None:
    program, op = PROGRAMS[name]
    if depth.is_deep():
        assert judged(tmp_path, lambda: program(4)).outcome == "equal"
        assert with_fault(tmp_path, name, Biting(op), large=0).outcome == "equal"
    verdict = with_fault(tmp_path, name, Biting(op))
    assert (verdict.outcome, verdict.cause) == ("differs", "kernel")
    assert verdict.step == (5 if name == "evaluation_after" else 4)
    assert f"the kernel {verdict.kernel_name} of the back end numpy computes" in verdict.text
    assert op in (verdict.name.rpartition("/")[2], verdict.kernel_name.rpartition("/")[2])
    assert verdict.source is not None
    assert verdict.source.file.endswith("models.py")


@pytest.mark.parametrize(
    ("name", "fault", "phase"),
    [
        ("lstm_scan", Biting("add", phase="optimizer"), "optimizer"),
        ("derivative_outside", Biting("matmul", phase="backward"), "backward"),
        ("sizes", Biting("square", shape=(4, 3)), ""),
        ("sizes", Biting("square", shape=(6, 3)), None),
    ],
    ids=["state", "backward pass", "one signature", "a signature that never is large"],
)
def test_a_fault_of_one_part_is_named(
    name: str, fault: Biting, phase: str | None, tmp_path: Path
) -> None:
    verdict = with_fault(tmp_path, name, fault)
    if phase is None:
        assert verdict.outcome == "equal"
        return
    assert (verdict.outcome, verdict.step) == ("differs", 4)
    assert verdict.name.startswith(phase)


def test_a_saved_program_is_checked(tmp_path: Path) -> None:
    """Its calls are not observed."""
    path = tmp_path / "step.nsprogram"
    weight = ns.parameter(np.ones((3, 2)), np.float32, name="weight")
    step = ns.compile(lambda x: np.sum((x @ weight) ** 2), name="step")
    step.graph(np.ones((2, 3), np.float32)).save(path)

    def program() -> None:
        loaded = ns.load_graph(path)
        for number in ns.steps(range(1, 6)):
            loaded(np.full((2, 3), 100.0 if number == 4 else 1.0, np.float32))

    assert judged(tmp_path, program).text == (
        "No difference: 5 calls gave what was traced, bit for bit."
    )
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, Biting("matmul"))
        verdict = judged(tmp_path, program)
    assert (verdict.cause, verdict.step, verdict.name) == ("kernel", 4, "matmul")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Biting("matmul", unobserved=False), "(only while it is observed)"),
        (Biting("matmul", observed=False), "(only while nobody observes it)"),
    ],
    ids=["observed", "unobserved"],
)
def test_a_fault_of_one_form_is_reported_as_such(fault: Biting, words: str, tmp_path: Path) -> None:
    verdict = with_fault(tmp_path, "attention", fault)
    assert (verdict.outcome, verdict.step) == ("differs", 4)
    assert verdict.name == "matmul"
    assert words in verdict.text
