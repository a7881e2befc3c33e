"""Whole training steps of small networks, run eagerly, compared with PyTorch's eager mode.

Invariant: both compute the same loss and gradients before they are timed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from bench import processes, programs
from bench.measure import Row, median_ns, paired, ratio
from bench.programs.case import EAGER, TORCH, line_up

LIMITS = {"cnn": (1.4, 1.1), "transformer": (1.2, 0.95)}


def rows() -> Iterator[Row]:
    for threads in processes.thread_counts():
        for program, name, figure, detail in processes.measured("networks", threads):
            must, aim = LIMITS[program]
            yield Row(f"{name}, eager, {processes.said(threads)}", "torch", figure, must=must,
                      aim=aim, detail=detail)  # fmt: skip


def measured() -> list[tuple[str, str, float, str]]:
    """Measure in a separate process: program, case, ratio, detail."""
    processes.set_torch_threads()
    return [*_measured()]


def _measured() -> Iterator[tuple[str, str, float, Any]]:
    for program in LIMITS:
        for case in programs.cases(program):
            field = line_up(case, (EAGER, TORCH))
            if field.left_out:
                print(f"  {case.name} is left out: {field.left_out}", file=sys.stderr)
                continue
            runs = {name: contender.run for name, contender in field.contenders.items()}
            times = paired(runs, rounds=25, budget_s=0.05)
            detail = ", ".join(f"{name} {median_ns(times, name) / 1e6:.2f} ms" for name in times)
            yield program, case.name, ratio(times, EAGER, TORCH), detail
