"""Correct programs with behaviour that rules with fixed limits would take for a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim


def converged() -> None:
    """Gradients become exactly zero, and weights stop changing."""
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (40, 3)).astype(np.float32)
    y = x @ np.array([[2.0], [-1.0], [0.5]], np.float32)
    w = ns.parameter(np.zeros((3, 1), np.float32), name="w")
    optimizer = optim.SGD([w], lr=0.3)
    for _ in ns.steps(range(70)):
        optimizer.zero_grad()
        loss = np.mean(np.square(ns.tensor(x) @ w - y))
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-9


def margins() -> None:
    """A hinge loss: in the end all margins are kept, every ReLU is zero and no gradient is left."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-2, 0.5, (30, 2)), rng.normal(2, 0.5, (30, 2))])
    sides = np.repeat([-1.0, 1.0], 30)[:, None] * np.ones((60, 4))
    w = ns.parameter(rng.normal(0, 0.1, (2, 4)), name="w")
    optimizer = optim.SGD([w], lr=0.3)
    for _ in ns.steps(range(60)):
        optimizer.zero_grad()
        loss = np.mean(nn.relu(1 - sides * (ns.tensor(x) @ w)))
        loss.backward()
        optimizer.step()
    assert loss.item() == 0


def alternating() -> None:
    """Two factors that are trained in turn, ten steps each."""
    rng = np.random.default_rng(0)
    ratings = rng.normal(0, 1, (20, 3)) @ rng.normal(0, 1, (3, 15))
    users = ns.parameter(rng.normal(0, 0.3, (20, 3)), name="users")
    items = ns.parameter(rng.normal(0, 0.3, (3, 15)), name="items")
    optimizers = optim.SGD([users], lr=2.0), optim.SGD([items], lr=2.0)
    for step in ns.steps(range(40)):
        users.grad = items.grad = None
        np.mean(np.square(users @ items - ratings)).backward()
        optimizers[step // 10 % 2].step()


def masks() -> None:
    """Masks of -inf, by `np.where` and by a logarithm; a bias that softmax cancels."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (4, 6, 8))
    keep = np.tril(np.ones((6, 6)))
    query, key = (ns.parameter(rng.normal(0, 0.3, (8, 8)), name=name) for name in ("q", "k"))
    bias = ns.parameter(np.zeros(8), name="k/bias")
    optimizer = optim.Adam([query, key, bias], lr=0.01)
    for step in ns.steps(range(12)):
        optimizer.zero_grad()
        scores = ns.tensor(x) @ query @ np.swapaxes(ns.tensor(x) @ key + bias, 1, 2)
        with np.errstate(divide="ignore"):
            if step % 2:
                scores = scores + np.log(ns.tensor(keep))
            else:
                scores = np.where(keep > 0, scores, -np.inf)
        loss = np.mean(np.square(nn.softmax(scores, axis=-1) @ x - np.cumsum(x, axis=1)))
        loss.backward()
        optimizer.step()


def scaled_halves() -> None:
    """Gradients in float16 overflow until the scale is found; such updates are skipped."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (32, 6)).astype(np.float16)
    y = (x @ np.array([1, -1, 0.5, 0, 0, 2], np.float16))[:, None]
    w = ns.parameter(rng.normal(0, 0.3, (6, 1)).astype(np.float32), name="w")
    optimizer, scale = optim.SGD([w], lr=0.05), 2.0**17
    with np.errstate(all="ignore"):
        for _ in ns.steps(range(12)):
            optimizer.zero_grad()
            error = ns.tensor(x) @ w.astype(np.float16) - y
            (np.mean(np.square(error).astype(np.float32)) * np.float32(scale)).backward()
            gradient: Any = w.grad
            if np.isfinite(gradient.numpy()).all():
                w.grad = gradient / np.float32(scale)
                optimizer.step()
            else:
                scale /= 2


def single_examples() -> None:
    """Batches of one: in most of them, all of four units are zero."""
    rng = np.random.default_rng(3)
    w = ns.parameter(rng.normal(0, 0.5, (4, 4)), name="hidden/w")
    out = ns.parameter(rng.normal(0, 0.5, (4, 1)), name="out/w")
    optimizer = optim.SGD([w, out], lr=0.05)
    for _ in ns.steps(range(40)):
        state = rng.normal(0, 1, (1, 4))
        optimizer.zero_grad()
        loss = np.mean(np.square(nn.relu(ns.tensor(state) @ w) @ out - state.max()))
        loss.backward()
        optimizer.step()


def bias_before_a_norm() -> None:
    """The gradient of the bias cancels: it is trained, and keeps its bits."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (32, 4)).astype(np.float32)
    w = ns.parameter(rng.normal(0, 0.5, (4, 6)).astype(np.float32), name="w")
    bias = ns.parameter(np.ones(6, np.float32), name="bias")
    optimizer = optim.SGD([w, bias], lr=0.1)
    for _ in ns.steps(range(20)):
        optimizer.zero_grad()
        h = ns.tensor(x) @ w + bias
        h = h - np.mean(h, axis=0, keepdims=True)
        loss = np.mean(np.square(np.tanh(h) - x[:, :1]))
        loss.backward()
        optimizer.step()


def offset_of_all_scores() -> None:
    """A softmax takes no notice of the offset: its gradient is rounding noise."""
    rng = np.random.default_rng(41)
    x = rng.normal(0, 1, (64, 6)).astype(np.float32)
    labels = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    w = ns.parameter(rng.normal(0, 0.1, (6, 3)).astype(np.float32), name="w")
    offset = ns.parameter(np.float32(0.3), name="offset")
    optimizer = optim.SGD([w, offset], lr=0.2)
    for _ in ns.steps(range(12)):
        optimizer.zero_grad()
        nn.cross_entropy(ns.tensor(x) @ w + offset, labels).backward()
        optimizer.step()


def outliers() -> None:
    """A few terms make up nearly all of the loss, and all others fall."""
    rng = np.random.default_rng(65)
    x = rng.uniform(-1, 1, 60)
    y = 2 * x
    y[:4] += (1e5, -3e4, 2e4, -5e4)
    slope = ns.parameter(0.0, name="slope")
    optimizer = optim.SGD([slope], lr=0.2)
    for _ in ns.steps(range(22)):
        optimizer.zero_grad()
        miss = slope * ns.tensor(x) - ns.tensor(y)
        loss = np.mean(np.where(np.abs(miss) < 1, 0.5 * miss**2, np.abs(miss) - 0.5))
        loss.backward()
        optimizer.step()


def uphill() -> None:
    """A score without bound is driven up: that it grows is what is wanted."""
    place = ns.tensor(np.ones(2), name="place")
    for _ in ns.steps(range(12)):
        _, slope = ns.value_and_grad(lambda place: np.sum(place**2))(place)
        place = place + 0.5 * slope


RIGHT: tuple[Callable[[], None], ...] = (
    converged, margins, alternating, masks, scaled_halves, single_examples,
    offset_of_all_scores, outliers, uphill,
)  # fmt: skip
