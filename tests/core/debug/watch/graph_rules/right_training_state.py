"""Correct optimizers, dropout and kernels that look wrong; see `right`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(32)
N, FEATURES = X.shape


def an_optimizer_for_each_task() -> None:
    """Each optimizer makes several updates, as in the inner loop of meta-learning."""
    start = ns.parameter(np.ones((FEATURES, 1), "f"), name="start")
    fast = ns.parameter(np.ones((FEATURES, 1), "f"), name="fast")
    for _ in ns.steps(range(12)):
        ns.assign(fast, start)
        inner = optim.SGD([fast], lr=0.01, momentum=0.9)
        for _ in range(3):
            inner.minimize(nn.mse(ns.tensor(X) @ fast, TARGETS[:, None]))
        ns.assign(start, 0.9 * start + 0.1 * fast)


def one_optimizer_without_gradients_yet() -> None:
    """Its state stays zero, since the gradients are."""
    weight = ns.parameter(np.zeros((FEATURES, 1), "f"), name="weight")
    optimizer = optim.SGD([weight], lr=0.01, momentum=0.9)
    for _ in ns.steps(range(14)):
        optimizer.minimize(nn.mse(ns.tensor(X) @ weight, np.zeros((N, 1), "f")))


def a_teacher_that_follows() -> None:
    student, optimizer = scores()
    teacher = mlp(3)
    for _ in ns.steps(range(8)):
        optimizer.minimize(nn.cross_entropy(student(ns.tensor(X)), LABELS))
        with ns.no_grad():
            for own, other in zip(student.parameters(), teacher.parameters(), strict=True):
                ns.assign(other, 0.9 * other + 0.1 * own)


def weights_kept_within_bounds() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(8)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
        with ns.no_grad():
            for weight in model.parameters():
                ns.assign(weight, np.clip(weight, -0.1, 0.1))


def dropout_of_most_inputs() -> None:
    rng = np.random.default_rng(0)
    model, draws = nn.Linear(FEATURES, FEATURES, rng=rng), ns.random.Generator(0)
    optimizer = optim.SGD(model, lr=0.01)
    for _ in ns.steps(range(3)):
        x = ns.tensor(X)
        optimizer.minimize(nn.mse(model(nn.dropout(x, 0.8, rng=draws)), x))


def a_narrow_kernel_over_a_fine_grid() -> None:
    weight = ns.parameter(np.zeros(N), name="weight")
    optimizer = optim.SGD([weight], lr=0.1)
    points = ns.tensor(np.linspace(0, 1, N), name="points")
    for _ in ns.steps(range(6)):
        gap = (points[:, None] - points[None, :]) / 0.03
        optimizer.minimize(np.mean((np.exp(-0.5 * gap**2) @ weight - TARGETS) ** 2))


def a_warm_up_from_zero() -> None:
    model, optimizer = scores()
    for step in ns.steps(range(24)):
        optimizer.lr = 0.1 * min(1, step / 10)
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))


def one_factor_of_zeros() -> None:
    """As in a low-rank change that begins at zero."""
    down = ns.parameter(RNG.normal(0, 0.3, (6, 2)), name="down")
    up = ns.parameter(np.zeros((2, 4)), name="up")
    optimizer = optim.SGD([down, up], lr=0.1)
    for _ in ns.steps(range(8)):
        optimizer.minimize(np.mean((down @ up - X[:6, :4]) ** 2))


def layers_that_fade_and_learn() -> None:
    rng = np.random.default_rng(5)
    weights = [ns.parameter(rng.normal(0, 0.35, (FEATURES, FEATURES))) for _ in range(3)]
    head = ns.parameter(rng.normal(0, 0.5, (FEATURES, 3)), name="head")
    optimizer = optim.Adam([*weights, head], lr=0.05)
    for _ in ns.steps(range(40)):
        h = ns.tensor(X)
        for weight in weights:
            h = np.tanh(h @ weight)
        optimizer.minimize(nn.cross_entropy(h @ head, LABELS))


def views_kept_apart() -> None:
    model = mlp(3)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in ns.steps(range(40)):
        noise = RNG.normal(0, 0.1, (2, N, FEATURES)).astype("f")
        one, two = (model(ns.tensor(X + part)) for part in noise)
        spread = np.mean(nn.relu(1 - np.std(one, axis=0)))
        optimizer.minimize(np.mean((one - two) ** 2) + spread)


def outputs_of_the_last_round_alone() -> None:
    """An output is computed in each round, and the last one is used; the state is carried."""
    given, inner = (ns.parameter(RNG.normal(0, 0.5, s)) for s in ((1, 8), (8, 8)))
    head = ns.parameter(RNG.normal(0, 0.5, (8, 3)))
    optimizer = optim.SGD([given, inner, head], lr=0.1)
    for _ in ns.steps(range(3)):
        x, h = ns.tensor(X), ns.tensor(np.zeros((N, 8)))
        for t in range(FEATURES):
            h = np.tanh(x[:, t : t + 1] @ given + h @ inner)
            told = h @ head
        optimizer.minimize(nn.cross_entropy(told, LABELS))


def large_inputs_that_are_learnt_from() -> None:
    weight = ns.parameter(np.zeros((FEATURES, 1), "f"), name="weight")
    optimizer = optim.SGD([weight], lr=4e-5)
    for _ in ns.steps(range(40)):
        optimizer.minimize(nn.mse(ns.tensor(100 * X) @ weight, 100 * TARGETS[:, None]))
