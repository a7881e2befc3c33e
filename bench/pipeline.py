"""The number of events per second that reach the recording from the program."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nodescope as ns
from bench.measure import Row
from bench.tiny_ops import OPS, X, Y, body
from nodescope.record.recording import Recording

STEPS = 2000


def rows() -> Iterator[Row]:
    for level in ("timing", "summary"):
        yield _into_recording(level)


def _into_recording(level: str) -> Row:
    x, y = ns.parameter(X, name="x"), ns.parameter(Y, name="y")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.nscope"
        start = time.perf_counter()
        with ns.record(path, level=level):
            for _ in ns.steps(range(STEPS)):
                body(x, y)
        took = time.perf_counter() - start
        recording = Recording.open(path)
        dropped = recording.dropped()
        kept = len(recording.executions(0))
        recording.close()
        size = path.stat().st_size
    lost = dropped.executions + dropped.summaries
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(
        f"events program to recording, level {level}",
        "",
        kept / took,
        "events/s",
        must=500_000 if level == "timing" else None,
        aim=1_000_000 if level == "timing" else None,
        more_is_better=True,
        detail=f"{kept:,} of {STEPS * OPS:,} ops in {took:.2f} s, {lost:,} dropped, "
        f"{size / kept:.0f} bytes each, process peak {peak:.0f} MiB",
    )
