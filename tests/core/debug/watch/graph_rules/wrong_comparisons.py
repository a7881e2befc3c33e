"""Losses, rates and parameters other than intended; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(41)
N, FEATURES = X.shape

# ---------------------------------------------------------------- loss_of_data


def the_input_is_compared() -> None:
    model, optimizer = scores(FEATURES)
    for _ in ns.steps(range(3)):
        noisy, clean = ns.tensor(X + 0.1, name="noisy"), ns.tensor(X, name="clean")
        made = model(noisy)
        fit = nn.mse(noisy, clean)  # hit: loss_of_data
        optimizer.minimize(fit + 0.01 * np.mean(made**2))


# ---------------------------------------------------------------- sides_equal


def a_pupil_that_is_its_teacher() -> None:
    teacher, optimizer = scores(2)
    pupil = teacher
    for _ in ns.steps(range(12)):
        with ns.no_grad():
            wanted = teacher(ns.tensor(X))
        optimizer.minimize(nn.mse(pupil(ns.tensor(X)), wanted))  # hit: sides_equal


# ---------------------------------------------------------------- worse_than_mean


def targets_far_from_zero() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in ns.steps(range(64)):
        told = model(ns.tensor(X))
        optimizer.minimize(nn.mse(told, 25 + TARGETS[:, None] / 10))  # hit: worse_than_mean


# ---------------------------------------------------------------- steps_too_small


def a_rate_of_nearly_nothing() -> None:
    weight = ns.parameter(np.ones((FEATURES, 1), "f"), name="weight")
    optimizer = optim.SGD([weight], lr=1e-7)
    for _ in ns.steps(range(44)):
        optimizer.zero_grad()
        nn.mse(ns.tensor(X) @ weight, ns.tensor(X[:, :1])).backward()
        optimizer.step()  # hit: steps_too_small


# ---------------------------------------------------------------- rate_negative


def a_rate_that_oscillates() -> None:
    model, optimizer = scores()
    for step in ns.steps(range(14)):
        optimizer.lr = 0.01 * float(np.cos(np.pi / 2 * step))
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()  # hit: rate_negative


# ---------------------------------------------------------------- term_stays_zero


def a_penalty_that_never_rises() -> None:
    model, optimizer = scores(1)
    for step in ns.steps(range(24)):
        weight = float(step // 100)
        told = model(ns.tensor(X))
        fit = nn.mse(told, TARGETS[:, None])
        optimizer.minimize(fit + weight * np.mean(told**2))  # hit: term_stays_zero


# ---------------------------------------------------------------- mean_of_one


def a_norm_over_one_feature() -> None:
    norm, model = nn.LayerNorm(1), nn.Linear(1, 1, rng=RNG)
    optimizer = optim.SGD([*norm.parameters(), *model.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        scaled = norm(ns.tensor(X[:, :1]))  # hit: mean_of_one
        optimizer.minimize(nn.mse(model(scaled), TARGETS[:, None]))


# ---------------------------------------------------------------- label_in_inputs


def the_last_of_a_window() -> None:
    series = np.sin(np.arange(300) / 5).astype("f")
    weight = ns.parameter(np.zeros((8, 1), "f"), name="weight")
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in ns.steps(range(8)):
        rows = np.stack([series[s : s + 8] for s in RNG.integers(0, 290, 20)])
        past = ns.tensor(rows, name="past")  # hit: label_in_inputs
        optimizer.minimize(nn.mse(past @ weight, ns.tensor(rows[:, -1:])))


# ---------------------------------------------------------------- no_gradient_path


def an_optimizer_of_copies() -> None:
    weight = ns.parameter(np.ones((FEATURES, 1), "f"), name="weight")
    optimizer = optim.SGD([ns.parameter(weight.numpy(), name="weight")], lr=0.01)
    for _ in ns.steps(range(4)):
        told = ns.tensor(X) @ weight  # hit: no_gradient_path
        optimizer.minimize(nn.mse(told, TARGETS[:, None]))
