"""A governed run and an unobserved one: the same bits; steps are observed whole or not at all."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.api import Run
from nodescope.debug.why import render, why
from nodescope.emit import steps
from nodescope.engine import tracer
from nodescope.errors import ShapeError
from nodescope.protocol import Breakpoint
from nodescope.record.governor import governor
from nodescope.record.governor.governor import Governor
from nodescope.record.governor.step_sampling import StepSampling
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_SUMMARY

STEPS = 120
STRICT = 1.05


def train(*, compiled: bool, steps: int = STEPS, raise_in: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    model = nn.Linear(6, 3, rng=rng, init=nn.glorot)
    optimizer = optim.SGD(model, lr=0.05, momentum=0.9)
    data = rng.standard_normal((steps, 8, 6)).astype(np.float32)

    def step(batch: Any) -> Any:
        optimizer.zero_grad()
        loss = np.mean(np.square(model(ns.tensor(batch)) - 1))
        loss.backward()
        optimizer.step()
        return loss

    run = ns.compile(step) if compiled else step
    for number, batch in enumerate(ns.steps(data), 1):
        run(batch)
        if number == raise_in:
            raise ValueError("on purpose")
    with ns.name_scope("after"), ns.no_grad():
        last = model(ns.tensor(data[0]))
    return [last.numpy(), *(parameter.numpy() for parameter in model.parameters())]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_governed_run_gives_the_bits_of_a_free_run(compiled: bool, tmp_path: Path) -> None:
    free = train(compiled=compiled)
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=STRICT):
        governed = train(compiled=compiled)
    for first, other in zip(free, governed, strict=True):
        np.testing.assert_array_equal(first, other)
    with Recording.open(tmp_path / "r.nscope") as recording:
        result, rows = recording.governed(), recording.steps()
        ran = Counter(execution.step for execution in recording.executions())
        after = [node.node for node in recording.nodes() if node.node.scope.startswith("after")]
        inputs = {value for node in after for value in node.inputs}
        weights = {item.value.id for item in recording.values() if item.value.name == "weight"}
        times = {item.id: recording.history(item.id, limit=1)[0] for item in after}
    assert result is not None
    assert len(rows) == result.steps == STEPS
    assert result.steps_left_out == sum(not row.observed for row in rows) > STEPS // 2
    left_out = {row.step for row in rows if not row.observed} - {STEPS}
    assert not left_out & set(ran)
    # Nodes after the loop are observed once, and read the current weights.
    assert after
    assert set(times.values()) == {1}
    assert inputs & weights


@pytest.mark.parametrize("soon", [True, False])
def test_parameters_are_read_after_loops_whose_steps_were_left_out(
    soon: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of each loop; of loops in quick succession, when they are used, or at the end."""
    monkeypatch.setattr(tracer, "_READ_AGAIN_NS", 0 if soon else 1 << 62)
    used = ns.parameter(np.ones(2), name="used")
    spare = ns.parameter(np.ones(2), name="spare")
    optimizer = optim.SGD([used, spare], lr=0.5)
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1e9) as run:
        run.bus.leaves_out = lambda step, _: step > 1
        for _ in range(4):
            for _ in ns.steps(range(2)):
                optimizer.zero_grad()
                np.sum(used * spare).backward()
                optimizer.step()
        with ns.name_scope("after"):
            np.sum(used * 2.0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        rows = {row.value.name: row for row in recording.values()}
        reads = {name: recording.history(rows[name].producer or 0)[0] for name in ("used", "spare")}
        after = next(row.node for row in recording.nodes() if row.node.scope == "after")
        for name, parameter in (("used", used), ("spare", spare)):
            number = rows[name].value.id
            latest = recording.latest_at(number)
            assert latest is not None
            np.testing.assert_array_equal(recording.array(number, latest.seq), parameter.numpy())
    assert rows["used"].value.id in after.inputs
    # In the first step, after each loop or after the first one, and when it is used or at the end.
    assert reads == dict.fromkeys(reads, 5 if soon else 3)


def test_what_a_step_takes_from_one_that_was_left_out_is_not_a_nodes_output(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1e9) as run:
        run.bus.leaves_out = lambda step, _: step == 2
        train(compiled=False, steps=3)
    with Recording.open(tmp_path / "r.nscope") as recording:
        makers = {item.value.id: item.producer for item in recording.values()}
        nodes = {node.node.id: node.node for node in recording.nodes()}
        steps = {step.step: step for step in recording.steps()}
    # Step 3 defined these nodes last: they read a velocity from an unobserved step.
    moved = [node for node in nodes.values() if node.scope == "optimizer/weight/velocity"]
    moved = moved or [node for node in nodes.values() if "velocity" in node.name]
    assert [steps[item].observed for item in (1, 2, 3)] == [True, False, True]
    assert moved
    sources = [nodes[makers[value] or 0].op for node in moved for value in node.inputs]
    assert "assign" not in sources


def test_a_breakpoint_keeps_every_step_and_that_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    run = Run(
        tmp_path / "r.nscope", level="timing", debugger=True, max_slowdown=STRICT, say=lines.append,
        breakpoints=(Breakpoint(kind="node", target="nothing/is/called/so"),),
    )  # fmt: skip
    run.start()
    train(compiled=False, steps=40)
    run.finish()
    assert any("no training step may run unobserved, since a breakpoint is set" in x for x in lines)
    assert "over the limit, since a breakpoint is set" in lines[-1]
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = recording.governed()
        assert all(step.observed for step in recording.steps())
    assert result is not None
    assert (result.steps, result.steps_left_out, result.measured) == (40, 0, False)


def test_a_program_that_raises_in_a_step_that_was_left_out(tmp_path: Path) -> None:
    lines: list[str] = []
    run = Run(tmp_path / "r.nscope", level="timing", max_slowdown=1e9, say=lines.append)
    run.start()
    governor = run.recorder.policy
    assert isinstance(governor, Governor)
    sampling = governor.sampling
    sampling.wants = lambda **_: sampling.steps != 4  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="on purpose") as caught:
        train(compiled=False, steps=9, raise_in=5)
    run.finish(1, "ValueError: on purpose")
    assert caught.value
    assert any("failed in step 5 or after it. That step was not observed" in line for line in lines)


