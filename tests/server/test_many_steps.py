"""A run with very many steps: a page's first message, and its work, do not grow with them."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.step_table import MAX_STEPS
from nodescope.record.step_times.step_times import StepTimes
from nodescope_server.runs.runs import encode
from nodescope_server.wire import convert
from tests.core.record.runs import record


def made(path: Path, steps: int, *, index: bool = True) -> Path:
    """A recording with a number of steps, one execution each; step ``s`` starts at seq ``10 s``."""
    recorder = Recorder(path, level="timing")
    record(recorder, steps=1)
    assert recorder.close()
    database = sqlite3.connect(path)
    database.executescript(
        f"""
        DELETE FROM step; DELETE FROM execution; DELETE FROM span;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {steps})
        INSERT INTO step SELECT i, 10 * i, 1000 * i, 10 * i + 5, 1000 * i + 900, i % 3 > 0 FROM n;
        INSERT INTO execution
        SELECT start_seq + 1, 1, step, 1, start_ns + 10, 100, 0, step FROM step;
        UPDATE progress SET seq = {10 * steps + 9}, time_ns = {1000 * steps + 999};
        {"" if index else "DROP INDEX step_seq;"}
        """
    )
    database.close()
    return path


class Counted:
    """A recording that counts the work of its answers."""

    def __init__(self, path: Path) -> None:
        self.recording = Recording.open(path)
        self.rows = self.looks = 0
        guard = self.recording._opened.guard

        def counted(ask: Callable[..., Any]) -> Callable[..., Any]:
            def answer(*question: object) -> Any:
                rows = ask(*question)
                self.rows += len(rows)
                return rows

            return answer

        guard.ask = counted(guard.ask)  # type: ignore[method-assign]
        guard.table = counted(guard.table)  # type: ignore[method-assign]

    def of(self, action: Callable[[Recording], object]) -> tuple[int, int]:
        """The rows, and the thousands of SQLite instructions, that an action takes."""
        self.rows = self.looks = 0

        def look() -> int:
            self.looks += 1
            return 0

        self.recording._opened.database.set_progress_handler(look, 1000)
        action(self.recording)
        return self.rows, self.looks


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("steps")
    return {many: made(folder / f"{many}.nscope", many) for many in (20_000, 200_000)}


@pytest.fixture
def counted(paths: dict[int, Path]) -> Iterator[dict[int, Counted]]:
    item = {many: Counted(path) for many, path in paths.items()}
    yield item
    for first in item.values():
        first.recording.close()


@pytest.mark.parametrize("kind", ["snapshot", "state", "records"])
def test_work_does_not_grow_with_the_steps(kind: str, counted: dict[int, Counted]) -> None:
    sizes = {}

    def act(recording: Recording) -> None:
        last = recording.last_seq()
        if kind == "snapshot":
            message: object = convert.snapshot(recording, recording.run(), None, last)
        elif kind == "state":
            message = convert.state_at(recording, last // 2)
        else:
            message = convert.records(recording, "", last - 40, last)
        sizes[last] = len(encode(message))

    few, many = (counted[number].of(act) for number in (20_000, 200_000))
    assert many[0] <= few[0] + 10
    assert many[0] < 3 * MAX_STEPS
    assert many[1] <= 1.2 * few[1] + 5
    assert max(sizes.values()) < 500_000


def test_a_page_receives_a_selection_of_many_steps(counted: dict[int, Counted]) -> None:
    recording = counted[200_000].recording
    rows = recording.step_table.some(recording.last_seq())
    numbers = [row.step for row in rows]
    assert numbers == sorted(set(numbers))
    assert MAX_STEPS // 2 < len(numbers) <= MAX_STEPS + 2
    assert numbers[0] == 1
    assert numbers[-MAX_STEPS // 2 :] == list(range(200_000 - MAX_STEPS // 2 + 1, 200_001))
    gaps = [after - before for before, after in itertools.pairwise(numbers)]
    assert max(gaps) <= 2 * 200_000 // MAX_STEPS
    earlier = recording.step_table.some(1_000_003)
    assert earlier[-1].step == 100_000
    near = convert.state_at(recording, 1_000_003).steps
    assert [row.step for row in near] == list(range(99_901, 100_101))
    assert next(row for row in near if row.step == 100_000).observed is (100_000 % 3 > 0)
    # Steps that began or ended after a seq, even if the previous message had them.
    assert [row.step for row in recording.steps(1_999_984)] == [199_998, 199_999, 200_000]


def test_a_page_receives_all_of_few_steps(tmp_path: Path) -> None:
    for index in (True, False):  # Recordings of earlier releases have no index.
        path = made(tmp_path / f"{index}.nscope", MAX_STEPS, index=index)
        with Recording.open(path) as recording:
            info, last = recording.run(), recording.last_seq()
            steps = convert.snapshot(recording, info, None, last).steps
            assert [row.step for row in steps] == list(range(1, MAX_STEPS + 1))
            assert convert.state_at(recording, 100).steps == ()


def test_a_file_without_the_index_gives_the_same(paths: dict[int, Path], tmp_path: Path) -> None:
    path = made(tmp_path / "old.nscope", 20_000, index=False)
    with Recording.open(path) as old, Recording.open(paths[20_000]) as new:
        last = old.last_seq()
        assert old.step_table.some(last) == new.step_table.some(last)
        assert old.step_table.around(77_777, 5) == new.step_table.around(77_777, 5)
        assert old.steps(199_000) == new.steps(199_000)


def test_step_times_take_in_what_is_new(paths: dict[int, Path]) -> None:
    times = StepTimes()
    with Recording.open(paths[20_000]) as recording:
        times.update(recording)
        assert len(times) == 20_000
        times.update(recording)
        assert len(times) == 20_000
        stretch = times.of(12_345)
        assert stretch is not None
        assert (stretch.duration_ns, stretch.parts[0], stretch.left_out) == (900, 100.0, 1)


@pytest.mark.deep
def test_times_of_all_steps_are_read_by_the_block(tmp_path: Path) -> None:
    steps = 20_000
    recorder = Recorder(tmp_path / "r.nscope", level="timing", queue_bytes=1 << 30)
    record(recorder, steps=steps)
    assert recorder.close(60)
    counted, times = Counted(tmp_path / "r.nscope"), StepTimes()

    def whole(recording: Recording) -> None:
        times.update(recording)
        assert len(times) == steps
        assert times.stretches(0, 1 << 60, 800)[-1].last == steps

    with counted.recording:
        rows, looks = counted.of(whole)
        # The newest steps have rows of their own; the others are read from blocks.
        assert rows < steps / 4
        assert looks < steps / 100
        assert counted.of(whole)[0] < 1000
