"""Fit a line by gradient descent, twice: eagerly with a tape, and as a static graph.

    python samples/linear_regression.py

The same function computes the loss in both. The eager form runs each operation at once and takes
the gradients from a `GradientTape`; the static form traces the whole step once and runs the graph.

Invariant: both end with bit-identical weights.
"""

from __future__ import annotations

import numpy as np

import nodescope as ns

SLOPE, OFFSET = 3.0, -2.0
RATE = 0.1
STEPS = 120


def points(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The x and y of 200 points near the line."""
    x = rng.uniform(-1, 1, 200)
    return x, SLOPE * x + OFFSET + rng.normal(0, 0.1, 200)


def error(w: ns.Tensor, b: ns.Tensor, x: ns.Tensor, y: ns.Tensor) -> ns.Tensor:
    with ns.name_scope("line"):
        line = x * w + b
    with ns.name_scope("error"):
        return np.mean(np.square(line - y))


def eager(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Run each operation at once, with gradients from a tape."""
    w, b = ns.parameter(0.0, name="w"), ns.parameter(0.0, name="b")
    xs, ys = ns.tensor(x, name="x"), ns.tensor(y, name="y")
    for _ in ns.steps(range(STEPS)):
        with ns.GradientTape() as tape:
            loss = error(w, b, xs, ys)
        slopes = tape.gradient(loss, [w, b])
        for weight, slope in zip((w, b), slopes, strict=True):
            ns.assign(weight, weight - RATE * slope)
    return w.item(), b.item()


def static(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Run each step as one graph, from the old weights to the new ones."""

    @ns.compile
    def step(weights: dict, xs: ns.Tensor, ys: ns.Tensor) -> dict:
        slopes = ns.grad(lambda weights: error(weights["w"], weights["b"], xs, ys))(weights)
        return {name: weight - RATE * slopes[name] for name, weight in weights.items()}

    weights = {"w": ns.tensor(0.0, name="w"), "b": ns.tensor(0.0, name="b")}
    xs, ys = ns.tensor(x, name="x"), ns.tensor(y, name="y")
    for _ in ns.steps(range(STEPS)):
        weights = step(weights, xs, ys)
    return weights["w"].item(), weights["b"].item()


def main() -> None:
    x, y = points(np.random.default_rng(3))
    for name, fit in (("eager", eager), ("static", static)):
        slope, offset = fit(x, y)
        print(f"{name:6}  slope {slope:.6f}  offset {offset:.6f}", flush=True)


if __name__ == "__main__":
    main()
