"""The governor's messages for the user."""

from __future__ import annotations

from nodescope.record.governor.reports import leaving_out, stuck


def test_what_is_left_out_from_now_on_is_reported_with_its_reason() -> None:
    assert leaving_out("a training step", 3.1, 1.5, 0.21) == (
        "a training step takes about 3.1× as long while it is observed, the limit is 1.5×: from "
        "now on about one step in 5 is observed, the others run unobserved"
    )
    assert leaving_out("the program", 3.1, 1.5) == (
        "the program takes about 3.1× as long while it is observed, the limit is 1.5×: from now "
        "on only parts of it are recorded as you asked, and the others are timed or counted"
    )


def test_a_limit_that_cannot_be_kept_is_reported_with_its_number() -> None:
    line = (
        "the limit of 1.5× cannot be met: with as little recorded as allowed, a run takes about "
        "2.02× as long"
    )
    assert stuck(2.02, 2.02, 1.5) == line
    assert stuck(2.02, 1.2, 1.5) == line + " (1.2× without the levels set by hand)"
