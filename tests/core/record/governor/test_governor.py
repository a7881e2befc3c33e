"""A governed recorder on real programs: only the amount recorded changes, and that is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.errors import NodescopeError
from nodescope.events import (
    Bus,
    Event,
    Level,
    NodeFinished,
    StepFinished,
    StepStarted,
)
from nodescope.record.capture_levels import Detail
from nodescope.record.governor.governor import Governor
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import chain, finished

Body = Callable[[Any, int], Any]
# Recording any program costs more than this, so levels have to be lowered.
STRICT = 1.001
MOST_STEPS = 20_000


class Tally:
    """A probe that remembers the node of each execution, by seq."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.nodes: dict[int, int] = {}
        self.outputs = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, NodeFinished):
            self.nodes[self.recorder.thread_seq()] = event.node.id
            self.outputs += len(event.outputs)


def governor_of(recorder: Recorder) -> Governor:
    assert isinstance(recorder.policy, Governor)
    return recorder.policy


def cheap(x: Any, step: int) -> Any:
    with ns.name_scope("work"):
        for _ in range(10):
            x = x * 0.99 + 0.001
    return x


def large(x: Any, step: int) -> Any:
    with ns.name_scope("work"):
        return np.tanh(x * 1.5)


def mixed(x: Any, step: int) -> Any:
    with ns.name_scope("work"):
        small = x[0, :4]
        for _ in range(5):
            small = small * 0.5 + 1
    return np.tanh(x + small.sum())


PROGRAMS = [(cheap, (4,)), (large, (200, 300)), (mixed, (100, 200))]


def start(shape: tuple[int, ...]) -> Any:
    return ns.tensor(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape))


def run(
    path: Path, body: Body, shape: tuple[int, ...], level: Level, select: Sequence[str] = (),
    *, stepped: bool = False,
) -> tuple[Any, int, Tally]:  # fmt: skip
    """Run until much was left out; return the result, the number of rounds, and what ran."""
    x = start(shape)
    with ns.record(path, level, max_slowdown=STRICT, select=select) as observed:
        recorder = observed.recorder
        governor = governor_of(recorder)
        tally = Tally(recorder)
        observed.bus.add(tally)
        for step in range(1, MOST_STEPS):
            if stepped:
                ns.step()
            x = body(x, step)
            result = governor.governed(0) if step % 10 == 0 else None
            if result and (result.executions > 100 or result.steps_left_out > 50):
                break
    return x.numpy(), step, tally


