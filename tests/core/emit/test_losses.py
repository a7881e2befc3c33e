"""The loss of every training step, including unobserved steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.report.run_summary import last_words, summarise_run
from nodescope.engine.tracer import observe, unobserve
from nodescope.events import Bus, StepFinished
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import LossRow

STEPS = 7
Train = Callable[[ns.Tensor, float], float]


def by_backward(w: ns.Tensor, x: float) -> float:
    w.grad = None
    loss = np.mean((w * x - 1) ** 2)
    loss.backward()
    with ns.no_grad():
        ns.assign(w, w - 0.1 * w.grad)
    return loss.item()


def by_value_and_grad(w: ns.Tensor, x: float) -> float:
    loss, gradient = ns.value_and_grad(lambda w: np.mean((w * x - 1) ** 2))(w)
    with ns.no_grad():
        ns.assign(w, w - 0.1 * gradient)
    return loss.item()


def by_tape(w: ns.Tensor, x: float) -> float:
    with ns.GradientTape() as tape:
        loss = np.mean((w * x - 1) ** 2)
    gradient = tape.gradient(loss, w)
    with ns.no_grad():
        ns.assign(w, w - 0.1 * gradient)
    return loss.item()


def compiled() -> Train:
    @ns.compile
    def step(w: ns.Tensor, x: ns.Tensor) -> ns.Tensor:
        w.grad = None
        loss = np.mean((w * x - 1) ** 2)
        loss.backward()
        ns.assign(w, w - 0.1 * w.grad)
        return loss.detach()

    return lambda w, x: step(w, ns.tensor(np.full(3, x))).item()


def of_a_graph() -> Train:
    with ns.Graph().as_default() as graph:
        x = ns.placeholder(np.float64, (), name="x")
        w = ns.variable(np.array([4.0, 3.0, -2.0]), name="w")
        loss = np.mean((w * x - 1) ** 2)
        train = ns.optim.SGD(ns.trainable_variables(), 0.1).minimize(loss)
        init = ns.global_variables_initializer()
    session = ns.Session(graph)
    session.run(init)

    def step(_: ns.Tensor, value: float) -> float:
        session.run(loss, {x: value})  # Only evaluates the loss; trains nothing.
        return float(session.run([train, loss], {x: value})[1])

    return step


def record(
    path: Path, train: Train, leaves_out: Callable[[int], bool] = lambda step: step not in (1, 4)
) -> tuple[list[LossRow], list[float], np.ndarray]:
    """Train. Returns the recorded losses, the program's own losses, and its weights."""
    bus = Bus()
    recorder = Recorder(path)
    bus.add(recorder)
    bus.leaves_out = lambda step, _: leaves_out(step)
    w = ns.parameter(np.array([4.0, 3.0, -2.0]), name="w")
    observe(bus)
    try:
        had = [train(w, 1 + 0.1 * step) for step in ns.steps(range(STEPS))]
    finally:
        unobserve()
        assert recorder.close()
    with Recording.open(path) as recording:
        return recording.losses(), had, w.numpy().copy()


@pytest.mark.parametrize("make", [lambda: by_backward, lambda: by_value_and_grad, lambda: by_tape,
                                  compiled, of_a_graph])  # fmt: skip
