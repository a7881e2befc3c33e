"""Sums of steps written while recording equal the sums of the rows."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from nodescope.errors import RecordingError
from nodescope.events import GraphExtended, HostKind, HostSpan, StepFinished, StepStarted
from nodescope.ir.graph import Node
from nodescope.record.batch import Batch
from nodescope.record.queued import QueuedTimes
from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped
from nodescope.record.step_times import step_ledger, step_sums, step_times
from nodescope.record.step_times.step_page import StepPage, unpacked
from nodescope.record.step_times.step_rows import COUNT, FIRST, LAST, UNTIL, joined
from nodescope.record.step_times.step_times import StepTimes
from nodescope.record.timed import collected
from nodescope.record.writer import Writer
from tests.depth import examples

NODES = (
    Node(1, "x", "add", "elementwise", outputs=(1,)),
    Node(2, "backward/x", "add", "elementwise", outputs=(2,), phase="backward"),
    Node(3, "input", "input", "leaf", outputs=(3,), role="input"),
)
KINDS: tuple[HostKind, ...] = ("python", "library", "waiting", "held", "held_along", "compiling")

DEEDS = ("begin", "begin", "end", "run", "run", "thread", "span", "late", "pass", "commit")


class Program:
    """Writes a recording by hand, through a batch."""

    def __init__(self, path: Path) -> None:
        self.writer = Writer(path, budget_bytes=1 << 20)
        self.batch = Batch(self.writer, level="timing")
        self.seq = self.now = self.step = 0
        self.open = False
        self._event(GraphExtended(NODES, ()))

    def do(self, deed: str, which: int, long: int) -> None:
        if deed == "begin":
            self._end()
            if which % 3 == 0:
                self.now += long + 1
                span = ("data", 1, self.step + 1, self.now - long - 1, self.now - which % 2)
                self._event(HostSpan(*span))  # type: ignore[arg-type]
            self.step += 1 + which // 8
            self._event(StepStarted(self.step, self.now, observed=which != 5))
            self.open = True
        elif deed == "end":
            self._end()
        elif deed in ("run", "thread"):
            # An execution of another thread may belong to an earlier step, be long, or begin
            # before the last one.
            step = max(self.step - (which // 2 if deed == "thread" else 0), 0)
            start = max(self.now - (long if deed == "thread" else 0), 0)
            self.now += long // 2
            self.seq += 1
            times = [(1 + which % 3, step, 1, start, max(self.now, start))]
            self.batch.timed(QueuedTimes(self.seq, 0, times))
        elif deed in ("span", "late"):
            end = max(self.now - (5 * which if deed == "late" else 0), 0)
            span = (KINDS[which % len(KINDS)], 1, self.step, max(end - long, 0), end)
            self._event(HostSpan(*span))
        elif deed == "pass":
            self.now += long
        else:
            self.commit()

    def commit(self) -> None:
        self.batch.commit(self.seq, Dropped())

    def _end(self) -> None:
        if self.open:
            self.open = False
            self._event(StepFinished(self.step, self.now))

    def _event(self, event: GraphExtended | HostSpan | StepStarted | StepFinished) -> None:
        self.seq += 1
        self.batch.event(self.seq, event)


@contextlib.contextmanager
def small_blocks(fewest: int = 64) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_ledger, "BLOCK_STEPS", 3)
        patch.setattr(step_ledger, "_BLOCK_ROWS", 20)
        patch.setattr(step_ledger, "_PIECE", 7)
        patch.setattr(step_sums, "BLOCK_STEPS", 2)
        patch.setattr(step_sums, "_ROWS", 5)
        patch.setattr(step_times, "_MOST_SINGLE", 6)
        patch.setattr(collected, "FEWEST", fewest)
        yield


@contextlib.contextmanager
def read(path: Path, *, blocks: bool) -> Iterator[StepTimes]:
    """The times with the blocks of the file, or from its rows."""
    with Recording.open(path) as recording:
        if not blocks:
            recording._has("step")
            assert recording._tables is not None
            recording._tables -= {"step_block"}
        times = StepTimes()
        times.update(recording)
        yield times


def alike(one: StepTimes, two: StepTimes, now: int) -> None:
    assert len(one) == len(two)
    numbers, observed = one.steps(0, 1 << 60)
    assert numbers.tolist() == two.steps(0, 1 << 60)[0].tolist()
    assert observed.tolist() == two.steps(0, 1 << 60)[1].tolist()
    assert one.left_out() == two.left_out() == (~observed).sum()
    some = one.steps(7, 20)[0].tolist()
    assert [step for step in some if 7 <= step <= 20] == [
        n for n in numbers.tolist() if 7 <= n <= 20
    ]
    for step in numbers.tolist():
        assert one.of(step) == two.of(step)
        assert one.after(step) == two.after(step)
    steps = [stretch for step in numbers.tolist() if (stretch := one.of(step)) is not None]
    seen = [step.parts for step in steps if not step.left_out]
    assert one.observed_parts().tolist() == np.sum(seen or [[0] * 10], axis=0).tolist()
    for start, end, limit in ((0, now, 3), (0, now, 1000), (now // 3, now // 2, 4), (now, now, 1)):
        for stretch in one.stretches(start, end, limit):
            if stretch.after:
                assert stretch == one.after(stretch.last)
                continue
            inside = [item for item in steps if stretch.first <= item.first <= stretch.last]
            assert stretch.parts == tuple(np.sum([item.parts for item in inside], axis=0))
            assert stretch.left_out == sum(item.left_out for item in inside)
            assert (stretch.start_ns, stretch.end_ns) == (inside[0].start_ns, inside[-1].end_ns)
        covered = [
            number
            for stretch in one.stretches(start, end, limit)
            if not stretch.after
            for number in numbers.tolist()
            if stretch.first <= number <= stretch.last
        ]
        assert covered == sorted(set(covered))


@settings(
    deadline=None, max_examples=examples(40), phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
@given(st.integers(0, 1 << 32), st.integers(50, 200), st.integers(0, 200))
@example(269, 99, 85)  # a thread of a step in a block runs on in the last step
def test_blocks_are_the_sums_of_their_steps(
    tmp_path_factory: pytest.TempPathFactory, seed: int, many: int, looks: int
) -> None:
    rng = random.Random(seed)
    deeds = [(rng.choice(DEEDS), rng.randrange(10), rng.randrange(40)) for _ in range(many)]
    path = tmp_path_factory.mktemp("run") / "r.nscope"
    with small_blocks(fewest=rng.choice((1, 2, 64))):
        program = Program(path)
        program.commit()
        growing: StepTimes | None = None
        with Recording.open(path) as recording:
            for place, deed in enumerate(deeds):
                program.do(*deed)
                if deed[0] == "commit" and place >= looks:
                    growing = growing or StepTimes()
                    growing.update(recording)
            program.commit()
            with read(path, blocks=True) as written, read(path, blocks=False) as summed:
                alike(written, summed, program.now)
                if growing is not None:
                    growing.update(recording)
                    alike(growing, summed, program.now)
                stored = recording.step_table.blocks()
                for row, data in zip(
                    np.array([np.frombuffer(row[5], "<i8") for row in stored]),
                    recording.step_table.block_data(0, 1 << 60).values(),
                    strict=True,
                ):
                    page = unpacked(data, int(row[COUNT]), int(row[UNTIL]))
                    assert joined(page.rows(0), [0])[0].tolist() == row.tolist()
                    assert page.numbers[[0, -1]].tolist() == row[[FIRST, LAST]].tolist()
        program.writer.abandon()


@given(st.integers(1, 60), st.integers(0, 1 << 32))
def test_a_packed_page_is_the_same(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(-9, 9, (count, 26)) << rng.integers(0, 50, 26)
    table[:, 0] = np.cumsum(rng.integers(1, 1 << 40, count))
    table[:, 1:3] = np.abs(table[:, 1:3])
    table[:, 3] = rng.integers(0, 2, count)
    table[:, 4:6] = np.abs(table[:, 4:6])
    table[rng.random(count) < 0.5, 4:6] = -1
    table[rng.random(count) < 0.2, 2] = -1
    page = unpacked(StepPage(table, 7).packed(), count, 7)
    assert page.table.tolist() == table.tolist()
    assert page.following == 7


CHILD = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.core.record.step_times.test_step_blocks import Program
program = Program(Path(sys.argv[1]))
for step in range(2000):
    for deed in (("begin", 3, 9), ("run", 0, 8), ("thread", 6, 30), ("late", 9, 40), ("end", 0, 0)):
        program.do(*deed)
    if step % 7 == 0:
        program.commit()
print(program.now, flush=True)
sys.stdin.read()
"""


