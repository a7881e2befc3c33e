"""The cost of recording a Ray program: 1,000 small tasks on a local cluster with two processors.

The tasks are submitted in a comprehension and fetched at once. The figure is the median of the
rounds after a first one, which starts the workers. The program is recorded as by `nodescope run`
without options, but without the page; then also with a breakpoint on another task. Needs Ray:
``.venv-ray/bin/python -m bench ray_tasks``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
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
from nodescope.debug.breakpoints.syntax import parse_breakpoint

TASKS: Final = 1000
ROUNDS: Final = 7
PAIRS: Final = 3
_ROOT: Final = Path(__file__).resolve().parents[1]


def rows() -> Iterator[Row]:
    """Recorded, and with a breakpoint that never stops, compared with plain Ray."""
    if importlib.util.find_spec("ray") is None:
        yield Row("1,000 small Ray tasks", "plain", None, detail="Ray is not installed")
        return
    runs = [{way: _run(way) for way in ("alone", "recorded", "breakpoint")} for _ in range(PAIRS)]
    alone = statistics.median(run["alone"] for run in runs)
    for way, words in (("recorded", "recorded"), ("breakpoint", "and a breakpoint elsewhere")):
        ratio = statistics.median(run[way] / run["alone"] for run in runs)
        more = statistics.median(run[way] - run["alone"] for run in runs) / TASKS * 1e6
        detail = f"{alone:.2f} s alone, {more:.0f} us more per task"
        yield Row(f"1,000 small Ray tasks, {words}", "plain", ratio, detail=detail)


def _run(way: str) -> float:
    call = [sys.executable, "-m", "bench.ray_tasks", way]
    done = subprocess.run(call, check=True, capture_output=True, text=True, cwd=_ROOT)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _program() -> float:
    import ray

    @ray.remote
    def small(x: int) -> int:
        return x + 1

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    times: list[float] = []
    try:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            total = sum(ray.get([small.remote(x) for x in range(TASKS)]))
            times.append(time.perf_counter() - start)
            assert total == TASKS * (TASKS + 1) // 2
    finally:
        ray.shutdown()
    return statistics.median(times[1:])


def _main(way: str) -> float:
    if way == "alone":
        return _program()
    level, slowdown = "summary", DEFAULT_SLOWDOWN
    with tempfile.TemporaryDirectory() as folder:
        breakpoints = (parse_breakpoint("op:another"),) if way == "breakpoint" else ()
        options: dict[str, Any] = {"debugger": way == "breakpoint", "breakpoints": breakpoints}
        run = Run(
            Path(folder) / "run.nscope", level=level, newest=True, explicit=False,
            max_slowdown=slowdown, say=lambda text: None, **options,
        )  # fmt: skip
        controller = run.controller() if way == "breakpoint" else contextlib.nullcontext()
        run.start()
        try:
            return _program()
        finally:
            run.finish()
            if way == "breakpoint":
                controller.close()


if __name__ == "__main__":
    print(json.dumps(_main(sys.argv[1])))
