"""``nodescope compare`` on planted faults and correct programs, every fourth by default options.

The others are compared without timing, which takes most of the time and names no node.
``python -m tests.conformance.compare_table --sound 50`` compares all of them by default options.
"""

from __future__ import annotations

import pytest

from tests.conformance import compare_table
from tests.conformance.planted import all_planted
from tests.conformance.planted.named import NAMED

WITHOUT_PLACE = {name for name, (_, _, culprit) in NAMED.items() if not culprit}
"""Faults that no node causes: a difference is reported without a culprit."""
FEW = {"schedule_waits": "seed 2"}
"""Options without timing and with a correct program."""
FAULTS = compare_table.faults()
SOUND = compare_table.sound(50)
DEFAULT_OPTIONS = 4
"""One of this many programs is compared with default options."""


def options(place: int) -> tuple[str, ...]:
    return () if place % DEFAULT_OPTIONS == 0 else ("--no-timing",)


def test_enough_faults_have_a_culprit() -> None:
    assert len(all_planted()) - len(WITHOUT_PLACE) >= 50


@pytest.mark.deep
@pytest.mark.parametrize("fault", FEW)
def test_a_fault_is_named_and_a_correct_program_raises_no_alarm(fault: str) -> None:
    pairs = [*compare_table.faults([fault]), ("none", FEW[fault])]
    wrong, correct = compare_table.compared(pairs, "--no-timing")
    assert wrong.named, str(wrong)
    assert correct.status == 0, str(correct)


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", range(len(FAULTS)), ids=[fault for fault, _ in FAULTS])
def test_each_fault_is_reported_and_named(place: int) -> None:
    fault, _ = FAULTS[place]
    (row,) = compare_table.compared([FAULTS[place]], *options(place))
    assert row.told, str(row)
    assert row.named is (fault not in WITHOUT_PLACE), str(row)


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", range(len(SOUND)), ids=[case for _, case in SOUND])
def test_a_correct_random_program_raises_no_alarm(place: int) -> None:
    (row,) = compare_table.compared([SOUND[place]], *options(place))
    assert (row.status, row.verdict["outcome"]) == (0, "equal"), str(row)
