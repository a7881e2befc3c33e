"""Measuring in a separate process, with a limited number of threads.

NumPy's BLAS, OpenMP and XLA read the number of threads when they are loaded. So the environment
variables are set, and the process is limited to as many cores, before any of them is imported.

Invariant: this module imports nothing that starts threads. The measured code prints to standard
error; only the result goes to the parent.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
ONE_THREAD_FLAGS = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def thread_counts() -> tuple[int, ...]:
    """One and two threads, if there are as many cores."""
    return tuple(count for count in (1, 2) if count <= (os.cpu_count() or 1))


def said(threads: int) -> str:
    return f"{threads} thread" + ("" if threads == 1 else "s")


def measured(
    module: str,
    threads: int,
    *args: str,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 300.0,
) -> Any:
    """Call ``bench.<module>.measured(*args)`` in a process with this number of threads.

    Raises:
        RuntimeError: The process failed, or took longer than ``limit_s``; the message says which.
    """
    try:
        process = subprocess.run(
            [sys.executable, "-m", "bench.processes", module, str(threads), *args],
            cwd=Path(__file__).resolve().parents[1],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            timeout=limit_s,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"took longer than {limit_s:.0f} s") from None
    if process.returncode:
        raise RuntimeError(f"its process ended with {process.returncode}")
    return json.loads(process.stdout)


def confine(threads: int) -> None:
    """Limit this process to as many cores, and each library to as many threads."""
    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))
    os.environ["JAX_PLATFORMS"] = "cpu"
    if threads == 1:
        os.environ.update(ONE_THREAD_FLAGS)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, set(cores[-threads:]))


def set_torch_threads() -> None:
    """Set the number of PyTorch's threads, which otherwise depends on the machine's cores."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def main() -> None:
    module, threads, *args = sys.argv[1:]
    confine(int(threads))
    answer = os.dup(1)
    os.dup2(2, 1)
    assert "numpy" not in sys.modules, "it was loaded before its threads were set"
    measured_ = importlib.import_module(f"bench.{module}").measured(*args)
    with os.fdopen(answer, "w") as out:
        json.dump(measured_, out)


if __name__ == "__main__":
    main()
