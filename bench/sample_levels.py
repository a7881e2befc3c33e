"""The cost of observing whole samples at each capture level, and the least that it could be."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import mmap
import os
import runpy
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import nodescope as ns
from bench import processes
from bench.measure import Row, paired_times, ratio
from nodescope.engine import tracer
from nodescope.events import LEVELS, Bus, Event, Level, NodeFinished, Probe
from nodescope.ir.block_demands import TimesSink
from nodescope.record.noted_times import noted_times
from nodescope.record.queue_writer import BUDGET_BYTES

SAMPLES: Final = Path(__file__).resolve().parents[1] / "samples"
_MOST_S: Final = 1200  # for one sample at all levels, on a slow machine
_SHORT: Final = {"timing": (1.8, 1.4), "summary": (3.0, 2.0), "values": (5.0, 3.0)}
_LARGE: Final = {"timing": (1.1, None), "summary": (1.25, None), "values": (1.6, None)}


class _Sample(NamedTuple):
    """A sample with options.

    Attributes:
        rounds: How often each level is measured.
        limits: Must and aim by level.
    """

    name: str
    options: str
    rounds: int
    limits: dict[str, tuple[float, float | None]]

    @property
    def label(self) -> str:
        return f"{self.name} {self.options}".strip()

    def run(self) -> None:
        """Run it in this process."""
        argv, path = sys.argv, SAMPLES / f"{self.name}.py"
        if str(SAMPLES) not in sys.path:  # samples import each other
            sys.path.insert(0, str(SAMPLES))
        sys.argv = [str(path), *self.options.split()]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path(str(path), run_name="__main__")
        finally:
            sys.argv = argv


# Those with options are so short that their start and their end count.
RUNS: Final = (
    _Sample("digits_mlp", "", 9, _SHORT),
    _Sample("digits_mlp", "--epochs 3", 9, {}),
    _Sample("digits_cnn", "", 7, _LARGE),
    _Sample("char_transformer", "", 3, _LARGE),
    _Sample("char_transformer", "--steps 60 --letters 20", 5, {}),
)


def rows() -> Iterator[Row]:
    for place, sample in enumerate(RUNS):
        times = processes.measured("sample_levels", 1, str(place), limit_s=_MOST_S)
        yield from _levels(sample, times)
        if sample.limits is _LARGE:
            yield from _floors(sample, times)
    yield _events_row()


class _Sink:
    """A probe that ignores all events."""

    def emit(self, event: Event) -> None:
        pass


class _TimesSink(_Sink):
    """A probe that takes the times of each execution, and throws them away."""

    def __init__(self) -> None:
        self._times = noted_times(self._throw_away, lambda: None)

    def _throw_away(self) -> None:
        self._times.take()

    def block_level(self) -> Level:
        return "timing"

    def times_sink(self) -> TimesSink:
        return self._times


def _events_row() -> Row:
    """The cost of events alone; `governed` has the rows with a limit."""
    run = RUNS[0].run
    times = paired_times({"plain": run, "events": _events_alone(run)}, rounds=9, budget_s=0)
    wall = {name: spent.wall for name, spent in times.items()}
    return Row("digits_mlp, events alone", "not observed", ratio(wall, "events", "plain"))


def _events_alone(run: Callable[[], None]) -> Callable[[], object]:
    return lambda: _probed(run, _Sink())


def _probed(run: Callable[[], None], probe: Probe) -> None:
    """Run with a probe that receives all events, and without a recording."""
    bus = Bus()
    bus.add(probe)
    tracer.observe(bus)
    try:
        run()
    finally:
        tracer.unobserve()


def _levels(sample: _Sample, times: dict[str, Any]) -> Iterator[Row]:
    plain = statistics.median(times["plain"]["cpu"])
    for level in LEVELS:
        must, aim = sample.limits.get(level, (None, None))
        ratios = _ratios(times, level, "cpu")
        took = statistics.median(times[level]["cpu"])
        wall = statistics.median(_ratios(times, level, "wall"))
        yield Row(
            f"{sample.label} at level {level}",
            "not observed",
            statistics.median(ratios),
            must=must,
            aim=aim,
            detail=f"processor time {took * 1e3:.0f} ms, plain {plain * 1e3:.0f} ms; "
            f"{min(ratios):.2f} to {max(ratios):.2f}; by the clock {wall:.2f}",
        )


def _floors(sample: _Sample, times: dict[str, Any]) -> Iterator[Row]:
    """What observing without a recorder takes, and what a recorder without any other cost would
    take.
    """
    plain, nbytes = statistics.median(times["plain"]["cpu"]), times["nbytes"]
    ratios = _ratios(times, "noted", "cpu")
    yield Row(
        f"{sample.label}, times of nodes noted and thrown away",
        "not observed",
        statistics.median(ratios),
        detail=f"{min(ratios):.2f} to {max(ratios):.2f}",
    )
    large, small = times["touch"]
    for what, took, size, more in (
        ("np.min of each output", times["read"], nbytes, ""),
        ("writing each output", times["write"], nbytes, ""),
        (
            "new memory for the newest outputs", min(large, small), min(nbytes, BUDGET_BYTES),
            f"; large pages {large * 1e3:.0f} ms, small ones {small * 1e3:.0f} ms",
        ),
    ):  # fmt: skip
        yield Row(
            f"{sample.label}, {what} and nothing else",
            "not observed",
            1 + took / plain,
            detail=f"{took * 1e3:.0f} ms for {size / 1e6:.0f} MB{more}",
        )


def _ratios(times: dict[str, Any], level: str, which: str) -> list[float]:
    pairs = zip(times[level][which], times["plain"][which], strict=True)
    return [observed / plain for observed, plain in pairs]


def measured(place: str) -> dict[str, Any]:
    """Measure in a separate process: a sample at each level, and unobserved.

    Linear algebra has one thread there; the recorder's thread may use another core.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    sample = RUNS[int(place)]
    with tempfile.TemporaryDirectory() as name:
        folder, numbers = Path(name), itertools.count()

        def recorded(level: str) -> Callable[[], object]:
            def call() -> None:
                with ns.record(folder / f"{next(numbers)}.nscope", level=level):
                    sample.run()

            return call

        def empty() -> None:
            """Remove the recordings of earlier turns, which takes as long as they are large."""
            for path in folder.iterdir():
                path.unlink()

        times = paired_times(
            {
                "plain": sample.run,
                "noted": lambda: _probed(sample.run, _TimesSink()),
                **{level: recorded(level) for level in LEVELS},
            },
            rounds=sample.rounds,
            budget_s=0,
            before=empty,
        )
        result: dict[str, Any] = {
            name: {"cpu": spent.cpu, "wall": spent.wall} for name, spent in times.items()
        }
        return result if sample.limits is not _LARGE else {**result, **_least(sample, folder)}


