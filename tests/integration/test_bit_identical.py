"""Observing changes no result: the same final weights, bit for bit, however a run is watched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.api import Run
from nodescope.events import LEVELS, Level
from nodescope.protocol import Breakpoint, Command, Continue, NextStep, StepNode, StepOver
from nodescope.record.recording import Recording

STEPS = 4


def train() -> list[np.ndarray]:
    """A small network, trained for a few steps; its weights."""
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
    return [each.numpy().copy() for each in model.parameters()]


@pytest.fixture(scope="module")
def plain() -> list[np.ndarray]:
    weights = train()
    assert len(weights) == 4
    assert all(np.isfinite(each).all() for each in weights)
    return weights


def same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_recorded_at_every_level(level: Level, plain: list[np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level=level):
        same(train(), plain)
    recording = Recording.open(path)
    assert len(recording.steps()) == STEPS
    assert {"forward", "backward", "optimizer"} <= {row.node.phase for row in recording.nodes()}
    recording.close()


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


def stepped(
    path: Path, command: Command, breakpoints: tuple[Breakpoint, ...] = ()
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
        weights = train()
    finally:
        done.set()
        stopped.release()
        run.finish()
        controller.join(10)
    return weights, stops
