"""The cost of static graphs without their kernels: a call, and tracing.

Invariant: the cost of a call is relative to one NumPy call on equal arrays in the same rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np

import nodescope as ns
from bench.measure import Row, paired
from bench.programs import mlp
from bench.programs.case import NUMPY


def rows() -> Iterator[Row]:
    yield from _call()
    yield from _trace()


def _call() -> Iterator[Row]:
    """The cost of a call beyond its one operation."""
    f = ns.compile(lambda a, b, c: a + b)
    a, b, c = (ns.tensor(np.ones(4, np.float32)) for _ in range(3))
    first, two = a.data, b.data
    times = paired({"compiled": lambda: f(a, b, c), "numpy": lambda: first + two})
    both = zip(times["compiled"], times["numpy"], strict=True)
    beyond = statistics.median((ours - plain) * 1e6 for ours, plain in both)
    yield Row("call of a compiled function, 3 tensors", "", beyond, unit="us", must=15.0,
              detail="beyond its one operation")  # fmt: skip


def _trace() -> Iterator[Row]:
    """The time of tracing, the first half of compiling: from the function to its graph."""
    case = mlp.case(64)
    times = []
    for _ in range(15):
        contender = case.makers[NUMPY]()
        start = time.perf_counter()
        contender.compiled.graph(*contender.inputs)
        times.append((time.perf_counter() - start) * 1e3)
    nodes = len(contender.compiled.graph(*contender.inputs).nodes)
    yield Row(f"tracing, {case.name}", "", statistics.median(times), unit="ms", must=20.0, aim=5.0,
              detail=f"{nodes} nodes")  # fmt: skip
