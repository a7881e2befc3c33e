"""Whether `--max-slowdown` is kept: wall time of training loops, each in a separate process."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nodescope as ns
from bench.measure import Row
from nodescope.record.recording import Recording

SAMPLES: Final = Path(__file__).resolve().parents[1] / "samples"
PROGRAMS: Final = (("digits_mlp", ("--epochs", "120")), ("digits_cnn", ("--epochs", "8")))
LIMITS: Final = (1.2, 1.5, 3.0)
PAIRS: Final = 5


def rows() -> Iterator[Row]:
    for name, options in PROGRAMS:
        pairs: dict[float, list[float]] = {limit: [] for limit in LIMITS}
        notes: dict[float, str] = {}
        for _ in range(PAIRS):
            for limit in LIMITS:  # each paired with an unobserved run just before it
                free, _ = _run(name, options, None)
                took, notes[limit] = _run(name, options, limit)
                pairs[limit].append(took / free)
        for limit in LIMITS:
            yield Row(
                f"{name}, level values, --max-slowdown {limit:g}",
                "not observed",
                statistics.median(pairs[limit]),
                must=1.1 * limit,
                aim=limit,
                detail=notes[limit],
            )


def _run(name: str, options: tuple[str, ...], limit: float | None) -> tuple[float, str]:
    """The time of the training loop in a separate process, and the governor's report."""
    call = [sys.executable, "-m", "bench.governed", json.dumps([name, options, limit])]
    done = subprocess.run(call, check=True, capture_output=True, text=True, cwd=SAMPLES.parent)
    took, note = json.loads(done.stdout.splitlines()[-1])
    return took, note


def _measure(name: str, options: list[str], limit: float | None) -> tuple[float, str]:
    marks: list[float] = []
    steps = ns.steps

    def timed(items: Any) -> Iterator[Any]:
        marks.append(time.perf_counter())
        yield from steps(items)
        marks.append(time.perf_counter())

    ns.steps = timed
    sample = SAMPLES / f"{name}.py"
    sys.path.insert(0, str(SAMPLES))
    sys.argv = [str(sample), *options]
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        path = Path(folder) / "bench.nscope"
        if limit is None:
            runpy.run_path(str(sample), run_name="__main__")
            return marks[-1] - marks[0], ""
        with ns.record(path, "values", max_slowdown=limit):
            runpy.run_path(str(sample), run_name="__main__")
        with Recording.open(path) as recording:
            governed = recording.governed()
    note = "" if governed is None else (
        f"it says {governed.slowdown:.2f}x; left out: {governed.steps_left_out:,} of "
        f"{governed.steps:,} steps, {governed.arrays:,} arrays, {governed.summaries:,} statistics"
    )  # fmt: skip
    return marks[-1] - marks[0], note


if __name__ == "__main__":
    print(json.dumps(_measure(*json.loads(sys.argv[1]))))
