"""Timing: how long compiled functions take unobserved, eager and compiled, from several runs.

The runs of the two forms alternate, each in its own process, so that other load on the machine
affects both. The first calls of each run, in which functions are traced and caches fill, are
ignored.

Invariant: pure functions of the measured times; functions with too few calls are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from nodescope.record.rows import CallTimes, FunctionTiming

WARM_UP: Final = 3
"""The number of calls at the start of each run that are ignored."""

_FEWEST: Final = 2

Times = Mapping[str, Sequence[int]]
"""By function name: the nanoseconds of each call of a run."""


def timings(eager: Sequence[Times], compiled: Sequence[Times]) -> tuple[FunctionTiming, ...]:
    """Timings of the functions called often enough in every run, in order of the first run."""
    names = list(eager[0]) if eager else []
    result: list[FunctionTiming] = []
    for name in names:
        eager_times = [_warm(run.get(name, ())) for run in eager]
        two = [_warm(run.get(name, ())) for run in compiled]
        if min(map(len, (*eager_times, *two)), default=0) < _FEWEST:
            continue
        pairs = tuple(
            median(left) / median(right) for left, right in zip(eager_times, two, strict=True)
        )
        result.append(FunctionTiming(name, _times(eager_times), _times(two), pairs))
    return tuple(result)


def _warm(calls: Sequence[int]) -> list[int]:
    return list(calls[WARM_UP:])


def _times(runs: Sequence[Sequence[int]]) -> CallTimes:
    calls = sorted(duration for run in runs for duration in run)
    last = len(calls) - 1
    return CallTimes(median(calls), calls[last // 4], calls[last - last // 4], len(calls))