@pytest.mark.deep
def test_what_a_killed_program_has_not_summed_is_summed_from_the_rows(tmp_path: Path) -> None:
    path, root = tmp_path / "r.nscope", Path(__file__).parents[4]
    command = [sys.executable, "-c", CHILD, str(path), str(root)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout is not None
        now = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
    with read(path, blocks=True) as written, read(path, blocks=False) as summed:
        assert len(written) > 1990
        assert 1000 < written._blocks.steps < len(written)
        alike(written, summed, now)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE step_block SET sums = x'00' WHERE row = 2",
        "UPDATE step_block SET late = x'00'",
        "UPDATE step_block SET sums = (SELECT sums FROM step_block WHERE row = 1)",
        "DELETE FROM step_block",
    ],
)
def test_sums_that_are_damaged_are_not_used(tmp_path: Path, change: str) -> None:
    path = _recorded(tmp_path)
    with read(path, blocks=False) as summed:
        before = summed.stretches(0, 1 << 60, 50)
    _changed(path, change)
    with read(path, blocks=True) as written:
        assert written.stretches(0, 1 << 60, 50) == before


def test_steps_that_are_damaged_say_so(tmp_path: Path) -> None:
    path = _recorded(tmp_path)
    for data in ("x''", "zeroblob(400)", "substr(data, 1, 300)", "CAST(data || x'00' AS BLOB)"):
        _changed(path, f"UPDATE step_block SET data = {data} WHERE row = 1")
        with read(path, blocks=True) as written, pytest.raises(RecordingError, match="is damaged"):
            written.of(2)


def _recorded(folder: Path) -> Path:
    path = folder / "r.nscope"
    program = Program(path)
    for step in range(1500):
        program.do("begin", 3, 9)
        program.do("run", step % 3, 8)
        if step % 100 == 0:
            program.commit()
    program.commit()
    program.writer.finish()
    return path


def _changed(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute(statement).rowcount > 0
