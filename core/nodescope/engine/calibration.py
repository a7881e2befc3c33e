"""The cost of observing on this machine, measured before anything is known of the program.

Invariant: the engine's steps, scopes and random numbers are left as they were.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

import numpy as np

from nodescope.emit.emitter import Emitter
from nodescope.engine import dispatch_mode, tracer
from nodescope.engine.autodiff.grad import parameter
from nodescope.engine.optim import SGD
from nodescope.events import Bus, Event, NodeFinished, Prices
from nodescope.ir.graph import Phase

_RUNS: Final = 3
_ROUNDS: Final = 4
_PHASES: Final[tuple[Phase, ...]] = ("forward", "backward", "optimizer")
_now = time.perf_counter_ns


def prices() -> Prices | None:
    """Run a tiny training step observed and unobserved; None if somebody observes already.

    Takes a few milliseconds.
    """
    if dispatch_mode.observer() is not None:
        return None
    step = _Tiny()
    step.times()
    plain = _least([step.times() for _ in range(_ROUNDS)])
    first, rounds = [], []
    for _ in range(_RUNS):
        bus, counted = Bus(), _Counted()
        bus.add(counted)
        observer = Emitter(bus)
        observer.attachments = (tracer.attach(observer),)
        try:
            observer.begin_step()
            first.append(sum(step.times()))
            nodes = sum(counted.nodes.values())
            for _ in range(_ROUNDS):
                observer.begin_step()
                counted.nodes.clear()
                rounds.append(step.times())
        finally:
            dispatch_mode.set_observer(None)
    observed = _least(rounds)
    medians = {
        phase: max(mine - free, 0) / max(counted.nodes[phase], 1)
        for phase, mine, free in zip(_PHASES, observed, plain, strict=True)
    }
    return Prices(
        forward_ns=medians["forward"],
        backward_ns=medians["backward"],
        optimizer_ns=medians["optimizer"],
        defining_ns=max(min(first) - sum(observed), 0) / max(nodes, 1),
    )


class _Tiny:
    """A training step of a few small operations of several kinds."""

    def __init__(self) -> None:
        self.weight = parameter(np.ones((4, 4)), np.float32, name="weight")
        self.bias = parameter(np.zeros(4), np.float32, name="bias")
        self.optimizer = SGD([self.weight, self.bias], lr=0.1)
        self.x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)

    def times(self) -> tuple[int, int, int]:
        """Run it; the nanoseconds of each phase."""
        start = _now()
        h: Any = self.bias + self.weight * self.x
        h = np.tanh(h @ self.weight + self.bias)
        h = np.mean((h * h - self.bias) * 0.5)
        forward = _now()
        h.backward()
        backward = _now()
        self.optimizer.step()
        done = _now()
        self.optimizer.zero_grad()
        return forward - start, backward - forward, done - backward


class _Counted:
    """A probe that counts the executions of each phase."""

    def __init__(self) -> None:
        self.nodes: Counter[Phase] = Counter()

    def emit(self, event: Event) -> None:
        if isinstance(event, NodeFinished):
            self.nodes[event.node.phase] += 1


def _least(rounds: list[tuple[int, int, int]]) -> tuple[int, ...]:
    """The least of each phase: what disturbs the machine only adds."""
    return tuple(map(min, zip(*rounds, strict=True)))
