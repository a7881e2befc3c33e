"""Where the time of a step went, from recordings made by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from nodescope.events import (
    GraphExtended,
    HostKind,
    HostSpan,
    NodeFinished,
    RunFinished,
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import Node
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Holds
from nodescope.record.run_time import run_time
from nodescope.record.step_times.step_rows import PARTS, Stretch
from nodescope.record.step_times.step_times import StepTimes

FORWARD = Node(1, "a/x", "add", "elementwise", outputs=(1,), scope="a")
BACKWARD = Node(2, "backward/a/x", "add", "elementwise", outputs=(2,), phase="backward")
LEAF = Node(3, "input", "input", "leaf", outputs=(3,), role="input")
MS = 1_000_000


class Run:
    """A recording whose clock is moved by hand, in ms."""

    def __init__(self, path: Path) -> None:
        self.recorder = Recorder(path, level="timing")
        self.recorder.emit(GraphExtended((FORWARD, BACKWARD, LEAF), ()))
        self.now, self.step = 0, 0

    def pass_(self, ms: float, kind: HostKind | None = None, **where: int) -> Run:
        start, self.now = self.now, self.now + int(ms * MS)
        if kind is not None:
            step = where.get("step", self.step)
            self.recorder.emit(HostSpan(kind, 1, step, start, self.now))
        return self

    def run(self, node: Node, ms: float, thread: int = 1) -> Run:
        start, self.now = self.now, self.now + int(ms * MS)
        self.recorder.emit(
            NodeFinished(node, (), (np.zeros(1),), self.step, thread, start, self.now)
        )
        return self

    def begin(self, fetch_ms: float = 0) -> Run:
        if fetch_ms:
            self.pass_(fetch_ms, "data", step=self.step + 1)
        self.step += 1
        self.recorder.emit(StepStarted(self.step, self.now))
        return self

    def end(self) -> Run:
        self.recorder.emit(StepFinished(self.step, self.now))
        return self


def parts(stretch: Stretch | None) -> dict[str, float]:
    assert stretch is not None
    return {name: ns / MS for name, ns in zip(PARTS, stretch.parts, strict=True) if ns}


def times(run: Run, path: Path) -> StepTimes:
    assert run.recorder.close()
    result = StepTimes()
    result.update(Recording.open(path))
    return result


def test_a_step_is_what_it_took_with_its_item_and_without_holds(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope")
    run.begin(99).run(FORWARD, 1).pass_(12_300, "held").pass_(0.4).run(BACKWARD, 2)
    run.pass_(20, "python").pass_(30, "waiting").end()
    step = times(run, tmp_path / "r.nscope").of(1)
    assert step is not None
    assert parts(step) == {
        "forward": 1, "backward": 2, "data": 99, "python": 20, "waiting": 30, "between": 0.4,
        "held": 12_300,
    }  # fmt: skip
    assert step.duration_ns == 152.4 * MS
    assert (step.start_ns, step.end_ns) == (0, run.now)


def test_what_only_holds_data_is_not_an_operation(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope").begin().run(LEAF, 3).run(FORWARD, 1).run(LEAF, 2).end()
    assert parts(times(run, tmp_path / "r.nscope").of(1)) == {"forward": 1, "between": 5}


def test_overlapping_executions_are_counted_once(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope").begin()
    run.run(FORWARD, 10)
    run.now -= 4 * MS
    run.run(FORWARD, 10, thread=2)  # Ends 6 ms after the first one.
    run.now -= 3 * MS
    run.run(BACKWARD, 2)  # Within the second one.
    run.now += MS
    step = times(run.end(), tmp_path / "r.nscope").of(1)
    assert parts(step) == {"forward": 16}


def test_what_made_the_item_wait_is_not_counted_twice(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope").begin(5).run(FORWARD, 1).end()
    run.recorder.emit(HostSpan("waiting", 1, 1, 6 * MS, 105 * MS))
    run.begin(100).run(FORWARD, 1).end()
    result = times(run, tmp_path / "r.nscope")
    assert parts(result.of(2)) == {"forward": 1, "data": 100}
    assert result.of(3) is None


def test_steps_are_joined_where_there_are_many(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope")
    for _ in range(1000):
        run.begin(2).run(FORWARD, 1).end()
    result = times(run, tmp_path / "r.nscope")
    whole = result.stretches(0, run.now, 10)
    assert len(whole) == 10
    assert [item.first for item in whole] == [1, *(item.last + 1 for item in whole[:-1])]
    assert whole[-1].last == 1000
    assert sum(item.parts[PARTS.index("data")] for item in whole) == 2000 * MS
    near = result.stretches(3 * MS, 8 * MS, 10)
    assert [(item.first, item.last) for item in near] == [(1, 1), (2, 2), (3, 3)]
    assert result.stretches(10**15, 10**16, 10) == []


def test_a_growing_recording_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    run = Run(path)
    grown = StepTimes()
    for _ in range(4):
        run.begin(3).run(FORWARD, 1)
        run.pass_(2, "held")
        assert run.recorder.flush()
        with Recording.open(path) as recording:
            grown.update(recording)
        run.run(BACKWARD, 1).end()
    whole = times(run, path)
    with Recording.open(path) as recording:
        grown.update(recording)
    assert grown.stretches(0, run.now, 9) == whole.stretches(0, run.now, 9)


def test_a_recording_without_host_time_has_step_times(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope").begin().run(FORWARD, 1).pass_(3).end()
    assert run.recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        recording._tables = frozenset({"execution", "step", "node"})
        result = StepTimes()
        result.update(recording)
        assert recording.host(0, 10**12, 5) == recording.holds() == []
    assert parts(result.of(1)) == {"forward": 1, "between": 3}


def test_a_moment_by_the_programs_own_time() -> None:
    holds = Holds([(10, 110), (150, 151)])
    assert [holds.ran_ns(at) for at in (0, 10, 60, 110, 120, 150, 151, 200)] == [
        0, 10, 10, 10, 20, 50, 50, 99,
    ]  # fmt: skip
    assert Holds(()).ran_ns(7) == 7


def test_a_node_may_have_any_number(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope")
    far = Node(1 << 40, "x", "add", "elementwise", outputs=(9,), phase="optimizer")
    run.recorder.emit(GraphExtended((far,), ()))
    run.begin().run(FORWARD, 1).run(far, 2).end()
    assert run.recorder.close()
    times = StepTimes()
    with Recording.open(tmp_path / "r.nscope") as recording:
        times.update(recording)
    stretch = times.of(1)
    assert stretch is not None
    assert stretch.parts[PARTS.index("optimizer")] == 2 * MS
    assert stretch.parts[PARTS.index("forward")] == 1 * MS


def test_what_runs_after_a_step_is_not_a_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    run = Run(path).begin(5).run(FORWARD, 1).end()
    run.begin(5).run(FORWARD, 2).end()
    run.run(FORWARD, 30).pass_(20, "python").pass_(7, "held")  # Runs between epochs.
    run.begin(4).run(FORWARD, 3).end()
    over = run.now
    run.pass_(2).run(FORWARD, 40)  # Runs as evaluation.
    run.recorder.emit(RunFinished(0, "", run.now))
    result = times(run, path)
    assert [parts(result.of(step))["forward"] for step in (1, 2, 3)] == [1, 2, 3]
    assert result.after(1) is None
    assert parts(result.after(2)) == {"forward": 30, "python": 20, "held": 7}
    assert parts(result.after(3)) == {"forward": 40, "between": 2}
    blocks = result.stretches(0, run.now, 10)
    assert [(block.last, block.after) for block in blocks] == [
        (1, False), (2, False), (2, True), (3, False), (3, True),
    ]  # fmt: skip
    assert all(first.end_ns <= two.start_ns for first, two in itertools.pairwise(blocks))
    assert (blocks[-1].start_ns, blocks[-1].end_ns) == (over, run.now)
    (only,) = result.stretches(run.now - MS, run.now, 10)
    assert only.after
    with Recording.open(path) as recording:
        assert result.around(Holds(recording.holds())) == (0, 42 * MS)
        took = run_time(recording)
    assert (took.ran_ns, took.held_ns) == (run.now - 7 * MS, 7 * MS)


def test_a_hold_between_steps_is_not_time_after_a_step(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope").begin().run(FORWARD, 1).end().pass_(500, "held")
    run.begin().run(FORWARD, 1).end()
    result = times(run, tmp_path / "r.nscope")
    assert result.after(1) is None


def test_compiling_is_a_part_of_its_step(tmp_path: Path) -> None:
    run = Run(tmp_path / "r.nscope").begin(3).pass_(200, "compiling").run(FORWARD, 1).end()
    step = times(run, tmp_path / "r.nscope").of(1)
    assert parts(step) == {"data": 3, "compiling": 200, "forward": 1}
