"""What `nodescope run` costs a user: the samples as whole processes, by the clock.

This includes the server, imports and the end of the recording, unlike `bench.default`. Runs with
and without nodescope alternate. Modules are compiled once, in the pair that does not count, as in
an installed nodescope.
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
    """The samples as they are, then those that the other benchmarks shorten."""
    for name, options in sorted(PROGRAMS, key=lambda program: bool(program[1])):
        yield row(name, [str(SAMPLES / f"{name}.py")], PAIRS)
        if options:
            shorter = f"{name} {' '.join(options)}"
            yield row(shorter, [str(SAMPLES / f"{name}.py"), *options], PAIRS)


def row(name: str, script: list[str], pairs: int) -> Row:
    """Time a script in pairs of runs; the first pair, which fills caches, does not count."""
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
    """How long a process of Python takes."""
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