def test_ctrl_c_in_a_step_that_was_left_out_is_no_failure(tmp_path: Path) -> None:
    lines: list[str] = []
    run = Run(tmp_path / "r.nscope", level="timing", max_slowdown=1e9, say=lines.append)
    run.start()
    governor = run.recorder.policy
    assert isinstance(governor, Governor)
    sampling = governor.sampling
    sampling.wants = lambda **_: sampling.steps != 4  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="on purpose"):
        train(compiled=False, steps=9, raise_in=5)
    run.finish(130, "KeyboardInterrupt")
    assert not any("failed" in line for line in lines)


def test_recordings_of_earlier_releases_have_observed_steps(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    with ns.record(path, "timing"):
        train(compiled=False, steps=3)
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE step DROP COLUMN observed")
    database.close()
    with Recording.open(path) as recording:
        assert [step.observed for step in recording.steps()] == [True, True, True]


class Deep(nn.Module):
    """Many small operations, which take much less time than observing them."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(4, 4, rng=np.random.default_rng(index)) for index in range(6)]

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = np.tanh(layer(x)) * 0.5 + x
        return x


def evaluate(*, raise_in: int = 0, tape: bool = False) -> list[np.ndarray[Any, Any]]:
    model = Deep()
    for _ in ns.steps(range(3)):
        model(ns.tensor(np.ones((2, 4), np.float32)))
    results = []
    for number in range(60):
        with ns.name_scope("evaluation"), contextlib.ExitStack() as stack:
            if not tape:
                stack.enter_context(ns.no_grad())
            guess = model(ns.tensor(np.full((2, 4), number / 60, np.float32)))
            if number + 1 == raise_in:
                model(ns.tensor(np.ones((2, 3), np.float32)))
            results.append((guess + 1).numpy())
    return results


@pytest.fixture
def no_call_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first calls, leave all out, so no timing has an influence."""
    monkeypatch.setattr(
        StepSampling, "wants_call", lambda stepping: stepping._calls_since_step < 2, raising=True
    )


@pytest.mark.usefixtures("no_call_wanted")
def test_calls_outside_of_steps_are_seen_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LEAST_SPAN_NS", 0)  # short calls have a span, too
    free = evaluate()
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1000):
        governed = evaluate()
    for first, other in zip(free, governed, strict=True):
        np.testing.assert_array_equal(first, other)
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = recording.governed()
        scopes = {node.node.id: node.node.scope for node in recording.nodes()}
        ran = Counter(scopes[execution.node] for execution in recording.executions())
        spans = [item for item in recording.host(0, 1 << 62, 1000) if item.kind == "unobserved"]
    assert result is not None
    assert (result.calls, result.calls_left_out) == (60, 58)
    inside = [count for scope, count in ran.items() if scope.startswith("evaluation/layers_")]
    assert inside
    assert all(count % 2 == 0 for count in inside)
    assert ran["evaluation"] >= 60  # Operations outside of the calls are observed.
    assert len(spans) == 58
    assert all(span.file.endswith("test_governed_steps.py") for span in spans)


