"""Executions noted by their times alone give the same answers in columns as in rows."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.events import (
    GraphExtended,
    Logged,
    NodeFailed,
    NodeFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record import noted_times, packed_rows
from nodescope.record.recorder import Recorder
from nodescope.record.recording import MAX_SEQ, Recording
from nodescope.record.step_times.step_times import StepTimes
from nodescope.record.timed import collected
from tests.depth import some

SPEC = TensorSpec((2,), "float32")
IDS = (1, 2, 3, 7, 8, 1000, 1 << 21, 1 << 40)
NODES = {
    number: Node(number, f"n{number}", "exp", "elementwise", outputs=(number,)) for number in IDS
}
Event = tuple[str, Any]
_LOOKS = 8  # A reader looks at this many flushes, and then at one in as many.


def events_of(seed: int) -> list[Event]:
    """A random run: nodes on three threads, in and between steps, of which a few fail."""
    draw = random.Random(seed)
    events: list[Event] = []
    step, time_ns, running = 0, 1000, False
    threads = draw.sample((7, 1 << 62, 140_000_000_000_001), draw.randint(1, 3))
    often = draw.sample(IDS, draw.randint(1, len(IDS)))
    for _ in range(draw.choice((5, 150, 1200))):
        time_ns += draw.choice((1, 300, 70_000, 5_000_000_000))
        kind = draw.random()
        if kind < 0.9:
            node = draw.choice(often if kind < 0.85 else IDS)
            start = time_ns - draw.choice((0, 0, 250_000))
            # No two executions take equally long.
            took = draw.choice((40, 900, 80_000, 1 << 33)) + len(events)
            events.append(("times", (node, step, draw.choice(threads), start, start + took)))
        elif kind < 0.91:
            node = NODES[draw.choice(IDS)]
            events.append(("event", NodeFailed(node, (), step, 7, time_ns, "gone")))
        elif kind < 0.92:
            events.append(("keep", draw.random()))
        elif kind < 0.93:
            node = NODES[draw.choice(IDS)]
            end = time_ns + 50 + len(events)
            arrays = (np.ones(2, dtype=np.float32),)
            events.append(("event", NodeFinished(node, (), arrays, step, 7, time_ns, end, lane=3)))
        elif kind < 0.94:
            events.append(("event", Logged("stdout", "hello", step, time_ns)))
        elif kind < 0.955:
            events.append(("flush", None))
        elif running:
            events.append(("event", StepFinished(step, time_ns)))
            running = False
        else:
            step += 1
            events.append(("event", StepStarted(step, time_ns)))
            running = True
    events.append(("event", RunFinished(0, "", time_ns)))
    return events


def record(
    path: Path, events: list[Event], look: Callable[[Recording], Any] | None = None
) -> list[Any]:
    """Record a run. Returns what a reader saw at the first flushes, and at some later ones."""
    recorder = Recorder(path, level="timing")
    recorder.emit(RunStarted("0" * 16, "train.py", ("train.py",), 7, 1_000))
    values = tuple(Value(number, SPEC, f"n{number}") for number in IDS)
    recorder.emit(GraphExtended(tuple(NODES.values()), values))
    note = recorder.times_sink()
    assert note is not None
    seen: list[Any] = []
    ran: list[tuple[int, int, int]] = []  # Seq, node and step.
    recording: Recording | None = None
    flushes = 0
    for kind, what in events:
        if kind == "times":
            note(*what)
            ran.append((recorder.last_seq if len(ran) % 50 == 0 else 0, *what[:2]))
        elif kind == "event":
            recorder.emit(what)
        elif kind == "keep" and ran:
            known = [place for place, run in enumerate(ran) if run[0]]
            if not known:
                continue
            place = known[int(what * len(known))]
            seq, node, step = ran[place]
            ran[place] = (0, node, step)  # An array is kept only once.
            recorder.keep(NODES[node], node, np.full(2, seq, dtype=np.float32), seq, step)
        elif kind == "flush":
            assert recorder.flush(30)
            flushes += 1
            if look is not None and (flushes <= _LOOKS or flushes % _LOOKS == 0):
                recording = recording or Recording.open(path)
                seen.append(look(recording))
    if recording is not None:
        recording.close()
    assert recorder.close()
    return seen


def answers(recording: Recording, draw: random.Random) -> dict[str, Any]:
    """The answers of all readers of executions."""
    last = recording.last_seq()
    seqs = [0, 1, last, MAX_SEQ, *(draw.randint(0, last + 3) for _ in range(5))]
    times = sorted(draw.randint(0, recording.time_ns() + 10) for _ in range(2))
    every = 2 * len(recording.executions()) + 2
    results: dict[str, Any] = {
        "all": recording.executions(),
        "some": [
            recording.executions(after, until, node=node, limit=limit)
            for after in seqs[:4]
            for until in (seqs[-1], None)
            for node in (None, 1, 1000, 5, 1 << 40, 1 << 70, -3)
            for limit in (None, 0, 1, 7)
        ],
        "latest": [recording.latest(node) for node in (*IDS, 4)],
        "last_of": [recording.last_of(node, before) for node in IDS for before in seqs],
        "durations": [sorted(recording.durations(limit)) for limit in (1, 20, every)],
        "costs": sorted(recording.costs(), key=lambda cost: cost.node),
        "flagged": [recording.first_flagged(flag) for flag in (1, 4, 16, 64)],
        "troubles": recording.troubles(0, last, 4),
        "ran_in": [recording.ran_in(step) for step in range(4)],
        "state": [recording.state_at(seq) for seq in seqs],
        "timeline": [recording.timeline(*times, limit) for limit in (1, 10, every)],
        "history": [
            recording.history(node, until_seq=until, limit=limit)
            for node in IDS
            for until in (None, seqs[-1])
            for limit in (1, 5, every)
        ],
        "ran_last": [recording.ran_last(value, seq) for value in (*IDS, 4) for seq in seqs],
        "busy": [
            recording.step_table.busy(after, last, most).tolist()
            for after in seqs[:4]
            for most in (1, 30, every)
        ],
        "since": recording.since_ns(),
        "end": (last, recording.time_ns(), recording.dropped()),
    }
    return results


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("seed", some(range(40), 8))
def test_both_tables_give_the_same_answers(
    seed: int, native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(noted_times.native, "NotedTimes", None)
    if seed % 4:  # Unpacking hundreds of tiny rows for each query would take most of the time.
        monkeypatch.setattr(packed_rows, "_KEPT", 1 << 20)
    events, results = events_of(seed), []
    for name, fewest in (("columns", 1), ("rows", 1 << 40)):
        monkeypatch.setattr(collected, "FEWEST", fewest)
        path = tmp_path / f"{name}.nscope"
        at = random.Random(seed)
        seen = record(path, events, lambda recording, at=at: answers(recording, at))
        with Recording.open(path) as recording:
            results.append([*seen, answers(recording, at)])
        with closing(sqlite3.connect(path)) as database:
            (many,) = database.execute("SELECT count(*) FROM timed").fetchone()
        assert (many > 0) == (name == "columns")
    for columns, rows in zip(*results, strict=True):
        for question, answer in rows.items():
            assert columns[question] == answer, question


def test_steps_are_summed_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = []
    for fewest in (1, 1 << 40):
        monkeypatch.setattr(collected, "FEWEST", fewest)
        path = tmp_path / f"{fewest}.nscope"
        recorder = Recorder(path, level="timing")
        recorder.emit(GraphExtended(tuple(NODES.values()), ()))
        note = recorder.times_sink()
        assert note is not None
        for step in range(1, 1500):
            start = step * 1000
            recorder.emit(StepStarted(step, start))
            for place, node in enumerate(IDS):
                note(node, step, 7, start + 100 * place, start + 100 * place + 60)
            if step % 100 == 0:
                recorder.emit(NodeFailed(NODES[1], (), step, 7, start, "gone"))
            recorder.emit(StepFinished(step, start + 990))
        assert recorder.close()
        with Recording.open(path) as recording:
            times = StepTimes()
            times.update(recording)
            sums.append([(times.of(step), times.after(step)) for step in range(1, 1500)])
            assert recording.step_table.blocks()
    assert sums[0] == sums[1]
