"""Correct comparisons, rates and weights of terms that look wrong; see `right`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(42)
N, FEATURES = X.shape


def rewards_less_their_mean() -> None:
    """A difference of data before a loss: it weights the predictions."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(3)):
        reward, level = ns.tensor(TARGETS[:, None]), ns.tensor(np.full((N, 1), 0.1, "f"))
        optimizer.minimize(-np.mean(model(ns.tensor(X)) * (reward - level)))


def a_teacher_that_begins_equal() -> None:
    teacher, pupil = mlp(2), mlp(2)
    optimizer = optim.SGD(pupil, lr=0.1)
    for _ in ns.steps(range(14)):
        with ns.no_grad():
            wanted = teacher(ns.tensor(X))
        noisy = ns.tensor(X + RNG.normal(0, 0.1, X.shape).astype("f"))
        optimizer.minimize(nn.mse(pupil(noisy), wanted))


def targets_that_are_reached_from_afar() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.1)
    for _ in ns.steps(range(70)):
        optimizer.minimize(nn.mse(model(ns.tensor(X)), 5 + TARGETS[:, None]))


def small_steps_that_are_enough() -> None:
    weight = ns.parameter(np.full((FEATURES, 1), 1e4, "f"), name="weight")
    offset = ns.parameter(np.zeros(1, "f"), name="offset")
    optimizer = optim.SGD([weight, offset], lr=1e-2)
    base = X @ np.full((FEATURES, 1), 1e4, "f")
    for _ in ns.steps(range(44)):
        told = ns.tensor(X) @ weight + offset
        optimizer.minimize(np.mean((told - ns.tensor(base + 0.5)) ** 2))


def a_penalty_without_weight_on_purpose() -> None:
    model, optimizer = scores(1)
    weight = 0.0
    for _ in ns.steps(range(24)):
        told = model(ns.tensor(X))
        optimizer.minimize(nn.mse(told, TARGETS[:, None]) + weight * np.mean(told**2))


def a_penalty_that_rises() -> None:
    model, optimizer = scores(1)
    for step in ns.steps(range(24)):
        weight = max(0.0, (step - 10) / 100)
        told = model(ns.tensor(X))
        optimizer.minimize(nn.mse(told, TARGETS[:, None]) + weight * np.mean(told**2))


def a_rate_by_a_cosine() -> None:
    model, optimizer = scores()
    for step in ns.steps(range(20)):
        optimizer.lr = 0.05 * (1 + float(np.cos(np.pi * step / 20)))
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))


def the_next_of_a_window() -> None:
    series = np.sin(np.arange(300) / 5).astype("f")
    weight = ns.parameter(np.zeros((8, 1), "f"), name="weight")
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in ns.steps(range(8)):
        rows = np.stack([series[s : s + 9] for s in RNG.integers(0, 290, 20)])
        optimizer.minimize(nn.mse(ns.tensor(rows[:, :8]) @ weight, ns.tensor(rows[:, 8:])))


def an_optimizer_of_a_part_that_rests() -> None:
    """Two parts, one of which has a gradient only in every other step."""
    one, other = (ns.parameter(np.ones((FEATURES, 1), "f"), name=n) for n in ("one", "other"))
    optimizer = optim.SGD([one, other], lr=0.01)
    for step in ns.steps(range(8)):
        told = ns.tensor(X) @ (one if step % 2 else one + other)
        optimizer.minimize(nn.mse(told, TARGETS[:, None]))
