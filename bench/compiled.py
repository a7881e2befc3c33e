"""Static graphs: a training step beside eager execution and NumPy by hand; calls; tracing.

The step is an MLP's (64 samples, 64-128-10, float32, SGD), with its loss, gradients and update.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nodescope as ns
from bench.measure import Row, median_ns, paired, ratio
from nodescope.engine.static.compiled import Compiled

BATCH, INPUTS, HIDDEN, CLASSES = 64, 64, 128, 10


def weights() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    found = {
        "w1": rng.standard_normal((INPUTS, HIDDEN)) * 0.1,
        "b1": np.zeros(HIDDEN),
        "w2": rng.standard_normal((HIDDEN, CLASSES)) * 0.1,
        "b2": np.zeros(CLASSES),
    }
    return {name: each.astype(np.float32) for name, each in found.items()}


def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((BATCH, INPUTS)).astype(np.float32)
    return x, rng.integers(0, CLASSES, BATCH)


def step_of() -> Callable[[Any, Any], Any]:
    p = {name: ns.parameter(each, name=name) for name, each in weights().items()}
    opt = ns.optim.SGD(p.values(), lr=0.01)

    def step(x: Any, labels: Any) -> Any:
        opt.zero_grad()
        h = ns.relu(x @ p["w1"] + p["b1"])
        loss = ns.cross_entropy(h @ p["w2"] + p["b2"], labels)
        loss.backward()
        opt.step()
        return loss

    return step


def by_hand() -> Callable[[Any, Any], Any]:
    p = weights()
    rows = np.arange(BATCH)

    def step(x: Any, labels: Any) -> Any:
        a = x @ p["w1"] + p["b1"]
        h = np.maximum(a, np.float32(0))
        z = h @ p["w2"] + p["b2"]
        z = z - z.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1, keepdims=True)
        loss = (np.log(total)[:, 0] - z[rows, labels]).mean()
        dz = e / total
        dz[rows, labels] -= 1
        dz /= np.float32(BATCH)
        dh = (dz @ p["w2"].T) * (a > 0)
        for name, gradient in (
            ("w2", h.T @ dz), ("b2", dz.sum(axis=0)), ("w1", x.T @ dh), ("b1", dh.sum(axis=0)),
        ):  # fmt: skip
            p[name] = p[name] - gradient * np.float32(0.01)
        return loss

    return step


def rows() -> Iterator[Row]:
    x, labels = data()
    tx, tl = ns.tensor(x), ns.tensor(labels)
    eager, hand, static = step_of(), by_hand(), ns.compile(step_of())
    for _ in range(3):
        found = [float(eager(tx, tl)), float(static(tx, tl)), float(hand(x, labels))]
        assert found[0] == found[1]
        np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
    times = paired({
        "compiled": lambda: static(tx, tl),
        "eager": lambda: eager(tx, tl),
        "numpy": lambda: hand(x, labels),
    })  # fmt: skip
    ours = f"{median_ns(times, 'compiled') / 1e3:.0f} us"
    for peer in ("eager", "numpy"):
        yield Row(
            f"compiled, MLP step B{BATCH}",
            peer if peer == "eager" else "numpy by hand",
            ratio(times, "compiled", peer),
            detail=f"{ours}, {peer} {median_ns(times, peer) / 1e3:.0f} us",
        )
    yield from _call()
    yield from _trace(tx, tl)


def _call() -> Iterator[Row]:
    """What a call costs beyond its one operation."""
    f = ns.compile(lambda a, b, c: a + b)
    a, b, c = (ns.tensor(np.ones(4, np.float32)) for _ in range(3))
    one, two = a.data, b.data
    times = paired({"compiled": lambda: f(a, b, c), "numpy": lambda: one + two})
    both = zip(times["compiled"], times["numpy"], strict=True)
    beyond = statistics.median((ours - plain) * 1e6 for ours, plain in both)
    yield Row("call of a compiled function, 3 tensors", "", beyond, unit="us", must=15.0,
              detail="beyond its one operation")  # fmt: skip


def _trace(x: Any, labels: Any) -> Iterator[Row]:
    taken = []
    for _ in range(15):
        f: Compiled = ns.compile(step_of())
        start = time.perf_counter()
        f.graph(x, labels)
        taken.append((time.perf_counter() - start) * 1e3)
    nodes = len(f.graph(x, labels).nodes)
    yield Row("tracing, MLP step", "", statistics.median(taken), unit="ms", must=20.0, aim=5.0,
              detail=f"{nodes} nodes")  # fmt: skip