class _Outputs:
    """A probe that counts outputs by dtype and shape; the last batches of an epoch are smaller.

    Attributes:
        of: How many outputs had each dtype and shape.
    """

    def __init__(self) -> None:
        self.of: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def emit(self, event: Event) -> None:
        if isinstance(event, NodeFinished):
            self.of.update((array.dtype.name, array.shape) for array in event.outputs)


def _least(sample: _Sample, folder: Path) -> dict[str, Any]:
    """The processor time for reading each output of a run once, for writing it to a file, and for
    the memory of those that a recording keeps.
    """
    outputs = _Outputs()
    _probed(sample.run, outputs)
    nbytes = sum(
        many * np.dtype(dtype).itemsize * math.prod(shape)
        for (dtype, shape), many in outputs.of.items()
    )
    reading = writing = 0.0
    with open(folder / "outputs", "wb", buffering=0) as file:
        for (dtype, shape), many in outputs.of.items():
            array = np.ones(shape, dtype)
            start = time.process_time()
            for _ in range(many):
                array.min()
            read = time.process_time()
            for nth in range(many):
                if nth * array.nbytes % BUDGET_BYTES < array.nbytes:  # the disk need not keep pace
                    file.seek(0)
                file.write(array.data if array.size else b"")
            reading, writing = reading + read - start, writing + time.process_time() - read
    kept = min(nbytes, BUDGET_BYTES)
    touching = [_touching(kept, large=large) for large in (True, False)]
    return {"read": reading, "write": writing, "touch": touching, "nbytes": float(nbytes)}


def _touching(nbytes: int, *, large: bool) -> float:
    """The processor time for the first use of memory, which the system clears page by page."""
    start = time.process_time()
    with mmap.mmap(-1, nbytes) as memory:
        name = "MADV_HUGEPAGE" if large else "MADV_NOHUGEPAGE"
        if hasattr(mmap, name):
            memory.madvise(getattr(mmap, name))
        np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
    return time.process_time() - start
