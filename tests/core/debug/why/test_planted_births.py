"""Planted births: the culprit in random programs is the birth that reached the queried value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.debug.why.births_report import judged
from tests.depth import count

SEEDS = 200
MOST_WRONG = 0.02


@pytest.mark.timeout(900)  # 200 programs at depth "deep".
def test_the_birth_that_reached_the_value_is_the_culprit(tmp_path: Path) -> None:
    """With and without a given element; ``births_report`` lists wrong answers."""
    seeds = range(count(SEEDS))
    asked, wrong = 0, []
    for seed in seeds:
        case, case_answers = judged(seed, tmp_path)
        asked += len(case_answers)
        wrong += [
            f"seed {seed} ({case.form}), {answer.way}: {answer.told}"
            for answer in case_answers
            if not answer.right
        ]
    assert asked >= 2 * len(seeds)
    assert len(wrong) <= MOST_WRONG * asked, "\n".join(wrong)


def test_a_birth_in_the_body_of_a_loop_is_not_made_of_itself(tmp_path: Path) -> None:
    """Its own NaN, in the body and out of the loop, is one; a decoy that was healed is not it."""
    case, case_answers = judged(39, tmp_path)
    assert "(scan)" in case.told[0]
    assert [answer.told for answer in case_answers if not answer.right] == []
