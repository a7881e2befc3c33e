"""The order in which executions are tried as the sources of operands."""

from __future__ import annotations

from itertools import islice, product

import pytest

from nodescope.debug.replay.operand_sources import choices_of


@pytest.mark.parametrize("counts", [[], [1], [3], [2, 1, 4], [2, 3, 2]])
def test_all_choices_the_latest_executions_first(counts: list[int]) -> None:
    choices = list(choices_of(counts))
    assert sorted(choices) == sorted(product(*map(range, counts)))
    assert [sum(choice) for choice in choices] == sorted(map(sum, choices))


def test_the_first_choices_of_very_many_operands() -> None:
    first = list(islice(choices_of([4] * 400), 32))
    assert first[0] == (0,) * 400
    assert {sum(choice) for choice in first[1:]} == {1}
