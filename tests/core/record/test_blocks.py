"""Executions reported in blocks are recorded as if each had been reported individually."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.events import (
    LEVELS,
    Bus,
    Demand,
    HostSpan,
    Level,
    Logged,
    NodesFinished,
    StepStarted,
)
from nodescope.ir.track import Elements, Track, TrackValue
from nodescope.record import block_columns
from nodescope.record.blocks import NOT_KNOWN, STATISTICS
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_INF, HAS_NAN
from nodescope.record.summary import summarise
from tests.core.record.runs import chain, finished, in_rows

NAMES = ("a/x", "a/y", "a/z")
TABLES = ("execution", "summary", "span")


def _arrays(step: int) -> list[np.ndarray[Any, Any]]:
    arrays = [np.full((2, 3), step + at, np.float32) for at in range(len(NAMES))]
    arrays[1][0, 0] = np.nan if step == 2 else 1
    arrays[2][:] = np.inf if step == 3 else 0
    return arrays


def _statistics(arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    table = np.zeros(len(arrays), STATISTICS)
    for row, array in zip(table, arrays, strict=True):
        told = summarise(array)
        if told.min is not None:
            row["moments"] = (told.min, told.max, told.mean, told.std, told.norm)
            row["histogram"] = told.histogram
        row["nan"], row["inf"], row["zero"] = told.nan_count, told.inf_count, told.zero_count
        row["finite"] = array.size - told.nan_count - told.inf_count
        row["previewed"], row["preview"][: len(told.preview)] = len(told.preview), told.preview
    return table


def _recorded(path: Path, level: Level, *, in_blocks: bool) -> dict[str, list[Any]]:
    graph = chain(NAMES)
    values = tuple(TrackValue(node.id, "float32", (2, 3), 24) for node in graph.nodes)
    track = Track(graph.nodes, values, (0, 1, 2, 3))
    recorder = Recorder(path, level=level)
    recorder.emit(graph)
    for step in (1, 2, 3):
        recorder.emit(StepStarted(step, 1000 * step))
        arrays = _arrays(step)
        starts = [1000 * step + 10 * at for at in range(len(NAMES))]
        if not in_blocks:
            for node, array, at in zip(graph.nodes, arrays, starts, strict=True):
                recorder.emit(finished(node, array, step=step, at=at))
            continue
        times = np.array([[at, at + 500] for at in starts])
        table = _statistics(arrays) if level == "summary" else None
        for part in (slice(0, 1), slice(1, 3)):  # A block may arrive in parts.
            some = None if table is None else table[part]
            recorder.emit(NodesFinished(track, part.start, times[part], step, 1, {}, some))
    recorder.emit(Logged("stdout", "the end", 3, 9000))
    assert recorder.close()
    database = sqlite3.connect(path)
    return {
        table: sorted(map(repr, database.execute(f"SELECT * FROM {table}").fetchall()))
        for table in TABLES
    }


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "values"])
def test_rows_are_the_same(level: Level, tmp_path: Path) -> None:
    one_by_one = _recorded(tmp_path / "one.nscope", level, in_blocks=False)
    together = _recorded(tmp_path / "block.nscope", level, in_blocks=True)
    assert together["execution"] == one_by_one["execution"]
    assert together["summary"] == one_by_one["summary"]
    assert bool(together["summary"]) == (level == "summary")


MANY = 300
KINDS = (("float32", (2, 3)), ("bfloat16", (2, 3)), ("int64", ()), ("float32", (0, 4)))
WITHOUT = range(120, 130)
"""Executions without outputs."""


def _many(path: Path, *, copied: bool) -> tuple[dict[str, Any], int]:
    """Record a long block; return the contents, and the number of executions in columns.

    Args:
        path: The path of the recording.
        copied: Whether the block has copies of elements, so that it may need rows.
    """
    graph = chain([f"a/x{nth}" for nth in range(MANY)])
    values, firsts, arrays = [], [0], []
    for nth, node in enumerate(graph.nodes):
        kind = KINDS[nth % len(KINDS)]
        if nth not in WITHOUT:
            array = np.full(kind[1], nth, np.int64 if kind[0] == "int64" else np.float32)
            values.append(TrackValue(node.id, kind[0], kind[1], 2 * array.size))
            if kind[0] != "bfloat16":
                values[-1] = TrackValue(node.id, kind[0], kind[1], array.nbytes)
            arrays.append(array)
        firsts.append(len(values))
    arrays[0][0, 0], arrays[1][0, 0], arrays[4][:] = np.nan, np.inf, np.nan
    table = _statistics(arrays)
    table["previewed"][8] = NOT_KNOWN
    table["preview"][2, 1:] = 7  # Elements left from an earlier use of the table.
    track = Track(graph.nodes, tuple(values), tuple(firsts))
    recorder = Recorder(path, level="summary")
    recorder.emit(graph)
    elements = Elements(np.zeros(1, np.uint8), (-1,) * len(values), 0) if copied else None
    for step in (1, 2):
        recorder.emit(StepStarted(step, 10_000 * step))
        starts = 10_000 * step + 10 * np.arange(MANY)
        times = np.column_stack((starts, starts + 7))
        attrs = {3: {"dim": step}}
        event = NodesFinished(track, 0, times, step, 1, attrs, table, elements)
        recorder.emit(event)
    assert recorder.close()
    database = sqlite3.connect(path)
    columns = sum(row[1] - row[0] + 1 for row in database.execute("SELECT * FROM timed"))
    in_rows(path)
    with Recording.open(path) as recording:
        said = {
            "executions": recording.executions(),
            "state": recording.state_at(recording.last_seq()),
            "times": sorted(recording.costs(), key=lambda cost: cost.node),
            "problems": recording.troubles(0, recording.last_seq(), HAS_NAN | HAS_INF),
        }
    for name in ("summary", "call", "span"):
        rows = database.execute(f"SELECT * FROM {name}").fetchall()
        said[name] = sorted(map(repr, rows))
    return said, columns


def test_many_executions_are_kept_in_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_rows_said, none = _many(tmp_path / "rows.nscope", copied=True)
    monkeypatch.setattr(block_columns, "AT_ONCE", 100)  # The block is divided into parts.
    said, some = _many(tmp_path / "columns.nscope", copied=False)
    assert said == in_rows_said
    assert len(said["summary"]) == 2 * (MANY - len(WITHOUT) - 1)
    assert (none, some > 0) == (0, True)


def test_a_block_without_room_is_counted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="timing", queue_bytes=1)
    graph = chain(NAMES)
    recorder.emit(graph)
    times = np.zeros((3, 2), np.int64)
    recorder.emit(NodesFinished(Track(graph.nodes, (), (0, 0, 0, 0)), 0, times, 1, 1))
    assert recorder.thread_seq() == recorder.last_seq == 4
    assert recorder.close()
    database = sqlite3.connect(tmp_path / "r.nscope")
    assert database.execute("SELECT dropped_executions FROM progress").fetchall() == [(3,)]


class _Probe:
    def __init__(self, level: Level | None) -> None:
        self.level, self.seen = level, []  # type: tuple[Level | None, list[Any]]

    def block_level(self) -> Level | None:
        return self.level

    def emit(self, event: Any) -> None:
        self.seen.append(event)


@pytest.mark.parametrize(
    ("levels", "most"),
    [
        (("timing",), "timing"), (("timing", "summary"), "summary"), (("graph", None), None),
        ((), "graph"),
    ],
)  # fmt: skip
def test_blocks_are_for_probes_that_all_take_them(
    levels: tuple[Level | None, ...], most: Level | None
) -> None:
    bus = Bus()
    for level in levels:
        bus.add(_Probe(level))
    assert bus.block_level() == most
    bus.want(bus, Demand(stops="a breakpoint"))
    assert bus.block_level() is None


def test_a_probe_that_knows_no_blocks_gets_none() -> None:
    class Old:
        def emit(self, event: Any) -> None:
            """Take one event."""

    bus = Bus()
    changes: list[bool] = []
    bus.on_change = lambda: changes.append(True)
    bus.add(Old())
    assert bus.block_level() is None
    assert changes == [True]


def test_earlier_events_are_emitted_first() -> None:
    bus, probe = Bus(), _Probe("timing")
    bus.add(probe)
    late = [Logged("stdout", "earlier", 1, 1)]

    def catch_up() -> None:
        while late:
            bus.emit(late.pop())

    bus.catch_up = catch_up
    # A span has its own times, so nothing has to be emitted before it.
    bus.emit(HostSpan("python", 1, 1, 0, 1))
    bus.emit(Logged("stdout", "later", 1, 2))
    assert [getattr(event, "text", "") for event in probe.seen] == ["", "earlier", "later"]
