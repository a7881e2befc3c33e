"""Outputs of executions that were reported together are held, and taken out one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.events import Bus, NodesFinished, StepStarted
from nodescope.ir.track import Elements, Track, TrackValue
from nodescope.record.blocks import STATISTICS
from nodescope.record.governor.governor import Governor
from nodescope.record.newest.held_block import HeldBlock
from nodescope.record.newest.held_values import HeldValues
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import chain, finished

NAMES = ("a/x", "a/y", "a/z")


def _block(first: int, end: int, *, without: int = -1, step: int = 1) -> NodesFinished:
    """Executions of three nodes, the n-th of which gives n + 10 times the step, six times."""
    graph = chain(NAMES)
    values = tuple(TrackValue(node.id, "float32", (2, 3), 24) for node in graph.nodes)
    track = Track(graph.nodes, values, (0, 1, 2, 3))
    memory = np.zeros(256, np.uint8)
    places = []
    for at in range(first, end):
        place = -1 if at == without else 64 * (at - first)
        places.append(place)
        if place >= 0:
            memory[place : place + 24] = np.full(6, at + 10 * step, np.float32).view(np.uint8)
    nbytes = 24 * sum(place >= 0 for place in places)
    times = np.zeros((end - first, 2), np.int64)
    table = np.zeros(end - first, STATISTICS)
    elements = Elements(memory, tuple(places), nbytes)
    return NodesFinished(track, first, times, step, 1, {}, table, elements)


def _seen(held: HeldValues) -> list[tuple[int, list[Any]]]:
    return [
        (item.seq, [array.tolist()[0][0] for _, array in item.outputs])
        for item in held.take().items
    ]


def _held(event: NodesFinished, seq: int) -> HeldBlock:
    block = HeldBlock.of(event, seq)
    assert block is not None
    return block


def test_executions_of_a_block_are_taken_out_one_by_one() -> None:
    held = HeldValues(1 << 20, lambda array: None)
    held.step(1)
    held.add(_held(_block(0, 3, without=1), 7))
    assert _seen(held) == [(7, [10.0]), (9, [12.0])]
    assert held.nbytes == 0


def test_a_part_of_a_block_is_taken_out() -> None:
    held = HeldValues(1 << 20, lambda array: None)
    held.step(1)
    held.add(_held(_block(0, 3), 7))
    assert [item.seq for item in held.take_between(8, 9).items] == [8]
    assert [seq for seq, _ in _seen(held)] == [7, 9]


def test_what_is_taken_out_is_a_copy() -> None:
    event = _block(0, 3)
    items = _held(event, 1).executions()
    assert event.elements is not None
    event.elements.memory[:] = 0
    assert items[1].outputs[0][1].tolist() == [[11.0] * 3] * 2


@pytest.mark.parametrize(("most", "kept"), [(1100, [2, 3]), (600, [3])])
def test_the_oldest_makes_room(most: int, kept: list[int]) -> None:
    held = HeldValues(most, lambda array: None)
    held.step(1)
    for at in range(3):
        held.add(_held(_block(at, at + 1), 1 + at))
    assert [seq for seq, _ in _seen(held)] == kept
    assert held.made_room == 3 - len(kept)


def test_older_steps_are_released_as_a_whole() -> None:
    held = HeldValues(1 << 20, lambda array: None)
    for step in (1, 2, 3):
        held.step(step)
        held.add(_held(_block(0, 3, step=step), 10 * step))
    assert [seq for seq, _ in _seen(held)] == [20, 21, 22, 30, 31, 32]


def test_a_governed_recorder_takes_blocks_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    bus = Bus()
    governor = Governor(2.0, tell=lambda text: None, bus=bus, chosen=False)
    recorder = Recorder(path, policy=governor, newest=True)
    governor.govern(recorder)
    bus.add(recorder)
    assert bus.block_level() == "summary"
    assert bus.block_bytes() > 0
    bus.emit(chain(NAMES))
    for step in (1, 2, 3):
        assert not bus.leave_out(step)
        bus.emit(StepStarted(step, 1000 * step))
        bus.emit(_block(0, 2, step=step))
        bus.emit(_block(2, 3, step=step))
    governed = governor.governed()
    assert governed.values == 9
    assert recorder.close()
    with Recording.open(path) as recording:
        value = chain(NAMES).nodes[0].outputs[0]
        kept = [seq for seq in range(1, recording.last_seq() + 1)
                if recording.array(value, seq) is not None]  # fmt: skip
        arrays = [recording.array(value, seq) for seq in kept]
    assert [array[0, 0] for array in arrays if array is not None] == [20.0, 30.0]


def test_rows_of_a_block_count_the_runs_that_were_only_counted(tmp_path: Path) -> None:
    path, bus, graph = tmp_path / "r.nscope", Bus(), chain(NAMES)
    governor = Governor(2.0, tell=lambda text: None, bus=bus)
    recorder = Recorder(path, policy=governor)
    governor.govern(recorder)
    bus.add(recorder)
    bus.emit(graph)
    block = _block(0, 3)
    bus.emit(block)
    bus.emit(finished(graph.nodes[0], np.zeros(1)))
    recorder.levels.detail = "counted"
    for _ in range(2):
        bus.emit(finished(graph.nodes[0], np.zeros(1)))
    assert not bus.leave_out(1)
    bus.emit(StepStarted(1, 10))
    bus.emit(block)
    assert recorder.close()
    with Recording.open(path) as recording:
        times = recording._all("SELECT times FROM execution WHERE node = 1 ORDER BY seq")
    assert times == [(1,), (2,), (3,), (5,)]  # The first run in less detail keeps its row.


def test_steps_that_make_later_ones_cheaper_are_observed(tmp_path: Path) -> None:
    bus = Bus()
    governor = Governor(1.01, tell=lambda text: None, bus=bus)
    recorder = Recorder(tmp_path / "r.nscope", policy=governor)
    governor.govern(recorder)
    bus.add(recorder)
    governor.sampling.wants = lambda **asked: False  # type: ignore[method-assign,assignment]
    bus.learns = lambda: True
    assert not bus.leave_out(1)
    bus.learns = lambda: False
    assert bus.leave_out(2)
    assert recorder.close()
