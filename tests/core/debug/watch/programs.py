"""Real training programs to watch; all except the correct ones have a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from nodescope.api import Run
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.watch import Hit, Watch
from nodescope.debug.watch.watcher import Watcher
from nodescope.events import Demand
from nodescope.record.recording import Recording

STEPS = 6
Train = Callable[[], Any]


def batches(features: int = 6, classes: int = 3) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(5)
    return [
        (rng.standard_normal((16, features)).astype(np.float32), rng.integers(0, classes, 16))
        for _ in range(STEPS)
    ]


def network(*middle: Any) -> nn.Sequential:
    rng = np.random.default_rng(3)
    return nn.Sequential(nn.Linear(6, 8, rng=rng), *middle, nn.Linear(8, 3, rng=rng))


def train(
    model: nn.Module,
    *,
    lr: float = 0.05,
    trained: Iterable[Any] | None = None,
    compiled: bool = False,
) -> list[float]:
    """Its losses."""
    optimizer = optim.SGD(model if trained is None else trained, lr=lr)
    losses = []

    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        with ns.name_scope("loss"):
            loss = nn.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    run = ns.compile(step) if compiled else step
    for x, labels in ns.steps(batches()):
        losses.append(run(ns.tensor(x), ns.tensor(labels)).item())
    return losses


def healthy() -> list[float]:
    return train(network(np.tanh))


def healthy_compiled() -> list[float]:
    return train(network(np.tanh), compiled=True)


def dead_relu() -> list[float]:
    """The first bias is so low that every ReLU always returns zero."""
    model = network(nn.relu)
    first = model.parameters()[1]
    ns.assign(first, np.full(first.shape, -50.0, np.float32))
    return train(model)


def frozen_layer() -> list[float]:
    """The optimizer was given the last layer only."""
    model = network(np.tanh)
    return train(model, trained=model.parameters()[2:])


def exploding_gradient() -> None:
    """A recurrent product without bounds, in float32."""
    weight = ns.parameter(np.full((4, 4), 8.0, np.float32), name="cell/weight")
    optimizer = optim.SGD([weight], lr=1e-3)
    with np.errstate(all="ignore"):
        for _ in ns.steps(range(2)):
            optimizer.zero_grad()
            h = ns.tensor(np.ones((1, 4), np.float32))
            for _ in range(24):
                with ns.name_scope("cell"):
                    h = h @ weight
            with ns.name_scope("loss"):
                loss = np.mean(np.square(h))
            loss.backward()
            optimizer.step()


def nan_loss() -> list[float]:
    """The logarithm of a number that is negative from the third step on."""
    weight = ns.parameter(np.array([0.5, 0.25], np.float32), name="weight")
    optimizer = optim.SGD([weight], lr=0.05)
    losses = []
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        with ns.name_scope("loss"), np.errstate(all="ignore"):
            loss = np.mean(np.log(weight)) + 1
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses


class Watched:
    """A program run with watches and recorded, and the same watches evaluated on the recording."""

    def __init__(self, train: Train, path: Path, *watches: Watch, level: Any = "values") -> None:
        self.path = path
        self.live: list[Hit] = []
        self.faults: list[str] = []
        run = Run(path, level=level)
        run.bus.want("the watcher", Demand(arrays=True))
        self.watcher = Watcher(
            watches,
            on_hit=self.live.append,
            on_fault=self.faults.append,
            seq_source=run.recorder.thread_seq,
        )
        run.bus.add(self.watcher)
        run.start()
        try:
            self.result = train()
        finally:
            run.finish()

    def asked(self, *watches: Watch, **options: Any) -> tuple[list[Hit], Asking]:
        with Recording.open(self.path) as recording:
            asking = Asking(recording, watches or self.watcher.watches, **options)
            return list(asking), asking
