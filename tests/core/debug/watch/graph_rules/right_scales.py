"""Weights, updates and scores that are large or small on purpose; see `right`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(32)
N, FEATURES = X.shape


def steep_layers_that_learn() -> None:
    """Nearly all results are at the bounds, but the layer learns all the same."""
    first = ns.parameter(9 * RNG.normal(0, 1, (FEATURES, 24)).astype("f"), name="first")
    last = ns.parameter(RNG.normal(0, 0.3, (24, 1)).astype("f"), name="last")
    optimizer = optim.Adam([first, last], lr=0.05)
    for _ in ns.steps(range(80)):
        h = np.tanh(ns.tensor(X) @ first)
        optimizer.minimize(nn.mse(h @ last, TARGETS[:, None]))


def a_reservoir() -> None:
    """The reservoir's random weights stay fixed."""
    first = 9 * RNG.normal(0, 1, (FEATURES, 12)).astype("f")
    head = nn.Linear(12, 1, rng=RNG)
    optimizer = optim.SGD(head, lr=0.01)
    for _ in ns.steps(range(40)):
        h = np.tanh(ns.tensor(X) @ ns.tensor(first))
        optimizer.minimize(nn.mse(head(h), TARGETS[:, None]))


def gates_that_are_open() -> None:
    """A gate is nearly one from the start; it is not the input of a layer."""
    model, head = mlp(8), nn.Linear(8, 1, rng=RNG)
    gate = nn.Linear(FEATURES, 8, rng=RNG)
    ns.assign(gate.bias, np.full(8, 6.0, "f"))
    optimizer = optim.SGD([*model.parameters(), *head.parameters(), *gate.parameters()], lr=0.01)
    for _ in ns.steps(range(40)):
        x = ns.tensor(X)
        optimizer.minimize(nn.mse(head(nn.sigmoid(gate(x)) * model(x)), TARGETS[:, None]))


def scores_too_large_at_first() -> None:
    model, _ = scores()
    for parameter in model.parameters():
        ns.assign(parameter, 12 * parameter)
    optimizer = optim.Adam(model, lr=0.3)
    for _ in ns.steps(range(90)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))


def half_precision_that_has_arrived() -> None:
    """Updates are rounded away where they cancel."""
    weight = ns.parameter(np.full((FEATURES, 1), 0.2, np.float16), name="weight")
    for _ in ns.steps(range(160)):
        rows = RNG.integers(0, N, 8)
        noise = RNG.normal(0, 0.1, (8, 1)).astype("f")
        told = ns.tensor(X[rows]) @ ns.astype(weight, ns.float32)
        loss = nn.mse(told, TARGETS[rows][:, None] + noise)
        weight.grad = None
        loss.backward()
        with ns.no_grad():
            step = ns.astype(1e-2 * ns.astype(weight.grad, ns.float32), ns.float16)
            ns.assign(weight, weight - step)


def half_precision_with_a_copy() -> None:
    """The wider copy keeps the parts that are rounded away."""
    copy = ns.variable(np.full((FEATURES, 1), 1.5, np.float32), name="copy")
    weight = ns.parameter(np.full((FEATURES, 1), 1.5, np.float16), name="weight")
    for _ in ns.steps(range(70)):
        loss = nn.mse(ns.tensor(X) @ ns.astype(weight, ns.float32), -TARGETS[:, None])
        weight.grad = None
        loss.backward()
        with ns.no_grad():
            ns.assign(copy, copy - 1e-4 * ns.astype(weight.grad, ns.float32))
            ns.assign(weight, ns.astype(copy, ns.float16))


def a_narrow_density() -> None:
    """A scale that is learned at a constant rate has not converged when the run ends."""
    log_scale = ns.parameter(np.zeros((), "f"), name="log_scale")
    optimizer = optim.Adam([log_scale], lr=0.01)
    rest = 0.01 * RNG.normal(0, 1, N)
    for _ in ns.steps(range(110)):
        ratio = ns.tensor(rest.astype("f")) / np.exp(log_scale)
        optimizer.minimize(np.mean(0.5 * ratio**2 + log_scale))
