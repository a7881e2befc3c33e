"""The governor's messages for the user."""

from __future__ import annotations

import pytest

from nodescope.record.governor.reports import (
    FEWER_STEPS,
    IN_VAIN_BY_HAND,
    LESS_DETAIL,
    exceeded,
)


@pytest.mark.parametrize(
    ("then", "sentence"),
    [
        (LESS_DETAIL, LESS_DETAIL),
        (
            FEWER_STEPS.format(20.7),
            "From now on about 21 % of steps are observed, the others run unobserved",
        ),
        (
            IN_VAIN_BY_HAND.format(1.2),
            "It cannot be met: as little is recorded as allowed (1.2× without the levels set by "
            "hand)",
        ),
    ],
)
def test_a_limit_that_is_exceeded_is_reported_with_its_numbers(then: str, sentence: str) -> None:
    assert exceeded("a step", 3.1, 1.5, then) == (
        f"a step takes about 3.1× as long while it is observed, the limit is 1.5×. {sentence}"
    )
