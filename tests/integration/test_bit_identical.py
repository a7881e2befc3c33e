"""Observing changes no result: the final weights are bit-identical in all forms of observation."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.api import Run
from nodescope.events import LEVELS, Level
from nodescope.protocol import Breakpoint, Command, Continue, NextStep, StepNode, StepOver
from nodescope.record.recording import Recording
from tests import depth

STEPS = 4


def train() -> list[np.ndarray]:
    """Train a small network for a few steps, and return its weights."""
    rng = np.random.default_rng(3)
    images = rng.standard_normal((STEPS, 16, 12)).astype(np.float32)
    labels = rng.integers(0, 5, (STEPS, 16))
    model = nn.Sequential(nn.Linear(12, 20, rng=rng), np.tanh, nn.Linear(20, 5, rng=rng))
    optimizer = optim.Adam(model, lr=1e-2)
    for batch, target in ns.steps(zip(images, labels, strict=True)):
        optimizer.zero_grad()
        with ns.name_scope("loss"):
            loss = nn.cross_entropy(model(ns.tensor(batch)), target)
        loss.backward()
        optimizer.step()
    return [parameter.numpy().copy() for parameter in model.parameters()]


class Controlled(nn.Module):
    """Control flow, random draws, running statistics and a recomputed part."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.3, rng=1)
        self.first, self.last = nn.Linear(6, 4, rng=rng), nn.Linear(4, 3, rng=rng)

    def forward(self, x: Any) -> Any:
        h = ns.checkpoint(lambda x: np.tanh(self.first(x)))(self.drop(self.norm(x)))
        total, seen = ns.scan(
            lambda c, row: (np.tanh(c + row), c * row), np.zeros(4, np.float32), h
        )
        h = seen + total
        _, h = ns.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 1.5), (np.int64(0), h), max_steps=4
        )
        return self.last(ns.cond(h.sum() > 0, lambda: h * 2, lambda: -h))


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(5)
    return [
        (rng.standard_normal((8, 6)).astype(np.float32), rng.integers(0, 3, 8))
        for _ in range(STEPS)
    ]


def train_controlled(*, compiled: bool = False) -> list[np.ndarray]:
    """Train `Controlled` eagerly or as static graphs. Returns its losses and weights."""
    model = Controlled()
    optimizer = optim.Adam(model, lr=1e-2)

    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    run = ns.compile(step) if compiled else step
    losses = [run(ns.tensor(x), ns.tensor(y)).numpy() for x, y in ns.steps(batches())]
    return [*losses, *model.state_dict().values()]


def train_by_hand() -> list[np.ndarray]:
    """The same with an explicitly built graph that a session runs."""
    with ns.Graph().as_default() as graph:
        model = Controlled()
        x = ns.placeholder(np.float32, (8, 6), name="x")
        labels = ns.placeholder(np.int64, (8,), name="labels")
        loss = nn.cross_entropy(model(x), labels)
        with ns.control_dependencies(graph.get_collection(ns.GraphKeys.UPDATE_OPS)):
            train = optim.Adam(model, lr=1e-2).minimize(loss)
        start = ns.global_variables_initializer()
    session = ns.Session(graph)
    session.run(start)
    losses = [
        session.run([loss, train], {x: images, labels: digits})[0]
        for images, digits in ns.steps(batches())
    ]
    return [*losses, *model.state_dict().values()]


PROGRAMS: dict[str, Callable[[], list[np.ndarray]]] = {
    "eager": train_controlled,
    "compiled": functools.partial(train_controlled, compiled=True),
    "by hand": train_by_hand,
}


@pytest.fixture(scope="module")
def plain() -> list[np.ndarray]:
    weights = train()
    assert len(weights) == 4
    assert all(np.isfinite(weight).all() for weight in weights)
    return weights


