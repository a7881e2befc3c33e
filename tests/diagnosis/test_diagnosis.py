"""The corpus: every fault is found and named, and correct programs raise no alarm.

At the usual depth, a few quick programs are checked; at the depth ``deep``, all of them. For unseen
programs, the aim is 34 found and 30 named of 40 (82 and 72 of 97).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.diagnosis.case import Broken, Right, reached
from tests.diagnosis.cases import BROKEN, RIGHT
from tests.diagnosis.report import ALL, counts, rows, words
from tests.diagnosis.runner import plainly

ALWAYS_FOUND: Final = ("house_prices",)
ALWAYS_SILENT: Final = ("xor",)


def test_only_broken_programs_miss_their_goal_unobserved() -> None:
    for case in (*BROKEN, *RIGHT):
        if case.name in (*ALWAYS_FOUND, *ALWAYS_SILENT):
            broken = isinstance(case, Broken)
            assert reached(case.goal, plainly(case.text, case.name)) != broken, case.name
            if isinstance(case, Broken):
                assert reached(case.goal, plainly(case.twin, case.name)), case.name


def test_every_culprit_is_a_line_of_its_program() -> None:
    for case in BROKEN:
        assert case.line_numbers() or case.nodes or case.about, case.name


def test_every_program_is_a_case() -> None:
    folder = Path(__file__).parent
    for cases, inside in ((BROKEN, "broken"), (RIGHT, "right")):
        files = sorted(path.stem for path in (folder / inside).glob("*.py"))
        named: list[str] = sorted(case.name for case in cases)  # type: ignore[attr-defined]
        assert files == named
    names = [case.name for case in (*BROKEN, *RIGHT)]
    assert len(set(names)) == len(names)


def test_some_faults_are_found_and_some_programs_silent(tmp_path: Path) -> None:
    table = list(rows(tmp_path, ALWAYS_FOUND))
    numbers, shown = counts(table), "\n".join(map(words, table))
    assert numbers["found"] == numbers["broken"] == len(ALWAYS_FOUND), shown
    assert numbers["noisy twins"] == 0, shown


@pytest.mark.deep
@pytest.mark.timeout(900)  # a few commands, each of many seconds on a busy machine
@pytest.mark.parametrize("name", ALL)
def test_a_fault_is_found_and_named_and_a_correct_program_is_silent(
    name: str, tmp_path: Path
) -> None:
    """The correct program of a broken one is its twin; only broken ones miss their goal."""
    (row,) = rows(tmp_path, [name])
    shown = words(row)
    if row.judgement is not None:
        assert row.judgement.found, shown
        assert row.judgement.named, shown
    assert not row.alarms, shown
    assert not row.failed, shown
    assert row.goals, shown


def test_goals_are_read_from_the_last_number() -> None:
    assert reached("loss < 0.5", "loss 0.9\nstep 2: loss 0.4")
    assert not reached("loss < 0.5", "loss nan")
    assert not reached("right > 0.5", "right 5e-1, loss 0.1")
    with pytest.raises(ValueError, match="no 'loss'"):
        reached("loss < 0.5", "nothing")


def test_a_twin_differs_in_its_mend_alone() -> None:
    case = BROKEN[0]
    old, new = case.mend[0]
    assert case.twin.replace(new, old) == case.text
    with pytest.raises(ValueError, match="is there 0 times"):
        Broken(case.name, "", mend=(("not there", ""),), goal="").twin  # noqa: B018
    assert Right("xor", "", "").text
