"""The state of all nodes at a moment, whole or as the difference from another moment."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.record.recording import Recording
from nodescope_server import wire
from nodescope_server.wire import convert

State = dict[int, tuple[int, int]]


@pytest.fixture(params=["timing", "summary"])
def recording(tmp_path: Path, request: pytest.FixtureRequest) -> Recording:
    """Three steps; one node runs only in the second, another one after all steps."""
    file = tmp_path / "run.nscope"
    x = ns.tensor([1.0, 2.0])
    with ns.record(file, level=request.param):
        for step in ns.steps(range(3)):
            y = ns.tanh(x)
            if step == 1:
                ns.exp(y)
            ns.cos(y)
        ns.sin(x)
    return Recording.open(file)


def column(data: bytes, count: int) -> list[int]:
    if not data:
        return [0] * count
    kind = {1: "u1", 2: "<u2", 4: "<u4", 8: "<f8"}[len(data) // count]
    return np.frombuffer(data, kind).astype(int).tolist()


def rows(answer: wire.StateAt) -> State:
    """By node, the seq of its latest execution, and its number of executions."""
    packed = answer.executions
    columns = (column(data, packed.count) for data in (packed.node, packed.seq, packed.times))
    return {node: (seq, times) for node, seq, times in zip(*columns, strict=True)}


def test_a_difference_leads_from_any_moment_to_any_other(recording: Recording) -> None:
    with recording:
        moments = range(recording.last_seq() + 2)
        whole = {seq: convert.state_at(recording, seq) for seq in moments}
        assert whole[0].executions.count == 0
        assert len({tuple(rows(answer)) for answer in whole.values()}) > 4
        for since, seq in itertools.product(moments, moments):
            answer = convert.state_at(recording, seq, since)
            assert (answer.since, answer.step) == (since, whole[seq].step)
            assert answer.time_ns == whole[seq].time_ns
            state = rows(whole[since]) | rows(answer)
            assert not set(answer.gone) & set(rows(answer))
            for node in answer.gone:
                del state[node]
            assert state == rows(whole[seq])


def test_a_step_sends_what_has_run_in_it(recording: Recording) -> None:
    with recording:
        last = recording.last_seq()
        ran = recording.executions(last // 2, last // 2 + 3)
        answer = convert.state_at(recording, last // 2 + 3, last // 2)
        assert set(rows(answer)) == {row.node for row in ran}
        assert answer.gone == ()
        assert convert.state_at(recording, last, last).executions.count == 0