@pytest.mark.one_in(2)
@pytest.mark.parametrize("level", ["timing", "summary", "values"])
@pytest.mark.parametrize(("body", "shape"), PROGRAMS)
def test_a_step_is_recorded_completely_or_not_at_all(
    body: Body, shape: tuple[int, ...], level: Level, tmp_path: Path
) -> None:
    path = tmp_path / "r.nscope"
    result, steps, tally = run(path, body, shape, level, stepped=True)
    plain = start(shape)
    for step in range(1, steps + 1):
        plain = body(plain, step)
    np.testing.assert_array_equal(plain.numpy(), result)
    with Recording.open(path) as recording:
        actual, dropped, rows = recording.governed(), recording.dropped(), recording.steps()
        ran = Counter(execution.step for execution in recording.executions())
        ops = {node.node.id: node.node.op for node in recording.nodes()}
    assert actual is not None
    assert actual.measured
    assert not actual.executions
    assert [row.step for row in rows] == list(range(1, steps + 1))
    assert all(row.end_seq is not None for row in rows)
    observed = {row.step for row in rows if row.observed}
    assert 1 in observed
    assert (actual.steps, actual.steps_left_out) == (steps, steps - len(observed))
    assert set(ran) == observed
    assert sum(ran.values()) + dropped.executions == len(tally.nodes)
    # Nodes keep their identity: all observed steps run the same nodes, except for inputs.
    inside = [node for node in tally.nodes.values() if ops[node] != "tensor"]
    assert set(Counter(inside).values()) == {len(observed)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("level", ["timing", "summary", "values"])
@pytest.mark.parametrize(("body", "shape"), PROGRAMS)
def test_results_are_the_same_and_what_is_missing_is_counted(
    body: Body, shape: tuple[int, ...], level: Level, tmp_path: Path
) -> None:
    path = tmp_path / "r.nscope"
    result, steps, tally = run(path, body, shape, level)
    plain = start(shape)
    for step in range(1, steps + 1):
        plain = body(plain, step)
    np.testing.assert_array_equal(plain.numpy(), result)
    with Recording.open(path) as recording:
        actual, dropped = recording.governed(), recording.dropped()
        assert actual is not None
        rows = recording._all("SELECT seq, node, times FROM execution ORDER BY seq")
        summaries = recording._all("SELECT count(*) FROM summary")[0][0]
        blobs = recording._all("SELECT count(*) FROM blob")[0][0]
    assert actual.executions > 100
    assert actual.limit == STRICT
    # Every execution has a row or is counted as missing.
    assert len(rows) + actual.executions + dropped.executions == len(tally.nodes)
    kept = summaries + actual.summaries + dropped.summaries
    assert kept == (tally.outputs if level != "timing" else 0)
    assert actual.values == (tally.outputs if level != "timing" else 0)
    assert blobs + actual.arrays + dropped.blobs == (tally.outputs if level == "values" else 0)
    # A row counts the runs of its node correctly although earlier rows are missing.
    times: dict[int, int] = {}
    so_far: dict[int, int] = {}
    for seq, node in sorted(tally.nodes.items()):
        times[node] = so_far[seq] = times.get(node, 0) + 1
    if not dropped.executions:
        assert all(so_far[seq] == count for seq, _, count in rows)
    assert all(tally.nodes[seq] == node for seq, node, _ in rows)
    assert sum(node.executions for node in actual.nodes) == actual.executions


def test_nodes_counted_before_the_first_step_are_complete_in_it(tmp_path: Path) -> None:
    path, bus = tmp_path / "r.nscope", Bus()
    graph = chain(["a/x", "a/y"])
    governor = Governor(1.5, tell=str, bus=bus)
    recorder = Recorder(path, policy=governor)
    governor.govern(recorder)
    bus.add(recorder)
    bus.emit(graph)
    first, second = graph.nodes
    recorder.levels.detail = "counted"
    for _ in range(3):
        bus.emit(finished(first, np.zeros(1)))  # The first run has a row at any level of detail.
    assert not bus.leave_out(1)
    bus.emit(StepStarted(1, 10))
    for node in (first, second):
        bus.emit(finished(node, np.zeros(1), step=1))
    bus.emit(StepFinished(1, 20))
    assert recorder.close()
    with Recording.open(path) as recording:
        rows = [(row.node, row.step) for row in recording.executions()]
        summaries = recording._all("SELECT count(*) FROM summary")[0][0]
        times = recording._all("SELECT times FROM execution ORDER BY seq")
        governed = recording.governed()
    assert rows == [(1, 0), (1, 1), (2, 1)]
    assert summaries == 2
    assert times == [(1,), (4,), (1,)]
    assert governed is not None
    assert (governed.executions, governed.summaries, governed.lowered) == (2, 3, 1)


def test_levels_set_by_hand_stay(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    chosen = ["op:tanh=values", "scope:work=timing"]
    _, _, tally = run(path, mixed, (100, 200), "summary", chosen, stepped=True)
    with Recording.open(path) as recording:
        result = recording.governed()
        assert result is not None
        names = {row.node.id: row.node for row in recording.nodes()}
        inside = {key for key, node in names.items() if node.scope == "work"}
        tanh = {key for key, node in names.items() if node.op == "tanh"}
        rows = recording.executions()
        assert result.by_hand == len(inside) + len(tanh)
        assert not {node.node for node in result.nodes} & (inside | tanh)
        ran = Counter(tally.nodes.values())
        assert result.steps_left_out > 50
        assert max(ran[item] for item in inside) == result.steps - result.steps_left_out
        for node in tanh | inside:
            assert sum(row.node == node for row in rows) == ran[node]
        for value in (names[key].outputs[0] for key in tanh):
            at = recording.latest_at(value)
            assert at is not None
            assert at.summary.blob
        assert all(recording.latest_at(names[key].outputs[0]) is None for key in inside)


@pytest.mark.parametrize("detail", ["times", "counted"])
def test_without_steps_nodes_set_by_hand_or_viewed_keep_their_level(
    detail: Detail, tmp_path: Path
) -> None:
    path, graph = tmp_path / "r.nscope", chain(["a/x", "a/y", "a/z"])
    chosen, watched, other = graph.nodes
    governor = Governor(1.5, tell=str, bus=Bus())
    recorder = Recorder(
        path, policy=governor, chosen=[(lambda node: node.id == chosen.id, "summary")]
    )
    governor.govern(recorder)
    recorder.emit(graph)
    recorder.keep_whole(everything=False, nodes=frozenset({watched.id}))
    recorder.levels.detail = detail
    for _ in range(3):
        for node in graph.nodes:
            recorder.emit(finished(node, np.zeros(1)))
    assert [recorder.levels.now(node) for node in graph.nodes] == ["summary", "values", "timing"]
    assert recorder.close()
    with Recording.open(path) as recording:
        ran = Counter(row.node for row in recording.executions())
        blobs = recording._all("SELECT count(*) FROM blob")[0][0]
        governed = recording.governed()
    assert ran == {chosen.id: 3, watched.id: 3, other.id: 3 if detail == "times" else 1}
    assert blobs
    assert governed is not None
    assert [row.node for row in governed.nodes] == [other.id]
    assert governed.by_hand == 1


def test_a_limit_that_cannot_be_kept_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    lines: list[str] = []
    observed = Run(path, level="values", max_slowdown=STRICT, say=lines.append)
    observed.start()
    x = start((4,))
    for step in range(MOST_STEPS):
        cheap(x, step)
        if any("It cannot be met" in line for line in lines):
            break
    observed.finish()
    assert "the program takes about " in lines[0]
    assert "From now on only parts of it are recorded as you asked" in lines[0]
    assert any("the limit is 1×. It cannot be met" in line for line in lines)
    assert "over the limit, with as little recorded as allowed. Left out, of " in lines[-1]
    with Recording.open(path) as recording:
        assert [log.text for log in recording.logs()] == lines
        result = recording.governed()
    assert result is not None
    assert result.stuck
    assert result.slowdown > STRICT


def test_a_run_within_its_limit_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    lines: list[str] = []
    observed = Run(path, level="values", max_slowdown=1e9, say=lines.append)
    observed.start()
    x = start((4,))
    for step in range(20):
        ns.step()
        x = cheap(x, step)
    observed.finish()
    assert lines[-1].endswith("Nothing was left out")
    with Recording.open(path) as recording:
        result = recording.governed()
        assert result is not None
        assert (result.lowered, result.executions, result.arrays, result.nodes) == (0, 0, 0, ())
        assert recording.kept_arrays()[0] == len(recording.executions())


@pytest.mark.parametrize("level", ["graph", "timing", "summary", "values"])
def test_a_run_within_its_limit_is_recorded_like_one_without(level: Level, tmp_path: Path) -> None:
    def body() -> None:
        x = start((4,))
        for step in ns.steps(range(20)):
            x = cheap(x, step)
        with ns.name_scope("evaluation"):
            for _ in range(3):
                x = np.tanh(x)

    assert rows_of(tmp_path / "governed.nscope", body, level, 1e9) == rows_of(
        tmp_path / "whole.nscope", body, level, None
    )


def rows_of(path: Path, body: Callable[[], None], level: Level, limit: float | None) -> list[Any]:
    """By execution, its node, step, flags and outputs."""
    with ns.record(path, level, max_slowdown=limit):
        body()
    rows: list[Any] = []
    with Recording.open(path) as recording:
        produced = {row.node.id: row.node for row in recording.nodes()}
        for ran in recording.executions():
            node = produced[ran.node]
            outputs = [recording.array(value, ran.seq) for value in node.outputs]
            summaries = [recording.latest_at(value, ran.seq) for value in node.outputs]
            rows.append((
                node.name, ran.step, ran.flags,
                [None if array is None else array.tobytes() for array in outputs],
                [at and at.summary for at in summaries],
            ))  # fmt: skip
    return rows


def test_every_node_of_a_program_with_ever_new_nodes_has_a_row(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    with ns.record(path, "values", max_slowdown=STRICT) as observed:
        governor = governor_of(observed.recorder)
        x = start((4,))
        for place in range(MOST_STEPS):
            with ns.name_scope(f"part_{place}"):
                x = np.tanh(x)
            if governor.governed(0).summaries > 10:
                break
    with Recording.open(path) as recording:
        result = recording.governed()
        assert result is not None
        assert result.lowered == result.summaries > 10
        assert len(recording.executions()) == len(recording.nodes())


def test_a_selection_that_covers_no_node_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    select = ["scope:wrok=values", "op:tanh=summary", "op:tnah=values", "glob:*=timing"]
    run = Run(tmp_path / "r.nscope", select=select, say=lines.append)
    run.start()
    with ns.name_scope("work"):
        np.tanh(ns.tensor([1.0]))
    run.finish()
    assert lines == [
        "the selection 'scope:wrok=values' covered no node; did you mean 'work'?",
        "the selection 'op:tnah=values' covered no node; did you mean 'tanh'?",
    ]


@pytest.mark.parametrize("text", ["scope:a", "scope:a=all", "=values", "op:x if step > 1=values",
                                  "nothing:x=values", "op:add [once]=values"])  # fmt: skip
def test_selections_that_make_no_sense(text: str, tmp_path: Path) -> None:
    with pytest.raises(NodescopeError):
        Run(tmp_path / "r.nscope", select=[text])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [1, 0.2, float("nan"), float("inf"), -1])
def test_limits_that_make_no_sense(limit: float, tmp_path: Path) -> None:
    with pytest.raises(NodescopeError, match="is not a slowdown"):
        Run(tmp_path / "r.nscope", max_slowdown=limit)
    assert not list(tmp_path.iterdir())


def test_levels_are_chosen_without_a_governor_too(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    with ns.record(path, "timing", select=["scope:work=values", "glob:*=graph"]):
        for step in range(1, 4):
            ns.step()
            mixed(start((3, 8)), step)
    with Recording.open(path) as recording:
        assert recording.governed() is None
        nodes = {row.node.id: row.node for row in recording.nodes()}
        rows = recording.executions()
        for key, node in nodes.items():
            inside = node.scope == "work"
            assert sum(row.node == key for row in rows) == (3 if inside else 1)
            at = recording.latest_at(node.outputs[0])
            assert (at is not None and at.summary.blob) == inside


@pytest.mark.parametrize("level", ["summary", "values"])
def test_executions_noted_by_the_core_cost_what_their_bytes_cost(
    level: Level, tmp_path: Path
) -> None:
    traced = []
    for size in (4, 300):
        x = start((size, size))
        with ns.record(tmp_path / f"{size}.nscope", level, max_slowdown=1e6) as observed:
            governor = governor_of(observed.recorder)
            for _ in ns.steps(range(20)):
                x = np.tanh(x)
            traced.append(governor._totals().tracing_ns)
    # Most of 20 outputs of 720,000 bytes, at a tenth of a nanosecond each.
    assert traced[1] - traced[0] > 10 * 72_000


def test_a_stop_finds_how_many_steps_are_observed_so_far(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    x = start((4,))
    with ns.record(path, "summary", max_slowdown=2.0) as observed:
        recorder = observed.recorder
        governor_of(recorder)
        for step in range(1, 8):
            ns.step()
            x = cheap(x, step)
            # The start of the step is told as one of its records.
            if observed.bus.tell_steps is not None:
                observed.bus.tell_steps()
            here = recorder.thread_seq()
            assert recorder.flush(20)
            # Records written for a stop do not count as the thread's.
            assert recorder.thread_seq() == here
            with Recording.open(path) as recording:
                governed, rows = recording.governed(), recording.steps()
            assert governed is not None
            assert governed.steps == len(rows) == step
            assert governed.steps_left_out == sum(not row.observed for row in rows)
    with Recording.open(path) as recording:
        governed = recording.governed()
        assert governed is not None
        assert governed.steps == 7
