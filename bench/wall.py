"""The cost of `nodescope run` for a user: wall time of the samples as whole processes.

Unlike `bench.default`, this includes the server, imports and the end of the recording. Runs with
and without nodescope alternate. The first pair, which does not count, compiles the Python modules,
as an installation does.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.default import PROGRAMS, SAMPLES
from bench.measure import Row

PAIRS: Final = 5
WATCHED: Final = ("-m", "nodescope", "run", "--exit", "--no-stop-on-entry", "--no-browser",
                  "--port", "0", "--record")  # fmt: skip


def rows() -> Iterator[Row]:
    """The samples with their defaults, then those that other benchmarks shorten, shortened."""
    for name, options in sorted(PROGRAMS, key=lambda program: bool(program[1])):
        yield row(name, [str(SAMPLES / f"{name}.py")], PAIRS)
        if options:
            shorter = f"{name} {' '.join(options)}"
            yield row(shorter, [str(SAMPLES / f"{name}.py"), *options], PAIRS)


def row(name: str, script: list[str], pairs: int) -> Row:
    """Time a script in pairs of runs; the first pair fills caches and does not count."""
    with tempfile.TemporaryDirectory() as folder:
        recording = str(Path(folder) / "bench.nscope")
        took = [
            (_seconds(script, folder), _seconds([*WATCHED, recording, *script], folder))
            for _ in range(1 + pairs)
        ][1:]
    ratios = sorted(watched / plain for plain, watched in took)
    return Row(
        f"{name}, whole process under nodescope run",
        "python",
        statistics.median(ratios),
        detail=f"{ratios[0]:.2f} to {ratios[-1]:.2f}; "
        f"{statistics.median(plain for plain, _ in took):.2f} s unobserved",
    )


def _seconds(arguments: list[str], folder: str) -> float:
    """The time of a Python process, in seconds."""
    surroundings = {
        **os.environ, "XDG_STATE_HOME": folder,
        "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled"),
    }  # fmt: skip
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, cwd=SAMPLES.parent,
        env=surroundings,
    )  # fmt: skip
    return time.perf_counter() - start