def test_the_loss_of_every_step_is_kept(make: Callable[[], Train], tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    rows, had, weights = record(path, make())
    assert [(row.step, row.value) for row in rows] == list(enumerate(had, 1))
    assert {row.curve for row in rows} == {1}
    assert [row.node > 0 for row in rows] == [step in (1, 4) for step in range(1, STEPS + 1)]
    with Recording.open(path) as recording:
        (curve,) = summarise_run(recording).curves
        words = last_words(recording)
    assert (curve.node, curve.total) == (rows[0].node, STEPS)
    assert [(point.step, point.value) for point in curve.points] == list(enumerate(had, 1))
    assert [point.seq for point in curve.points] == sorted({point.seq for point in curve.points})
    assert words.endswith(f"7 steps, {curve.name} {had[0]:.4g} → {had[-1]:.4g}")
    # Observing changes no result.
    w = ns.parameter(np.array([4.0, 3.0, -2.0]), name="w")
    train = make()
    for step in range(STEPS):
        train(w, 1 + 0.1 * step)
    np.testing.assert_array_equal(w.numpy(), weights)


def test_a_loss_of_different_nodes_is_one_curve(tmp_path: Path) -> None:
    def train(w: ns.Tensor, x: float) -> float:
        if x > 1.25:
            np.mean(w)  # From here on, the loss is the second mean of a step.
        return by_backward(w, x)

    rows, had, _ = record(tmp_path / "run.nscope", train)
    assert len({row.node for row in rows if row.node}) == 2
    with Recording.open(tmp_path / "run.nscope") as recording:
        (curve,) = summarise_run(recording).curves
    assert [point.value for point in curve.points] == had


def test_what_one_line_begins_several_times_in_a_step_is_its_mean(tmp_path: Path) -> None:
    def train(w: ns.Tensor, x: float) -> float:
        w.grad = None
        parts = []
        for scale in (1.0, 2.0, 3.0):
            loss = np.mean(w * x * scale)
            loss.backward()
            parts.append(loss.item())
        return sum(parts) / 3

    rows, had, _ = record(tmp_path / "run.nscope", train)
    assert [row.value for row in rows] == had
    assert {row.times for row in rows} == {3}


def test_two_losses_of_a_step_are_two_curves(tmp_path: Path) -> None:
    def train(w: ns.Tensor, x: float) -> float:
        w.grad = None
        np.mean(w).backward()
        np.sum(w).backward()
        return x

    record(tmp_path / "run.nscope", train)
    with Recording.open(tmp_path / "run.nscope") as recording:
        curves = summarise_run(recording).curves
    assert [(curve.name, curve.total) for curve in curves] == [("mean", STEPS), ("sum", STEPS)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_not_finite_is_reported(value: float, tmp_path: Path) -> None:
    def train(w: ns.Tensor, x: float) -> float:
        loss = np.sum(w) * (value if x > 1.45 else 1.0)
        loss.backward()
        return loss.item()

    rows, had, _ = record(tmp_path / "run.nscope", train)
    np.testing.assert_array_equal([row.value for row in rows], had)
    with Recording.open(tmp_path / "run.nscope") as recording:
        (curve,) = summarise_run(recording).curves
    assert curve.broken == 2
    assert [point.value is None for point in curve.points] == [False] * 5 + [True] * 2


def test_anything_but_a_loss_is_not_taken_for_one() -> None:
    finished: list[StepFinished] = []

    class Ends:
        def emit(self, event: object) -> None:
            if isinstance(event, StepFinished):
                finished.append(event)

    bus = Bus()
    bus.add(Ends())
    w = ns.parameter(np.array([4.0, 3.0]), name="w")
    observe(bus)
    try:
        np.mean(w).backward()  # Before the first step.
        for step in ns.steps(range(2)):
            if step:
                (w * w).backward(np.ones(2))  # Not a scalar.
                with ns.no_grad():
                    np.mean(w)  # Without a backward pass.
        np.mean(w).backward()  # After the last step.
        with ns.name_scope("later"):
            pass
    finally:
        unobserve()
    assert [item.losses for item in finished] == [(), ()]
    np.mean(w).backward()  # Unobserved: no event is emitted.


def test_a_recording_of_an_earlier_release_has_the_losses_that_were_observed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.nscope"
    _, had, _ = record(path, by_backward)
    database = sqlite3.connect(path)
    database.execute("DROP TABLE loss")
    database.commit()
    database.close()
    with Recording.open(path) as recording:
        assert recording.losses() == []
        (curve,) = summarise_run(recording).curves
        words = last_words(recording)
    assert [(point.step, point.value) for point in curve.points] == [(1, had[0]), (4, had[3])]
    assert words.endswith("in step 4")