@pytest.mark.usefixtures("no_call_wanted")
def test_calls_are_left_out_in_a_program_without_steps(tmp_path: Path) -> None:
    layer = nn.Linear(6, 3, rng=np.random.default_rng(3), init=nn.glorot)

    def answers() -> list[Any]:
        with ns.no_grad():
            return [layer(ns.tensor(np.full((2, 6), number))).numpy() for number in range(60)]

    free = answers()
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1000):
        governed = answers()
    np.testing.assert_array_equal(free, governed)
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = recording.governed()
        ops = {item.node.id: item.node.op for item in recording.nodes()}
        ran = Counter(ops[execution.node] for execution in recording.executions())
    assert result is not None
    assert (result.calls, result.calls_left_out) == (60, 58)
    assert ran["matmul"] == ran["add"] == 2


@pytest.mark.usefixtures("no_call_wanted")
def test_calls_that_make_a_tape_are_observed(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1000):
        evaluate(tape=True)
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = recording.governed()
    assert result is not None
    assert (result.calls, result.calls_left_out) == (0, 0)


@pytest.mark.usefixtures("no_call_wanted")
def test_an_error_in_a_call_that_was_left_out_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    run = Run(tmp_path / "r.nscope", max_slowdown=1000, say=lines.append)
    run.start()
    with pytest.raises(ShapeError) as raised:
        evaluate(raise_in=30)
    run.finish(1, str(raised.value))
    assert any("or after it. That step was not observed" in line for line in lines)


def test_a_run_that_costs_little_is_kept_whole_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(governor._BY_DEFAULT, "unnoticed_ns", 60e9)  # However slow this machine is.
    run = Run(tmp_path / "r.nscope", newest=True, max_slowdown=1.01, explicit=False,
              level="summary", say=lambda _: None)  # fmt: skip
    run.start()
    train(compiled=False, steps=6)
    run.finish()
    with Recording.open(tmp_path / "r.nscope") as recording:
        result = recording.governed()
        summaries = recording._all("SELECT count(DISTINCT seq) FROM summary")
        ran = recording._all("SELECT count(*) FROM execution WHERE node IN (SELECT id FROM node)")
    assert result is not None
    assert (result.lowered, result.steps_left_out, result.summaries) == (0, 0, 0)
    assert summaries == ran


def test_an_operation_that_raises_in_a_step_that_was_left_out_is_seen(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = nn.Sequential(nn.Linear(6, 8, rng=rng), nn.Linear(8, 4, rng=rng))

    def run_until_it_raises() -> None:
        for step in ns.steps(range(1, 5)):
            x = ns.tensor(np.ones((5, 6 if step < 3 else 7)), name="x")
            with ns.name_scope("model"):
                model(x)

    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1e9) as run:
        run.bus.leaves_out = lambda step, _: step > 1
        with pytest.raises(ShapeError) as raised:
            run_until_it_raises()
    with Recording.open(tmp_path / "r.nscope") as recording:
        nodes = {node.node.id: node.node for node in recording.nodes()}
        (failed,) = [row for row in recording.executions() if row.flags & FAILED]
        text = recording.failure(failed.seq)
        observed = {row.node for row in recording.executions() if row.step == 1}
    assert (nodes[failed.node].op, failed.step) == ("matmul", 3)
    assert failed.node == min(node.id for node in nodes.values() if node.op == "matmul")
    assert text == f"ShapeError: {raised.value}"
    assert set(nodes) == observed  # The failure defines no new node.


