"""Texts about rows of a recording."""

from __future__ import annotations

from nodescope.record.rows import Dropped


def test_what_is_missing_is_reported_with_its_reason() -> None:
    assert Dropped().words == ""
    assert Dropped(20_680, 1, 2).words == (
        "elements of 20,680 values (the byte budget was used up, or the recorder fell behind; "
        "--budget raises it), statistics of 1 value (the recorder fell behind), "
        "2 executions (the recorder fell behind)"
    )
