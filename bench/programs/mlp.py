"""A step of a multilayer perceptron 784-256-128-10: loss, gradients, SGD.

Invariant: the loss is the mean cross entropy with one-hot labels, in every library.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bench.programs import training
from bench.programs.case import JAX, NUMPY, Array, C, Case, Limit
from nodescope import nn

F = nn.functional
WIDTHS = (784, 256, 128, 10)
LIMITS = {
    64: {NUMPY: Limit(JAX, 1.0), C: Limit(JAX, 0.7, 0.55)},
    512: {NUMPY: Limit(JAX, 1.05), C: Limit(JAX, 0.95, 0.85)},
}
NO_LIMITS = {NUMPY: Limit(JAX), C: Limit(JAX)}
RATE = 0.01


def cases() -> tuple[Case, ...]:
    return tuple(case(batch) for batch in LIMITS)


def tiny() -> Case:
    return case(3, (5, 4, 6, 3))


def case(batch: int, widths: Sequence[int] = WIDTHS) -> Case:
    """One step on ``batch`` samples, always the same ones."""
    rng = np.random.default_rng(1)
    parameters: list[Array] = []
    for a, b in pairwise(widths):
        weight = rng.standard_normal((a, b)) * (2 / a) ** 0.5
        parameters += [weight.astype(np.float32), np.zeros(b, np.float32)]
    x = rng.standard_normal((batch, widths[0])).astype(np.float32)
    labels = np.eye(widths[-1], dtype=np.float32)[rng.integers(0, widths[-1], batch)]
    losses = training.Losses(by_hand, ours, torch_loss, jax_loss)
    limits = LIMITS.get(batch, NO_LIMITS)
    return training.case(f"MLP step B{batch}", losses, parameters, [x, labels], limits, rate=RATE)


def by_hand(parameters: Sequence[Array], inputs: Sequence[Array]) -> tuple[Any, list[Array]]:
    w1, b1, w2, b2, w3, b3 = parameters
    x, labels = inputs
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    z = h2 @ w3 + b3
    z -= z.max(axis=1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=1, keepdims=True)
    loss = (np.log(total).sum() - (z * labels).sum()) / len(x)
    dz = (e / total - labels) / x.dtype.type(len(x))
    d2 = (dz @ w3.T) * (h2 > 0)
    d1 = (d2 @ w2.T) * (h1 > 0)
    return loss, [x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ dz, dz.sum(0)]


def ours(parameters: Any, x: Any, labels: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = parameters
    h = F.relu(F.relu(x @ w1 + b1) @ w2 + b2)
    return -(F.log_softmax(h @ w3 + b3, 1) * labels).sum() / len(x)


def torch_loss(torch: Any, parameters: Any, x: Any, labels: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = parameters
    h = torch.relu(torch.addmm(b2, torch.relu(torch.addmm(b1, x, w1)), w2))
    return -(torch.log_softmax(torch.addmm(b3, h, w3), 1) * labels).sum() / len(x)


def jax_loss(jax: Any, parameters: Any, x: Any, labels: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = parameters
    h = jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2)
    return -(jax.nn.log_softmax(h @ w3 + b3) * labels).sum() / len(x)
