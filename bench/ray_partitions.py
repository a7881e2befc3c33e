"""What partitions on Ray cost and when they pay: a local cluster compared with this process.

There are four parts. A chain of tiny nodes in 1, 2, 4 and 8 partitions shows the cost of a
partition. Two partitions with edges of growing size show the cost of bytes. Two branches of growing
work on two workers show how much work makes them faster than this process. The last part is
training steps of two samples in 1, 2 and 4 partitions. Matrix products use one thread everywhere,
so a second worker adds a processor. Needs Ray:
``.venv-ray/bin/python -m bench ray_partitions``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.measure import Row

_ROOT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 15
PARTITIONS: Final = (1, 2, 4, 8)
BYTES: Final = (1 << 10, 1 << 16, 1 << 20, 10 << 20)
WORK: Final = (2, 8, 32, 128)
"""The number of products of 256×256 matrices in each branch."""


def rows() -> Iterator[Row]:
    """Partitions, bytes and work, compared with the same graph in this process."""
    if importlib.util.find_spec("ray") is None:
        yield Row("partitions on Ray", "here", None, detail="Ray is not installed")
        return
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "bench.ray_partitions"], check=True, capture_output=True, text=True,
        cwd=_ROOT, env={**os.environ, **one},
    )  # fmt: skip
    for name, here, there in json.loads(done.stdout.splitlines()[-1]):
        detail = f"{here * 1e3:.2f} ms here, {there * 1e3:.2f} ms on Ray"
        yield Row(name, "here", there / here, detail=detail)


def _median(call: Callable[[], Any]) -> float:
    for _ in range(3):
        call()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _main() -> Iterator[tuple[str, float, float]]:
    import numpy as np
    import ray

    import nodescope as ns

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")

    def measured(name: str, function: Callable[..., Any], *args: Any) -> tuple[str, float, float]:
        here, there = ns.compile(function), ns.compile(function, executor="ray")
        assert here(*args).numpy().tobytes() == there(*args).numpy().tobytes()
        return name, _median(lambda: here(*args)), _median(lambda: there(*args))

    def chain(parts: int) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            for part in range(parts):
                with ns.device(f"worker:{part}"):
                    x = np.tanh(x)
            return x.sum()

        return function

    small = ns.tensor(np.ones(128))
    for parts in PARTITIONS:
        yield measured(f"a chain of {parts} partitions, 1 KB edges", chain(parts), small)
    for size in BYTES:
        x = ns.tensor(np.ones(128))

        def edge(x: Any, count: int = size // 1024) -> Any:
            with ns.device("worker:0"):
                y = np.multiply(np.ones((count, 1)), x)
            with ns.device("worker:1"):
                return y.sum()

        yield measured(f"2 partitions, an edge of {size >> 10:,} KB", edge, x)
    matrix = ns.tensor(np.random.default_rng(0).standard_normal((256, 256)) / 16)
    for work in WORK:

        def branches(x: Any, work: int = work) -> Any:
            results = []
            for part in range(2):
                with ns.device(f"worker:{part}"):
                    y = x + part
                    for _ in range(work):
                        y = np.tanh(y @ x)
                    results.append(y.sum())
            return results[0] + results[1]

        yield measured(f"2 branches of {work} products 256x256", branches, matrix)
    for name in ("digits_cnn", "char_transformer"):
        for parts in (None, *PARTITIONS[:3]):
            options = {} if parts is None else {"executor": "ray", "partitions": parts}
            took = _training(name, **options)
            if parts is None:
                alone = took
            else:
                yield f"a training step of {name} in {parts} partitions", alone, took
    ray.shutdown()


def _training(name: str, **options: Any) -> float:
    """The time of a training step of a sample's network, in seconds."""
    from bench.cuts import training

    step, batch, labels = training(name, **options)
    return _median(lambda: step(batch, labels))


if __name__ == "__main__":
    print(json.dumps(list(_main())))
