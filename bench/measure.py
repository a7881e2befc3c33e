"""Rows of the speed table, and functions that time contenders against each other.

Invariant: contenders run in turn in the same rounds, so a busy machine slows all of them; a figure
is the median over rounds of the ratio within a round.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: What was measured.
        peer: What it is compared with; ``""`` for an absolute figure.
        figure: The ratio, or the absolute figure in ``unit``; None if it could not be measured,
            with the reason in ``detail``.
        unit: ``x`` for a ratio, else ``ns``, ``us``, ``ms``, ``events/s``.
        must, aim: Limits from the design, in the same unit; None if it names none.
        more_is_better: Whether the limits are lower bounds.
        detail: Absolute figures and other facts for the reader.
        beside: The same ratio to other peers, measured in the same rounds.
    """

    name: str
    peer: str
    figure: float | None
    unit: str = "x"
    must: float | None = None
    aim: float | None = None
    more_is_better: bool = False
    detail: str = ""
    beside: Mapping[str, float] = field(default_factory=dict)

    def reaches(self, limit: float | None) -> bool | None:
        """Whether the figure keeps a limit; None if either is missing."""
        if limit is None or self.figure is None:
            return None
        return self.figure >= limit if self.more_is_better else self.figure <= limit


@dataclass(frozen=True)
class Times:
    """Seconds per call in each round.

    Attributes:
        wall: Wall time.
        cpu: CPU time of all threads.
        own: CPU time of the calling thread.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)


def spent(call: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Seconds per call as in `Times`, over ``repeats`` with the garbage collector off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        own, cpu, start = time.thread_time(), time.process_time(), time.perf_counter()
        for _ in range(repeats):
            call()
        wall = time.perf_counter() - start
        cpu, own = time.process_time() - cpu, time.thread_time() - own
        return wall / repeats, cpu / repeats, own / repeats
    finally:
        if was_on:
            gc.enable()


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Wall seconds for one call; see `spent`."""
    return spent(call, repeats)[0]


def paired_times(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    budget_s: float = 0.02,
    within: Mapping[str, Callable[[], AbstractContextManager[object]]] | None = None,
    warm: int = 0,
    before: Callable[[], object] | None = None,
) -> dict[str, Times]:
    """Time each contender once per round, in turn.

    Args:
        contenders: What to time, by name.
        rounds: The number of rounds.
        budget_s: About how long a contender's calls are repeated in each round, in seconds.
        within: A context per contender, entered for its turn and warmed up by one call.
        warm: The number of calls that each contender makes before it is timed in a round, so it
            finds its own data and threads, not those of the contender before it.
        before: Called before each turn and not timed, such as the removal of the last turn's file.
    """
    around = within or {}
    repeats = {}
    for name, call in contenders.items():
        with around.get(name, nullcontext)():
            call()
            once = max(seconds(call, 1), 1e-7)
        repeats[name] = max(1, int(budget_s / once))
    times = {name: Times() for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            if before is not None:
                before()
            gc.collect()
            with around.get(name, nullcontext)():
                for _ in range(max(warm, int(name in around))):
                    call()
                wall, cpu, own = spent(call, repeats[name])
            times[name].wall.append(wall)
            times[name].cpu.append(cpu)
            times[name].own.append(own)
    return times


def paired(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    budget_s: float = 0.02,
    within: Mapping[str, Callable[[], AbstractContextManager[object]]] | None = None,
) -> dict[str, list[float]]:
    """Wall seconds per call by name and round; see `paired_times`."""
    times_by_name = paired_times(contenders, rounds=rounds, budget_s=budget_s, within=within)
    return {name: times.wall for name, times in times_by_name.items()}


def ratio(times: dict[str, list[float]], ours: str, peer: str) -> float:
    """Median over rounds of ours / peer."""
    return statistics.median(a / b for a, b in zip(times[ours], times[peer], strict=True))


def median_ns(times: dict[str, list[float]], name: str, per: int = 1) -> float:
    """Median nanoseconds for one of ``per`` operations in a call."""
    return statistics.median(times[name]) / per * 1e9


def machine_note() -> str:
    """The machine's processor, cores and load, and the version of Python."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text().splitlines()
        model = next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
            model,
        )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{model}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"
