"""What the last line of a run says about the values that were kept by default."""

from __future__ import annotations

import msgspec

from nodescope.record.kept.kept_report import kept
from nodescope.record.rows import Governed, Keeping


def test_the_last_line_says_what_was_kept_by_default() -> None:
    keeping = Keeping("summary", limit=2.0, newest_steps=2, chosen=False)
    stepped = Governed(2.0, 1.62, steps=276, steps_left_out=260, extra_s=1.2)
    assert kept(keeping, stepped) == (
        "kept statistics of every observed value, whole values of the last 2 observed steps; 16 of "
        "276 steps observed; about 1.62× slower (limit 2×). --level values keeps every element"
    )
    without = Governed(2.0, 1.45, executions=7, summaries=9, extra_s=0.3, values=1_012)
    assert kept(keeping, without).startswith(
        "kept statistics of 1,003 of 1,012 observed values, the newest values whole; about 1.45× "
        "slower"
    )
    crowded = msgspec.structs.replace(keeping, made_room=10_915, newest_bytes=64 * 2**20)
    for steps, words in {
        (21,): "2 observed steps and of step 21, where NaN or Inf first appeared; 16",
        (0, 1, 21): "and of steps 1 and 21, where NaN or Inf first appeared and around the first "
        "NaN or Inf outside of steps; 16",
    }.items():
        assert words in kept(msgspec.structs.replace(keeping, nonfinite_steps=steps), stepped)
    assert "of the last 2 observed steps as far as 64 MiB hold them; 16 of" in kept(
        crowded, stepped
    )


def test_a_short_overhead_is_reported_without_a_factor() -> None:
    keeping = Keeping("summary", limit=2.0, newest_steps=2, chosen=False)
    short = Governed(2.0, 2.53, steps=240, steps_left_out=12, extra_s=0.12)
    assert "; about 0.1 s overhead. --level" in kept(keeping, short)
    unnoticed = Governed(2.0, 2.53, steps=240, steps_left_out=12, extra_s=0.04)
    assert "228 of 240 steps observed. --level" in kept(keeping, unnoticed)
    called = Governed(2.0, 1.6, steps=9, calls=40, calls_left_out=24, extra_s=2.0)
    assert "; 16 of 40 calls outside of steps observed; about 1.6×" in kept(keeping, called)
