"""Captured output: the beginning and the end are kept, and the rest is counted."""

from __future__ import annotations

import threading

import pytest

from nodescope.debug.report.captured_output import CapturedOutput
from nodescope.events import Logged


def line(number: int) -> Logged:
    return Logged("stdout", f"line {number}", number, number)


@pytest.mark.parametrize(("count", "missing"), [(10, 0), (11, 0), (13, 0), (14, 1), (1000, 987)])
def test_head_and_tail_are_kept_and_the_rest_is_counted(count: int, missing: int) -> None:
    kept: list[Logged] = []
    written = CapturedOutput(kept.append, head_bytes=10 * 70, tail_lines=3)
    for number in range(count):
        written.take(line(number))
    written.finish()
    texts = [item.text for item in kept if item.stream == "stdout"]
    lines = [item.text for item in kept if item.stream == "nodescope"]
    assert texts[:10] == [f"line {number}" for number in range(10)]
    assert texts[10:] == [f"line {number}" for number in range(10 + missing, count)]
    assert lines[0].startswith("the program has written")
    assert lines[1:] == (
        [f"{missing:,} lines of the program's output were not recorded"] * (missing > 0)
    )
    if missing:  # The notice takes the place of the missing lines.
        assert kept.index(next(item for item in kept if "not recorded" in item.text)) == 11


def test_many_threads_write_and_none_is_lost_uncounted() -> None:
    kept: list[Logged] = []
    written = CapturedOutput(kept.append, head_bytes=100 * 70, tail_lines=50)
    threads = [
        threading.Thread(target=lambda: [written.take(line(1)) for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written.finish()
    (said,) = [item.text for item in kept if "not recorded" in item.text]
    count = int(said.split()[0].replace(",", ""))
    assert count + sum(item.stream == "stdout" for item in kept) == 4000
