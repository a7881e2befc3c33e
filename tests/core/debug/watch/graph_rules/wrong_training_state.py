"""Optimizers, dropout and kernels that prevent learning; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(31)
N, FEATURES = X.shape

# ---------------------------------------------------------------- optimizer_made_anew


def an_optimizer_in_each_step() -> None:
    weight = ns.parameter(np.ones((FEATURES, 1), "f"), name="weight")
    for _ in ns.steps(range(12)):
        optimizer = optim.SGD([weight], lr=0.01, momentum=0.9)
        loss = nn.mse(ns.tensor(X) @ weight, TARGETS[:, None])
        optimizer.minimize(loss)  # hit: optimizer_made_anew


# ---------------------------------------------------------------- update_overwritten


def an_average_written_to_the_student() -> None:
    student, optimizer = scores()
    teacher = mlp(3)
    for _ in ns.steps(range(8)):
        optimizer.minimize(nn.cross_entropy(student(ns.tensor(X)), LABELS))
        with ns.no_grad():
            for own, other in zip(student.parameters(), teacher.parameters(), strict=True):
                ns.assign(own, 0.9 * other + 0.1 * own)  # hit: update_overwritten


# ---------------------------------------------------------------- dropout_takes_most


def the_share_to_keep() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(FEATURES, 8, rng=rng), nn.relu)
    head, draws = nn.Linear(8, 1, rng=rng), ns.random.Generator(0)
    optimizer = optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
    for _ in ns.steps(range(3)):
        kept = nn.dropout(model(ns.tensor(X)), 0.95, rng=draws)  # hit: dropout_takes_most
        optimizer.minimize(nn.mse(head(kept), TARGETS[:, None]))


# ---------------------------------------------------------------- kernel_is_identity


def a_kernel_without_neighbours() -> None:
    weight = ns.parameter(np.zeros(N), name="weight")
    optimizer = optim.SGD([weight], lr=0.1)
    points = ns.tensor(np.linspace(0, 100, N), name="points")
    for _ in ns.steps(range(6)):
        gap = (points[:, None] - points[None, :]) / 0.1
        kernel = np.exp(-0.5 * gap**2)  # hit: kernel_is_identity
        optimizer.minimize(np.mean((kernel @ weight - TARGETS) ** 2))


# ---------------------------------------------------------------- schedule_ends_early


def a_warm_up_that_never_begins() -> None:
    model, optimizer = scores()
    for step in ns.steps(range(24)):
        optimizer.lr = 0.1 * (step // 100)
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()  # hit: schedule_ends_early


# ---------------------------------------------------------------- both_factors_zero


def two_factors_of_zeros() -> None:
    users = ns.parameter(np.zeros((6, 2)), name="users")
    items = ns.parameter(np.zeros((2, 4)), name="items")
    optimizer = optim.SGD([users, items], lr=0.1)
    for _ in ns.steps(range(8)):
        told = users @ items  # hit: both_factors_zero
        optimizer.minimize(np.mean((told - X[:6, :4]) ** 2))


# ---------------------------------------------------------------- signal_fades


def layers_of_small_weights() -> None:
    weights = [ns.parameter(RNG.normal(0, 0.02, (FEATURES, FEATURES))) for _ in range(4)]
    head = ns.parameter(RNG.normal(0, 0.02, (FEATURES, 3)), name="head")
    optimizer = optim.SGD([*weights, head], lr=0.01)
    for _ in ns.steps(range(24)):
        h = np.tanh(ns.tensor(X) @ weights[0])
        for weight in weights[1:]:
            h = np.tanh(h @ weight)  # hit: signal_fades
        optimizer.minimize(nn.cross_entropy(h @ head, LABELS))


# ---------------------------------------------------------------- views_collapse


def views_that_are_only_drawn_together() -> None:
    model = mlp(3)
    optimizer = optim.Adam(model, lr=0.05)
    for _ in ns.steps(range(60)):
        noise = RNG.normal(0, 0.1, (2, N, FEATURES)).astype("f")
        one, two = (model(ns.tensor(X + part)) for part in noise)
        apart = one - two  # hit: views_collapse
        optimizer.minimize(np.mean(apart**2))


# ---------------------------------------------------------------- rounds_unused


def a_state_that_is_not_carried() -> None:
    given, inner = (ns.parameter(RNG.normal(0, 0.5, s)) for s in ((1, 8), (8, 8)))
    head, start = ns.parameter(RNG.normal(0, 0.5, (8, 3))), ns.tensor(np.zeros((N, 8)))
    optimizer = optim.SGD([given, inner, head], lr=0.1)
    for _ in ns.steps(range(3)):
        x, h = ns.tensor(X), start
        for t in range(FEATURES):
            h = np.tanh(x[:, t : t + 1] @ given + start @ inner)  # hit: rounds_unused
        optimizer.minimize(nn.cross_entropy(h @ head, LABELS))


# ---------------------------------------------------------------- inputs_scale


def pictures_divided_twice() -> None:
    model, optimizer = scores()
    optimizer.lr = 1e-3
    for _ in ns.steps(range(34)):
        pictures = ns.tensor(X / 255, name="pictures")  # hit: inputs_scale
        optimizer.minimize(nn.cross_entropy(model(pictures), LABELS))
