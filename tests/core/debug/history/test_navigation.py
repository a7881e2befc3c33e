"""Stepping and continuing through a recording in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.history.history import History, Moment
from nodescope.debug.history.navigation import navigate
from nodescope.errors import UsageError
from nodescope.protocol import (
    BreakpointStatus,
    Command,
    Continue,
    Detach,
    NextStep,
    RunTo,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    StepTwin,
)
from nodescope.record.recording import Recording


@pytest.fixture(scope="module", params=["values", "summary"])
def history(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[History]:
    path: Path = tmp_path_factory.mktemp("rewind") / "r.nscope"
    with ns.record(path, level=request.param):
        w = ns.parameter(np.array([1.0, -2.0]), name="w")
        for k in ns.steps(range(3)):
            with ns.name_scope("net"):
                h = np.tanh(w * float(k))
                with ns.name_scope("inner"):
                    h = np.exp(h)
            loss = np.sum(h)
            loss.backward()
            w.grad = None
    with Recording.open(path) as recording:
        result = History(recording)
        result.refresh()
        yield result


def place(history: History, name: str, step: int) -> int:
    number = history.names[name]
    for forward in history.forwards(0):
        if forward.node.id == number and forward.step == step:
            return forward.seq
    raise AssertionError((name, step))


@pytest.mark.parametrize(
    ("start", "command", "back", "end"),
    [
        (("net/inner/exp", 2), StepNode(), True, ("net/tanh", 2)),
        (("net/inner/exp", 2), StepNode(), False, ("sum", 2)),
        (("sum", 2), StepOver(), True, ("sum", 1)),
        (("net/tanh", 2), StepIn(), False, ("net/inner/exp", 2)),
        (("net/inner/exp", 3), StepOut(), True, ("net/tanh", 3)),
        (("net/inner/exp", 3), StepOut(), False, ("sum", 3)),
        (("net/tanh", 3), RunTo("sum"), True, ("sum", 2)),
        (("net/tanh", 1), StepTwin(), False, ("backward/net/multiply", 1)),
        (("net/tanh", 2), NextStep(), False, ("net/multiply", 3)),
        (("backward/reshape", 2), StepTwin(), False, ("sum", 2)),
        (("backward/reshape", 2), StepTwin(), True, ("sum", 2)),
    ],
)
def test_where_a_step_leads(history, start, command: Command, back: bool, end) -> None:
    result, text = navigate(history, place(history, *start), command, back=back)
    assert result is not None, text
    names = (result.node.name, result.step)
    if isinstance(command, StepTwin) and start[0] == "net/tanh":
        assert result.node.forward == history.names["net/tanh"]
        assert result.step == 1
        return
    assert names == end
    back = back or isinstance(command, StepTwin)  # The twin of a backward node ran earlier.
    assert text == f"{'Back at' if back else 'At'} {end[0]}, step {end[1]}"


def test_from_a_stop_before_a_node(history) -> None:
    """The previous node is the last one that ran, not the one before that."""
    tanh = place(history, "net/tanh", 2)
    node = history.node(history.names["net/inner/exp"])
    assert node is not None
    stands = Moment(node, tanh, 2, next(iter(history.forwards(0))).thread, "before", live=True)
    result, _ = navigate(history, tanh, StepNode(), back=True, stopped_at=stands)
    assert result is not None
    assert (result.node.name, result.step) == ("net/tanh", 2)


def test_the_step_before_begins_at_its_last_node(history) -> None:
    result, _ = navigate(history, place(history, "net/tanh", 3), NextStep(), back=True)
    assert result is not None
    assert result.step == 2


@pytest.mark.parametrize(
    ("spec", "back", "end"),
    [
        ("net/tanh", True, ("net/tanh", 2)),
        ("op:sum", True, ("sum", 1)),
        ("op:sum [step 3]", True, None),
        ("op:sum [step 3]", False, ("sum", 3)),
        ("scope:net/inner", False, ("net/inner/exp", 2)),
        ("op:exp [off]", False, None),
        ("op:exp log {value}", False, None),
        ("nothing", True, None),
    ],
)
def test_to_a_breakpoint(history, spec: str, back: bool, end) -> None:
    statuses = [BreakpointStatus(parse_breakpoint(spec))]
    start = place(history, "net/inner/exp" if back else "net/tanh", 2)
    result, text = navigate(history, start, Continue(), back=back, breakpoints=statuses)
    assert (result and (result.node.name, result.step)) == end, text


def test_a_condition_is_evaluated_on_recorded_values(history) -> None:
    statuses = [BreakpointStatus(parse_breakpoint("op:tanh if min(value) < -0.9"))]
    end = history.recording.last_seq()
    result, text = navigate(history, end, Continue(), back=True, breakpoints=statuses)
    assert result is not None, text
    assert (result.node.name, result.step) == ("net/tanh", 3)


@pytest.mark.parametrize(
    ("condition", "step"),
    [
        ("max(value) > 25", 3), ("value[0] >= 0 and max(value) == 10", None),
        ("size(value) == 11 and count(isnan(value)) == 1", 2), ("mean(value) > 5", None),
        ("max(inputs[0]) == 20", 3),
    ],
)  # fmt: skip
def test_statistics_are_enough_for_what_they_say(tmp_path, condition: str, step) -> None:
    data = np.arange(11.0)
    with ns.record(tmp_path / "r.nscope", level="summary"):
        for k in ns.steps([1.0, np.r_[np.nan, np.ones(10)], 2.0]):
            np.add(ns.tensor(data * k, name="x"), 10.0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        history = History(recording)
        history.refresh()
        statuses = [BreakpointStatus(parse_breakpoint(f"op:add if {condition}"))]
        result, text = navigate(history, 0, Continue(), back=False, breakpoints=statuses)
    assert (result and result.step) == step
    if step is None:
        reason = "add is not available: level summary keeps no elements"
        assert f"could not be evaluated 3 times: {reason}" in text


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (StepNode(), ("net/multiply", 1)),
        (NextStep(), ("net/multiply", 2)),
        (RunTo("sum"), ("sum", 1)),
        (Continue(), ("net/multiply", 1)),
    ],
)
def test_from_before_the_first_node(history, command: Command, end) -> None:
    statuses = [BreakpointStatus(parse_breakpoint("op:multiply"))]
    result, text = navigate(history, 0, command, back=False, breakpoints=statuses)
    assert result is not None, text
    assert (result.node.name, result.step) == end


def test_nonsense_is_reported(history) -> None:
    with pytest.raises(UsageError, match="cannot move through a recording"):
        navigate(history, 10_000, Detach(), back=True)
    assert navigate(history, 0, StepNode(), back=True) == (None, "nothing is recorded before this")
    assert navigate(history, 99, Continue(), back=True) == (None, "no breakpoints are set")
    first = next(iter(history.forwards(0)))
    assert navigate(history, first.seq, StepNode(), back=True)[0] is None


def found_by(history: History, spec: str, *, back: bool) -> list[tuple[str, int]]:
    """All stops at a breakpoint, from one end of the recording to the other."""
    statuses = [BreakpointStatus(parse_breakpoint(spec))]
    seq, result = (history.recording.last_seq() + 1 if back else 0), []
    while (
        at := navigate(history, seq, Continue(), back=back, breakpoints=statuses)[0]
    ) is not None:
        result.append((at.node.name, at.step))
        seq = at.seq
    return result[::-1] if back else result


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("w", ["w"]),
        ("op:parameter", ["w"]),
        ("glob:*w", ["w"]),
        ("regex:w|net/tanh", ["w", "net/tanh"]),
        ("scope:net", ["net/multiply"]),
        ("scope:net/inner", ["net/inner/exp"]),
        ("before scope:net", ["net/multiply"]),
    ],
)
@pytest.mark.parametrize("back", [False, True])
def test_breakpoints_stop_where_they_do_while_it_runs(history, spec, names, back: bool) -> None:
    expected = [(name, step) for step in (1, 2, 3) for name in names]
    assert found_by(history, spec, back=back) == expected
    assert found_by(history, f"{spec} [hits >= 1]", back=back) == expected


@pytest.mark.parametrize("back", [False, True])
def test_the_time_since_the_beginning_is_known_of_what_was_recorded(history, back: bool) -> None:
    expected = [("net/tanh", step) for step in (1, 2, 3)]
    assert found_by(history, "op:tanh if elapsed > 0", back=back) == expected
    second = history.recording.steps()[1].start_ns / 1e9
    assert found_by(history, f"op:tanh if elapsed > {second}", back=back) == expected[1:]
    assert found_by(history, "op:tanh if elapsed > 1e9", back=back) == []