def same(result: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(result) == len(expected)
    for array, expected_array in zip(result, expected, strict=True):
        assert array.dtype == expected_array.dtype
        assert array.tobytes() == expected_array.tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_recorded_at_every_level(level: Level, plain: list[np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level=level):
        same(train(), plain)
    recording = Recording.open(path)
    assert len(recording.steps()) == STEPS
    assert {"forward", "backward", "optimizer"} <= {row.node.phase for row in recording.nodes()}
    recording.close()


@pytest.mark.parametrize("limit", [2.0, 1e9])
@pytest.mark.parametrize("everything", [False, True])
def test_kept_as_by_default(
    limit: float, everything: bool, plain: list[np.ndarray], tmp_path: Path
) -> None:
    run = Run(
        tmp_path / "run.nscope", level="summary", newest=True, max_slowdown=limit, explicit=False
    )
    run.start()
    run.recorder.keep_whole(everything=everything, nodes=frozenset({3}))
    try:
        same(train(), plain)
    finally:
        run.finish()
    with Recording.open(tmp_path / "run.nscope") as recording:
        seen = [step.step for step in recording.steps() if step.observed]
        assert set(seen[-2:]) <= recording.steps_with_arrays()
        assert not everything or seen == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "command", [StepNode(), StepOver(), NextStep()], ids=["node", "over", "step"]
)
def test_stepped(command: Command, plain: list[np.ndarray], tmp_path: Path) -> None:
    weights, stops = stepped(tmp_path / "run.nscope", command)
    same(weights, plain)
    assert stops >= STEPS - 1


def test_stopped_at_conditions(plain: list[np.ndarray], tmp_path: Path) -> None:
    everywhere = Breakpoint(kind="glob", target="*", condition="abs(value).max() > 0.5 or True")
    weights, stops = stepped(tmp_path / "run.nscope", Continue(), (everywhere,))
    same(weights, plain)
    assert stops > 20 * STEPS


@pytest.fixture(scope="module")
def controlled() -> list[np.ndarray]:
    result = train_controlled()
    assert len({array.tobytes() for array in result[:STEPS]}) == STEPS
    return result


@pytest.mark.one_in(2)
@pytest.mark.parametrize("level", depth.some(LEVELS, 3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_form_recorded_at_every_level(
    name: str, level: Level, controlled: list[np.ndarray], tmp_path: Path
) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level=level):
        same(PROGRAMS[name](), controlled)
    same(PROGRAMS[name](), controlled)  # Again without an observer.
    recording = Recording.open(path)
    nodes = [row.node for row in recording.nodes()]
    assert {"forward", "recompute", "backward", "optimizer"} <= {node.phase for node in nodes}
    inside = [node for node in nodes if node.phase == "forward" and node.op == "tanh"]
    iterations = [item for item in inside if "scan" in item.scope]
    branch = any("cond" in node.scope for node in nodes if node.op == "multiply")
    if name == "compiled":  # A loop is one kernel, and so is a branch.
        assert not iterations
        assert not branch
        assert {"scan", "cond"} <= {node.op for node in nodes if node.graph}
    else:  # Every iteration of a loop has its own nodes, and so has the branch taken.
        assert len(iterations) == 8
        assert branch is (name == "by hand")  # In eager code, Python itself branches.
    recording.close()


def test_compiled_loops_that_are_opened(controlled: list[np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, opened=("*scan*",)):
        same(PROGRAMS["compiled"](), controlled)
    with Recording.open(path) as recording:
        nodes = [row.node for row in recording.nodes()]
    inside = [node for node in nodes if node.phase == "forward" and node.op == "tanh"]
    assert len([item for item in inside if "scan" in item.scope]) == 8


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_form_stepped(name: str, controlled: list[np.ndarray], tmp_path: Path) -> None:
    weights, stops = stepped(tmp_path / "run.nscope", StepNode(), program=PROGRAMS[name])
    same(weights, controlled)
    assert stops > (10 if name == "compiled" else 100) * STEPS


def stepped(
    path: Path,
    command: Command,
    breakpoints: tuple[Breakpoint, ...] = (),
    program: Callable[[], list[np.ndarray]] = train,
) -> tuple[list[np.ndarray], int]:
    """Train under a gate whose controller answers each stop with ``command``."""
    run = Run(path, level="values", debugger=True, stop_on_entry=True, breakpoints=breakpoints)
    gate = run.gate
    assert gate is not None
    gate.controllers(1)
    stopped, done = threading.Semaphore(0), threading.Event()
    stops = 0
    announce: Callable[..., None] = gate._on_change

    def changed(info: object) -> None:
        announce(info)
        stopped.release()

    gate._on_change = changed

    def control() -> None:
        nonlocal stops
        seen = -1
        while not done.is_set():
            stopped.acquire(timeout=1)
            info = gate.info
            if info.phase == "stopped" and info.version != seen and info.stop and info.stop.stack:
                seen = info.version
                stops += 1
                gate.command(command)

    controller = threading.Thread(target=control, daemon=True)
    controller.start()
    run.start()
    try:
        weights = program()
    finally:
        done.set()
        stopped.release()
        run.finish()
        controller.join(60)
    return weights, stops
