"""A step's waits and its memory, as the page requests them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.record.live_memory import live_memory
from nodescope.record.recording import Recording
from nodescope_server.handlers.step_courses import moments
from nodescope_server.wire import diff_messages
from nodescope_server.wire import timeline_messages as wt
from tests.server.support import Live, Page

ALWAYS = (0, 1 << 60)


@pytest.fixture
def run(live: Live, tmp_path: Path) -> tuple[str, Path]:
    """A run's id and file: two steps, the second of which needs at most 12,000 bytes."""
    path = tmp_path / "r.nscope"
    x = np.ones(1000, np.float32)
    with ns.record(path, level="timing"):
        for _ in ns.steps(range(2)):
            y = np.tanh(ns.tensor(x))
            np.sum(y.reshape((10, 100)) * 2 + y.reshape((10, 100)))
    return asyncio.run(live.app.runs.open(path)).info.id, path


def numbers(column: bytes) -> list[float]:
    return np.frombuffer(column, dtype="<f8").tolist()


def test_the_critical_path_of_a_step(page: Page, run: tuple[str, Path]) -> None:
    number, path = run
    answer = page.ask(wt.GetCriticalPath(number, 2, *ALWAYS))
    assert (answer.observed, answer.partial, answer.lanes) == (True, False, 1)
    assert answer.ran_ns == answer.operations_ns == sum(numbers(answer.duration_ns))
    assert answer.members == answer.count == answer.nodes == 6
    with Recording.open(path) as recording:
        names = {row.node.id: row.node.name for row in recording.nodes()}
    chain = [names[int(node)] for node in numbers(answer.node)]
    assert chain == ["tanh", "reshape", "multiply", "reshape_1", "add", "sum"]
    assert sum(node.total_ns for node in answer.heaviest) == answer.ran_ns
    alone = page.ask(wt.GetCriticalPath(number, 2, *ALWAYS, data=True))
    assert alone.data_ns == answer.data_ns < answer.ran_ns
    assert alone.members == 5
    assert sum(numbers(alone.duration_ns)) == alone.data_ns
    (long,) = numbers(page.ask(wt.GetCriticalPath(number, 2, *ALWAYS, limit=1)).duration_ns)
    assert long == max(numbers(answer.duration_ns))
    start = int(numbers(answer.start_ns)[3])
    assert numbers(page.ask(wt.GetCriticalPath(number, 2, start, start)).place) == [3]


def test_the_memory_of_a_step_as_it_is_told_elsewhere(page: Page, run: tuple[str, Path]) -> None:
    number, path = run
    answer = page.ask(wt.GetStepMemory(number, 2, *ALWAYS))
    with Recording.open(path) as recording:
        told = live_memory(recording, 2)
        nodes = {row.node.name: row.node.id for row in recording.nodes()}
    assert answer.peak == told.peak == max(numbers(answer.needed)) == 16_000
    node = page.ask(diff_messages.GetMemory(number, nodes["add"], 2))
    assert (node.peak, node.peak_node) == (answer.peak, answer.peak_node) == (16_000, nodes["add"])
    assert answer.at == answer.peak
    assert answer.at_ns == answer.peak_ns < answer.peak_end_ns
    assert [(value.nbytes, value.throughout, value.views) for value in answer.values] == [
        (4000, True, 0), (4000, False, 2), (4000, False, 0), (4000, False, 0),
    ]  # fmt: skip
    assert [value.producer for value in answer.values] == [
        nodes[name] for name in ("tensor", "tanh", "multiply", "add")
    ]
    first = page.ask(wt.GetStepMemory(number, 2, *ALWAYS, at_seq=0))
    assert [value.producer for value in first.values] == [nodes["tensor"]]
    assert first.at == 4000
    peak = page.ask(wt.GetStepMemory(number, 2, *ALWAYS, at_seq=answer.peak_seq))
    assert (peak.at, peak.at_ns, peak.values) == (answer.at, answer.at_ns, answer.values)
    assert page.ask(wt.GetStepMemory(number, 2, *ALWAYS, at_seq=1 << 62)).at < peak.at


def test_what_is_not_there(page: Page, run: tuple[str, Path]) -> None:
    number, _ = run
    for step in (99, 1 << 62):
        assert not page.ask(wt.GetCriticalPath(number, step, *ALWAYS)).observed
        memory = page.ask(wt.GetStepMemory(number, step, *ALWAYS, at_seq=5))
        assert (memory.observed, memory.count, memory.peak) == (False, 0, 0)
    hostile = page.ask(wt.GetStepMemory(number, 1, 1 << 60, -5, limit=-1, at_seq=-5))
    assert hostile.count == 0
    assert page.ask(wt.GetCriticalPath(number, 1, 1 << 60, -5, limit=-1)).count == 0


def test_joined_moments_leave_out_no_peak() -> None:
    times = np.arange(100_000, dtype=np.int64) * 10
    needed = np.ones(100_000, dtype=np.int64)
    needed[77_777], needed[99_999] = 9, 0
    shown = moments(times, needed, 0, 1 << 40, 100)
    assert len(shown) <= 100
    assert {77_777, 99_999} <= set(shown.tolist())
    assert np.all(np.diff(shown) > 0)
    near = moments(times, needed, 777_765, 777_785, 100)
    assert near.tolist() == [77_776, 77_777, 77_778]
