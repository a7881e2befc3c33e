"""The cost of `nodescope run` without options: the samples, each in a separate process.

The server and the page are not included; they take about a second for any program.
"""

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

from bench.measure import Row
from nodescope.api import DEFAULT_SLOWDOWN, Run
from nodescope.cli.run import kept_by

SAMPLES: Final = Path(__file__).resolve().parents[1] / "samples"
PROGRAMS: Final = (
    ("digits_mlp", ()),
    ("digits_cnn", ()),
    ("char_transformer", ("--steps", "40", "--letters", "20")),
    ("lstm_adding", ()),
    ("linear_regression", ()),
)
PAIRS: Final = 3


def rows() -> Iterator[Row]:
    for name, options in PROGRAMS:
        pairs = [(_run(name, options, watched=False), _run(name, options, watched=True))
                 for _ in range(PAIRS)]  # fmt: skip
        yield Row(
            f"{name}, nodescope run without options",
            "not observed",
            statistics.median(took / free for free, took in pairs),
            must=1.2 * DEFAULT_SLOWDOWN,
            aim=DEFAULT_SLOWDOWN,
            detail=f"{statistics.median(free for free, _ in pairs):.2f} s unobserved",
        )


def _run(name: str, options: tuple[str, ...], *, watched: bool) -> float:
    """The time of the script in a separate process, without nodescope's imports, in seconds."""
    call = [sys.executable, "-m", "bench.default", json.dumps([name, options, watched])]
    done = subprocess.run(call, check=True, capture_output=True, text=True, cwd=SAMPLES.parent)
    return float(done.stdout.splitlines()[-1])


def _measure(name: str, options: list[str], watched: bool) -> float:
    sample = SAMPLES / f"{name}.py"
    sys.path.insert(0, str(SAMPLES))
    sys.argv = [str(sample), *options]
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        run: Any = None
        if watched:
            run = Run(Path(folder) / "bench.nscope", debugger=True, say=lambda _: None,
                      **kept_by(None, None))  # fmt: skip
            run.start()
        start = time.perf_counter()
        runpy.run_path(str(sample), run_name="__main__")
        took = time.perf_counter() - start
        if run is not None:
            run.finish()
    return took


if __name__ == "__main__":
    print(_measure(*json.loads(sys.argv[1])))