def test_among_operations_of_one_line_the_parameter_identifies_the_failed_one(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(3)
    q, k = (ns.parameter(rng.standard_normal(shape), name=name)
            for name, shape in (("q", (6, 6)), ("k", (6, 6))))  # fmt: skip
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1e9) as run:
        run.bus.leaves_out = lambda step, _: step > 1
        for step in ns.steps(range(1, 3)):
            x = ns.tensor(np.ones((5, 6)), name="x")
            y = x if step == 1 else ns.tensor(np.ones((5, 7)))
            with contextlib.suppress(ShapeError):
                _ = x @ q, y @ k
    with Recording.open(tmp_path / "r.nscope") as recording:
        nodes = {node.node.id: node.node for node in recording.nodes()}
        (failed,) = [row for row in recording.executions() if row.flags & FAILED]
        (with_k,) = [node.outputs[0] for node in nodes.values() if node.name == "k"]
    assert with_k in nodes[failed.node].inputs


@pytest.mark.parametrize("wrong", [1.0, np.nan])
def test_what_an_operation_was_given_that_raises_in_a_step_that_was_left_out(
    tmp_path: Path, wrong: float
) -> None:
    def run_until_it_raises() -> None:
        for step in ns.steps(range(1, 4)):
            logits = np.exp(ns.tensor(np.zeros((8, 2)), name="x"))
            target = ns.tensor(np.full((8 if step < 3 else 7, 2), wrong), name="target")
            _ = logits * target

    with ns.record(tmp_path / "r.nscope", "summary", max_slowdown=1e9) as run:
        run.bus.leaves_out = lambda step, _: step > 1
        with pytest.raises(ShapeError):
            run_until_it_raises()
    with Recording.open(tmp_path / "r.nscope") as recording:
        nodes = {node.node.name: node.node for node in recording.nodes()}
        (failed,) = [row for row in recording.executions() if row.flags & FAILED]
        given = [recording.latest_at(value, failed.seq) for value in nodes["multiply"].inputs]
        arrays = [recording.array(value, failed.seq) for value in nodes["multiply"].inputs]
        answer = render(why(recording, "multiply", step=3))
    assert [(at.step, at.summary.spec.shape) for at in given if at] == [(3, (8, 2)), (3, (7, 2))]
    assert [array.shape for array in arrays if array is not None] == [(8, 2), (7, 2)]
    assert failed.flags == FAILED  # The failed execution has no output, and no NaN.
    assert "exp, float64 (8, 2), is 1" in answer
    assert "target, float64 (7, 2), " in answer
    assert ". target is (7, 2), and was (8, 2) in step 1" in answer
    assert "not recorded" not in answer


@pytest.mark.parametrize("owes", [False, True])
def test_outside_of_steps_only_times_are_recorded_while_the_run_is_above_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owes: bool
) -> None:
    monkeypatch.setattr(StepSampling, "left_ns", lambda sampling: -1.0 if owes else 1.0)
    monkeypatch.setattr(StepSampling, "wants", lambda sampling, behind=False: True)
    with ns.record(tmp_path / "r.nscope", "values", max_slowdown=1000):
        x = ns.parameter([1.0, 2.0], name="x")
        for _ in range(4):
            for _ in ns.steps(range(2)):
                np.sin(x)
            score = np.exp(x) + 1.0  # Like an evaluation after each epoch.
    np.testing.assert_array_equal(score.numpy(), np.exp([1.0, 2.0]) + 1.0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        ops = {item.node.id: item.node.op for item in recording.nodes()}
        kept: dict[str, list[bool]] = {}
        for row in recording.executions():
            kept.setdefault(ops[row.node], []).append(bool(row.flags & HAS_SUMMARY))
        governed = recording.governed()
    assert kept["sin"] == [True] * 8  # In steps, everything is kept.
    assert kept["exp"] == kept["add"] == [True, *[not owes] * 3]
    assert governed is not None
    assert (governed.arrays, governed.summaries) == ((6, 6) if owes else (0, 0))
    assert governed.steps_left_out == 0
