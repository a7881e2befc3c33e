"""The cost of observing: per node, per tensor, and for a whole sample at each capture level."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import nodescope as ns
from bench.measure import Row, median_ns, paired, paired_times
from bench.tiny_ops import OPS, X, Y, body
from nodescope.engine import tracer
from nodescope.events import Bus, Event, Level, NodeFinished, Probe
from nodescope.ir.block_demands import TimesSink
from nodescope.ir.graph import Node
from nodescope.record.noted_times import NotedTimes, noted_times
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise

SUMMARY_CONSTANT_NS = 3000
HOOK = None


def rows() -> Iterator[Row]:
    yield _probe_off()
    yield from _per_node()
    yield _small_tensors()
    yield from _summaries()


class _Sink:
    """A probe that ignores all events."""

    def emit(self, event: Event) -> None:
        pass


class _TimesSink(_Sink):
    """The same at level timing, where executions are noted first; here they are never written."""

    def __init__(self) -> None:
        self._noted: NotedTimes = noted_times(self._full, lambda: None)

    def block_level(self) -> Level:
        return "timing"

    def times_sink(self) -> TimesSink:
        return self._noted

    def _full(self) -> None:
        self._noted.take()


def _probe_off() -> Row:
    def bare(value: object) -> object:
        return value

    def checked(value: object) -> object:
        if HOOK is not None:
            return None
        return value

    def many(call: Callable[[object], object]) -> Callable[[], object]:
        def loop() -> None:
            for _ in range(1000):
                call(None)

        return loop

    times = paired({"bare": many(bare), "checked": many(checked)}, rounds=31)
    extra = statistics.median(b - a for a, b in zip(times["bare"], times["checked"], strict=True))
    return Row(
        "probe off, per eager node",
        "",
        max(extra / 1000 * 1e9, 0.0),
        "ns",
        must=25,
        aim=0,
        detail="the one `is not None` test that an unobserved op makes",
    )


def _per_node() -> Iterator[Row]:
    x, y = ns.parameter(X, name="x"), ns.parameter(Y, name="y")

    def plain() -> None:
        ns.step()
        body(x, y)

    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "bench.nscope", level="timing")
        times = paired(
            {"plain": plain, "before": plain, "events": plain, "stream": plain},
            within={
                "before": lambda: _observed(_TimesSink()),
                "events": lambda: _observed(_Sink()),
                "stream": lambda: _observed(recorder),
            },
            rounds=9,
            budget_s=0.05,
        )
        recorder.close()
    base = median_ns(times, "plain", OPS)
    for name, probe, must, aim in (
        ("timing level, per node, before the stream", "before", 350, 230),
        ("timing level, per node, with the stream", "stream", 1000, 600),
        ("an event with its arrays, per node, before the stream", "events", None, None),
    ):
        extra = median_ns(times, probe, OPS) - base
        yield Row(name, "unobserved op", extra, "ns", must, aim, detail=f"op {base:.0f} ns")


@contextlib.contextmanager
def _observed(probe: Probe) -> Iterator[None]:
    bus = Bus()
    bus.add(probe)
    tracer.observe(bus)
    try:
        yield
    finally:
        tracer.unobserve()


def _small_tensors() -> Row:
    """Operations on 4 floats at level summary: as in a program, not as events handed over."""
    x, y = ns.parameter(X, name="x"), ns.parameter(Y, name="y")
    nodes, wrote_s = 0, 0.0

    def others_s() -> float:
        """The processor time of all threads but this one."""
        return time.process_time() - time.thread_time()

    def plain() -> None:
        ns.step()
        body(x, y)

    def observed() -> None:
        nonlocal nodes
        plain()
        nodes += OPS

    @contextlib.contextmanager
    def recorded() -> Iterator[None]:
        nonlocal wrote_s
        start = others_s()
        with _observed(recorder):
            yield
        recorder.flush(timeout_s=30)
        wrote_s += others_s() - start

    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "bench.nscope", level="summary")
        times = paired_times(
            {"plain": plain, "summary": observed}, within={"summary": recorded}, rounds=9,
            budget_s=0.05,
        )  # fmt: skip
        lost = _lost(recorder)
        recorder.close()
    pairs = zip(times["plain"].own, times["summary"].own, strict=True)
    return Row(
        "summary level, per node of 4 float32, the program's thread", "unobserved op",
        statistics.median(after - before for before, after in pairs) / OPS * 1e9, "ns",
        must=1500, aim=800,
        detail=f"the writer's thread {wrote_s / nodes * 1e9:.0f} ns; {lost:,} dropped",
    )  # fmt: skip


def _summaries() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "bench.nscope", level="summary")
        for size in (4, 1_000, 100_000, 1_000_000):
            before = _lost(recorder)
            array = rng.standard_normal(size).astype(np.float32)
            node = Node(1, "exp", "exp", "elementwise", outputs=(1,))
            event = NodeFinished(node, (), (array,), 1, 0, 0, 1)

            def emit(event: NodeFinished = event) -> None:
                recorder.emit(event)

            times = paired(
                {
                    "emit": emit,
                    "summarise": lambda a=array: summarise(a),
                    "exp": lambda a=array: np.exp(a),
                },
                within={"emit": lambda: _drained(recorder)},
                rounds=7,
                budget_s=0.005,
            )
            exp = median_ns(times, "exp")
            lost = _lost(recorder) - before
            limits = (1.2, 0.7) if size >= 100_000 else (None, None)
            for name, probe, must, aim in (
                ("summary level, the program's thread", "emit", 1, 0.65),
                ("summary itself, the writer's thread", "summarise", *limits),
            ):
                took = median_ns(times, probe)
                note = f"; the queue was full {lost:,} times: dropped, not copied" if lost else ""
                yield Row(
                    f"{name}, {size:,} float32",
                    "np.exp, after 3 us",
                    max(took - SUMMARY_CONSTANT_NS, 0) / exp,
                    must=must,
                    aim=aim,
                    detail=f"{took / 1e3:.1f} us, np.exp {exp / 1e3:.1f} us"
                    + (note if probe == "emit" else ""),
                )
        recorder.close(timeout_s=30)


def _lost(recorder: Recorder) -> int:
    """The number of outputs dropped so far, from the recording itself."""
    recorder.flush(timeout_s=30)
    recording = Recording.open(recorder.path)
    try:
        return recording.dropped().summaries
    finally:
        recording.close()


@contextlib.contextmanager
def _drained(recorder: Recorder) -> Iterator[None]:
    """Empty the queue before and after, so the writer's backlog is not timed."""
    recorder.flush(timeout_s=30)
    yield
    recorder.flush(timeout_s=30)
