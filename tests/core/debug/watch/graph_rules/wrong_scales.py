"""Weights, updates and scores whose size prevents learning; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X

RNG = np.random.default_rng(31)
N, FEATURES = X.shape

# ---------------------------------------------------------------- saturated_start


def weights_without_a_scale() -> None:
    first = ns.parameter(9 * RNG.normal(0, 1, (FEATURES, 12)).astype("f"), name="first")
    last = ns.parameter(RNG.normal(0, 0.3, (12, 1)).astype("f"), name="last")
    optimizer = optim.SGD([first, last], lr=0.001)
    for _ in ns.steps(range(34)):
        h = np.tanh(ns.tensor(X) @ first)  # hit: saturated_start
        optimizer.minimize(nn.mse(h @ last, TARGETS[:, None]))


# ---------------------------------------------------------------- worse_than_chance


def scores_without_a_scale() -> None:
    first = ns.parameter(6 * RNG.normal(0, 1, (FEATURES, 12)).astype("f"), name="first")
    last = ns.parameter(6 * RNG.normal(0, 1, (12, CLASSES)).astype("f"), name="last")
    optimizer = optim.SGD([first, last], lr=1e-3)
    for _ in ns.steps(range(64)):
        h = nn.relu(ns.tensor(X) @ first)
        optimizer.minimize(nn.cross_entropy(h @ last, LABELS))  # hit: worse_than_chance


def steps_uphill() -> None:
    weight = ns.parameter(np.zeros((FEATURES, CLASSES), "f"), name="weight")
    for _ in ns.steps(range(80)):
        loss = nn.cross_entropy(ns.tensor(X) @ weight, LABELS)  # hit: worse_than_chance
        weight.grad = None
        loss.backward()
        with ns.no_grad():
            ns.assign(weight, weight + 0.3 * weight.grad)


# ---------------------------------------------------------------- updates_rounded


def half_precision_without_a_copy() -> None:
    weight = ns.parameter(np.full((FEATURES, 1), 1.5, np.float16), name="weight")
    for _ in ns.steps(range(70)):
        loss = nn.mse(ns.tensor(X) @ ns.astype(weight, ns.float32), -TARGETS[:, None])
        weight.grad = None
        loss.backward()
        with ns.no_grad():
            step = ns.astype(1e-4 * ns.astype(weight.grad, ns.float32), ns.float16)
            ns.assign(weight, weight - step)  # hit: updates_rounded
