"""Executions as times alone: which probes take them, and when events are emitted again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import tracer
from nodescope.events import Bus, Event, Level, NodeFinished
from nodescope.ir.block_demands import TimesSink
from nodescope.ir.demands import Demand
from nodescope.record.recording import Recording


class Times:
    """A probe that takes only times, and keeps the events that it still received."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self.events: list[NodeFinished] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, NodeFinished):
            self.events.append(event)

    def block_level(self) -> Level:
        return "timing"

    def times_sink(self) -> TimesSink:
        return self._take

    def _take(self, node: int, step: int, thread: int, start_ns: int, end_ns: int) -> None:
        assert thread
        assert 0 <= start_ns <= end_ns
        self.rows.append((node, step))


class Calm:
    """A probe that demands no executions at first."""

    def __init__(self) -> None:
        self.level: Level | None = "graph"
        self.ops: list[str] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, NodeFinished):
            self.ops.append(event.node.op)

    def block_level(self) -> Level | None:
        return self.level


@pytest.fixture
def bus() -> Iterator[Bus]:
    bus = Bus()
    tracer.observe(bus)
    try:
        yield bus
    finally:
        tracer.unobserve()


def body(x: ns.Tensor) -> ns.Tensor:
    return np.tanh(x * x + x)


def test_times_alone_are_taken_of_operators_and_calls(bus: Bus) -> None:
    times = Times()
    bus.add(times)
    bus.add(Calm())
    x = ns.parameter(np.ones(3, np.float32), name="x")
    for _ in range(3):
        ns.step()
        body(x)
    # Four nodes per step, including the parameter.
    assert [step for _, step in times.rows] == [1] * 4 + [2] * 4 + [3] * 4
    assert len({node for node, _ in times.rows}) == 4
    assert not times.events


def test_a_probe_that_wants_more_gets_the_next_execution(bus: Bus) -> None:
    times, calm = Times(), Calm()
    bus.add(times)
    bus.add(calm)
    x = ns.parameter(np.ones(3, np.float32), name="x")
    ns.step()
    body(x)
    ns.step()
    y = x * x
    calm.ops.clear()
    calm.level = None
    bus.want(calm, Demand(stops="a breakpoint"))
    np.tanh(y + x)
    assert calm.ops == ["add", "tanh"]
    assert [event.node.op for event in times.events][-2:] == ["add", "tanh"]


def test_a_new_probe_gets_the_next_execution(bus: Bus) -> None:
    bus.add(Times())
    x = ns.parameter(np.ones(3, np.float32), name="x")
    ns.step()
    body(x)
    ns.step()
    y = x * x
    late = Calm()
    late.level = None
    bus.add(late)
    np.tanh(y + x)
    assert late.ops == ["add", "tanh"]


@pytest.mark.parametrize("level", ["timing", "summary"])
def test_a_recording_has_the_same_executions_at_each_level(level: Level, tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    x = ns.parameter(np.ones(3, np.float32), name="x")
    with ns.record(path, level):
        for _ in ns.steps(range(3)):
            body(x).sum().backward()
    with Recording.open(path) as recording:
        ops = {row.node.id: row.node.op for row in recording.nodes()}
        rows = [(ops[row.node], row.step) for row in recording.executions()]
    forward = ["parameter", "multiply", "add", "tanh", "sum"]
    assert [op for op, step in rows if step == 3][: len(forward)] == forward
    assert [op for op, step in rows if step == 2] == [op for op, step in rows if step == 3]
