"""Executions noted with their outputs give the same recording as those that come as events."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodescope import native
from nodescope.events import (
    ArrayMoved,
    GraphExtended,
    Level,
    Logged,
    NodeFailed,
    NodeFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ValueEdited,
)
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record.kept import collected as kept
from nodescope.record.measured import collected
from nodescope.record.noted_outputs import noted_outputs
from nodescope.record.recorder import Recorder
from nodescope.record.recording import MAX_SEQ, Recording
from nodescope.record.rows import ValueAt
from tests.depth import some

SPEC = TensorSpec((2,), "float32")
IDS = (1, 2, 3, 1000, 1 << 40)
PAIR = 7
NODES = {
    number: Node(number, f"n{number}", "exp", "elementwise", (number - 1,), outputs=(number,))
    for number in IDS
}
NODES[PAIR] = Node(PAIR, "pair", "split", "other", outputs=(PAIR, PAIR + 1))
VALUES = tuple(Value(number, SPEC, f"v{number}") for number in (*IDS, 0, PAIR, PAIR + 1))
KINDS = "?bBhHiIqQefdF"

DECIMALS = re.compile(r"\d+\.\d+(e[+-]?\d+)?")


def array_of(draw: random.Random) -> np.ndarray[Any, Any]:
    """An array of any layout, with anything in it."""
    kind = draw.choice("ffffd" + KINDS)
    shape = draw.choice(((), (2,), (3, 4), (3, 4), (64,), (1, 5, 1), (0,), (2, 3, 4, 5)))
    numbers = np.random.default_rng(draw.randint(0, 99)).standard_normal(shape) * 3
    with np.errstate(all="ignore"):
        array = np.array(numbers, copy=True).astype(kind)
    if array.size and kind in "fdF" and draw.random() < 0.2:
        flat = array.reshape(-1)
        for _ in range(draw.choice((1, 2, array.size))):
            large = (1e200, 1e-310) if kind == "d" else (1e30,)
            flat[draw.randrange(array.size)] = draw.choice((np.nan, np.inf, -np.inf, 0.0, *large))
    if array.ndim > 1 and draw.random() < 0.3:
        array = array.T if draw.random() < 0.5 else np.asfortranarray(array)
    elif array.ndim and draw.random() < 0.2:
        array = np.repeat(array, 2, axis=0)[::2]
    elif draw.random() < 0.05:
        array = array.astype(array.dtype.newbyteorder())
    return array


def events_of(seed: int) -> list[Any]:
    """A random run."""
    draw = random.Random(seed)
    events: list[Any] = []
    known: list[np.ndarray[Any, Any]] = [np.ones(2, dtype=np.float32)]
    step, time_ns, running = 0, 1000, False
    threads = draw.sample((7, 1 << 62, 140_000_000_000_001), draw.randint(1, 3))
    for _ in range(draw.choice((5, 150, 700))):
        time_ns += draw.choice((1, 300, 70_000))
        kind = draw.random()
        if kind < 0.85:
            node = NODES[draw.choice((*IDS, PAIR))]
            outputs = tuple(array_of(draw) for _ in node.outputs)
            if draw.random() < 0.3:
                outputs = (draw.choice(known), *outputs[1:])
            inputs = tuple(draw.choice(known) for _ in node.inputs)
            times = (step, draw.choice(threads), time_ns, time_ns + draw.randint(1, 900))
            more: dict[str, Any] = {}
            if draw.random() < 0.05:
                more = draw.choice(({"attrs": {"axis": 1}}, {"lane": 3}))
            events.append(NodeFinished(node, inputs, outputs, *times, **more))
            known = [*known, *outputs][-12:]
        elif kind < 0.86:
            inputs = (draw.choice(known),)
            events.append(NodeFailed(NODES[draw.choice(IDS)], inputs, step, 7, time_ns, "gone"))
        elif kind < 0.88:
            events.append(("keep", draw.random()))
        elif kind < 0.89:
            events.append(Logged("stdout", "hello", step, time_ns))
        elif kind < 0.9:
            events.append(ArrayMoved(1, id(draw.choice(known)), id(draw.choice(known))))
        elif kind < 0.905:
            value = draw.choice(IDS)
            events.append(ValueEdited(value, array_of(draw), 1, step, "by hand", time_ns))
        elif kind < 0.93:
            events.append("flush")
        elif running:
            events.append(StepFinished(step, time_ns))
            running = False
        else:
            step += 1
            events.append(StepStarted(step, time_ns))
            running = True
    events.append(RunFinished(0, "", time_ns))
    return events


def record(path: Path, events: list[Any], level: Level) -> list[Any]:
    """Record a run; return what a reader saw at each flush."""
    recorder = Recorder(path, level=level)
    recorder.emit(RunStarted("0" * 16, "train.py", ("train.py",), 7, 1_000))
    recorder.emit(GraphExtended(tuple(NODES.values()), VALUES))
    seen: list[Any] = []
    ran: list[tuple[int, NodeFinished]] = []
    recording: Recording | None = None
    for event in events:
        if event == "flush":
            assert recorder.flush(30)
            recording = recording or Recording.open(path)
            last = recording.last_seq()
            seen.append((last, statistics_at(recording, last)))
        elif isinstance(event, tuple):
            if ran:
                seq, ended = ran.pop(int(event[1] * len(ran)))
                node = ended.node
                recorder.keep(node, node.outputs[0], ended.outputs[0], seq, ended.step)
        else:
            recorder.emit(event)
            if isinstance(event, NodeFinished) and len(seen) < 3:
                ran.append((recorder.last_seq, event))
    if recording is not None:
        recording.close()
    assert recorder.close()
    return seen


def statistics_at(recording: Recording, seq: int) -> list[Any]:
    return [
        [latest(recording, value.id, seq) for value in VALUES],
        recording.statistics.at(seq),
    ]


def latest(recording: Recording, value: int, seq: int) -> ValueAt | None:
    """The latest summary, which is the same if nobody asks whether the array is kept."""
    whole, without = (recording.latest_at(value, seq, arrays=arrays) for arrays in (True, False))
    if whole is None or without is None:
        assert whole is without
    else:
        summary = msgspec.structs.replace(whole.summary, blob=False)
        expected = msgspec.structs.replace(whole, summary=summary)
        assert repr(without) == repr(expected)  # NaN equals nothing
    return whole


def answers(recording: Recording, draw: random.Random) -> dict[str, Any]:
    """The answers of all readers of executions and statistics."""
    last = recording.last_seq()
    seqs = [0, last, MAX_SEQ, *(draw.randint(0, last + 3) for _ in range(5))]
    values = [value.id for value in VALUES]
    executions = recording.executions()
    return {
        "executions": executions,
        "statistics": [statistics_at(recording, seq) for seq in seqs],
        "latest": [recording.latest_at(value) for value in (*values, 5, 1 << 70)],
        "means": [recording.means(value) for value in values],
        "kept": recording.kept_of(values),
        "steps": recording.steps_with_arrays(),
        "history": [
            recording.history(node, until_seq=until, limit=limit)
            for node in NODES
            for until in (None, seqs[-1])
            for limit in (1, 5, 5000)
        ],
        "flagged": [recording.flagged(1 << bit) for bit in (0, 1, 2)],
        "troubles": recording.troubles(0, last, 7),
        "state": [recording.state_at(seq) for seq in seqs],
        "values": recording.values(),
        "operands": sorted((recording.operands() or {}).items()),
        "calls": recording.calls(),
        "costs": sorted(recording.costs(), key=lambda cost: cost.node),
        "arrays": [
            array_at(recording, value, row.seq, draw) for row in executions for value in values
        ],
        "kept in all": recording.kept_arrays()[0],
        "dropped": recording.dropped(),
    }


def array_at(recording: Recording, value: int, seq: int, draw: random.Random) -> Any:
    array = recording.array(value, seq)
    window = [draw.randint(0, 4) for _ in range(4)]
    if array is None:
        assert recording.array_slice(value, seq, (), 0, 0, 1, 1) is None
        return None
    return (
        array.dtype, array.shape, array.tobytes(), recording.strides(value, seq),
        recording.array_slice(value, seq, (1,), *window), array.flags.writeable,
    )  # fmt: skip


def alike(first: Any, second: Any) -> bool:
    return text(first) == text(second)  # Text, because NaN is not equal to NaN.


def text(answer: Any) -> str:
    """With 12 digits: a sum over an array in another order than C may round differently if it is
    computed from the program's memory, and not from a copy.
    """
    return DECIMALS.sub(lambda number: f"{float(number[0]):.12g}", repr(answer))


@pytest.mark.parametrize("level", ["summary", "values"])
@pytest.mark.parametrize("seed", some(range(60), 12))
def test_rows_and_columns_give_the_same_answers(
    seed: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = events_of(seed)
    if seed % 3 == 0:
        monkeypatch.setattr(collected, "FEWEST", 1)
        monkeypatch.setattr(kept, "FEWEST", 1)
    if seed % 5 == 0:
        monkeypatch.setattr(collected, "_AT_ONCE", 100)
    seen = record(tmp_path / "noted.nscope", events, level)
    monkeypatch.setattr(native, "NotedOutputs", None)
    assert alike(record(tmp_path / "events.nscope", events, level), seen)
    with (
        Recording.open(tmp_path / "noted.nscope") as noted,
        Recording.open(tmp_path / "events.nscope") as told,
    ):
        expected = answers(told, random.Random(seed))
        results = answers(noted, random.Random(seed))
        for name, answer in expected.items():
            assert alike(results[name], answer), name


@pytest.mark.parametrize("keep", [True, False])
def test_a_large_output_comes_as_an_event(keep: bool) -> None:
    """Its copy uses a reusable buffer, unlike a block of many outputs."""
    assert native.NotedOutputs is not None
    sink = noted_outputs(1 << 20, lambda: None, lambda: None, keep=keep)
    node = NODES[1]
    most = (1 << 20) // 8
    for size, noted in ((most, False), (most - 100, True)):
        array = np.ones(size)
        assert sink(node, node.id, 1, 1, 0, 1, (), (array,)) is noted
