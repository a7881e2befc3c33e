"""Correct outputs, losses and labels that look wrong; see `right`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(22)
N, FEATURES = X.shape
ONE_HOT = np.eye(CLASSES, dtype="f")[LABELS]


def counts_under_a_relu() -> None:
    """Only noise makes some targets negative."""
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    counts = np.maximum(TARGETS, 0)[:, None] + RNG.normal(0, 0.03, (N, 1)).astype("f")
    for _ in ns.steps(range(60)):
        optimizer.minimize(nn.mse(nn.relu(model(ns.tensor(X)) + 0.3), counts))


def noise_beyond_a_tanh() -> None:
    """Noise moves some targets out of the range, and is as large within it."""
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    wanted = (np.tanh(2 * TARGETS)[:, None] + RNG.normal(0, 0.1, (N, 1))).astype("f")
    for _ in ns.steps(range(60)):
        optimizer.minimize(nn.mse(np.tanh(model(ns.tensor(X))), wanted))


def pixels_under_a_sigmoid() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    pixels = np.clip(TARGETS[:, None] + 0.5, 0, 1)
    for _ in ns.steps(range(40)):
        optimizer.minimize(nn.mse(nn.sigmoid(model(ns.tensor(X))), pixels))


def a_residual_on_the_way() -> None:
    """The value subtracted from the data is not a prediction of it."""
    model = mlp(FEATURES)
    head = nn.Linear(FEATURES, 1, rng=RNG)
    optimizer = optim.Adam([*model.parameters(), *head.parameters()], lr=0.02)
    for _ in ns.steps(range(24)):
        x = ns.tensor(X)
        optimizer.minimize(nn.mse(head(x - nn.relu(model(x))), TARGETS[:, None]))


def millions_that_are_scaled() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in ns.steps(range(40)):
        optimizer.minimize(nn.mse(1e6 * model(ns.tensor(X)), 1e6 * TARGETS[:, None]))


def a_few_outliers_of_millions() -> None:
    model, optimizer = scores(1)
    wanted = TARGETS[:, None].copy()
    wanted[::8] = 1e6
    for _ in ns.steps(range(24)):
        apart = model(ns.tensor(X)) - wanted
        optimizer.minimize(np.mean(np.sqrt(1 + apart**2)))


def a_likelihood_that_levels_off() -> None:
    """A loss far below zero, for data that varies by only a thousandth."""
    data = 0.5 + 0.001 * RNG.normal(0, 1, (N, 2))
    mean = ns.parameter(np.full(2, 0.49), name="mean")
    log_sigma = ns.parameter(np.full(2, -5.5), name="log_sigma")
    optimizer = optim.Adam([mean, log_sigma], lr=0.1)
    for _ in ns.steps(range(160)):
        z = (ns.tensor(data) - mean) * np.exp(-log_sigma)
        optimizer.minimize(np.mean(np.sum(0.5 * z**2 + log_sigma, axis=1)))


def a_critic_and_its_forger() -> None:
    """The critic's loss falls below zero as long as the generator is bad."""
    critic, shift = mlp(1), ns.parameter(np.zeros(FEATURES, "f"), name="shift")
    judging, forging = optim.SGD(critic, lr=0.05), optim.SGD([shift], lr=0.001)
    for _ in ns.steps(range(80)):
        noise = RNG.standard_normal((N, FEATURES)).astype("f")
        made = (ns.tensor(noise) + shift).detach()
        judging.minimize(np.mean(critic(made)) - np.mean(critic(ns.tensor(X + 3))))
        forging.minimize(-np.mean(critic(ns.tensor(noise) + shift)))


def rewards_that_are_reached() -> None:
    """A policy gradient: the minimised value is not an error, and has no lower bound."""
    aim = ns.parameter(np.zeros(2), name="aim")
    optimizer = optim.SGD([aim], lr=0.05)
    for _ in ns.steps(range(80)):
        shots = aim.numpy() + 0.5 * RNG.normal(0, 1, (32, 2))
        reward = -np.sum((shots - [1.5, -1.0]) ** 2, axis=1)
        chance = -2 * np.sum((ns.tensor(shots) - aim) ** 2, axis=1)
        optimizer.minimize(-np.mean(chance * ns.tensor(reward - reward.mean())))


def the_most_of_a_variance() -> None:
    """A loss below zero that is bounded, since the axis has unit length."""
    axis = ns.parameter(RNG.normal(0, 1, FEATURES), name="axis")
    optimizer = optim.SGD([axis], lr=0.5)
    for _ in ns.steps(range(110)):
        along = ns.tensor(X) @ (axis / np.sqrt(np.sum(axis**2)))
        optimizer.minimize(-np.mean(along**2))


def pairs_in_both_directions() -> None:
    left, right = nn.Linear(FEATURES, 4, rng=RNG), nn.Linear(FEATURES, 4, rng=RNG)
    optimizer = optim.SGD([*left.parameters(), *right.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        alike = left(ns.tensor(X)) @ right(ns.tensor(X)).T
        rows = np.diagonal(ns.log_softmax(alike, axis=1))
        columns = np.diagonal(ns.log_softmax(alike, axis=0))
        optimizer.minimize(-np.mean(rows) - np.mean(columns))


def documents_of_a_query() -> None:
    """Which of the rows is wanted: a softmax over them is right."""
    model, optimizer = scores(2)
    for _ in ns.steps(range(3)):
        told = ns.log_softmax(model(ns.tensor(X)), axis=0)
        optimizer.minimize(-np.mean(told[3]))


def steps_of_one_length() -> None:
    """A clip far below the norm of gradients, and a rate that makes up for it."""
    model, optimizer = scores(1)
    optimizer.lr = 1e3
    for step in ns.steps(range(40)):
        optimizer.zero_grad()
        nn.mse(model(ns.tensor(X)), TARGETS[:, None]).backward()
        optim.clip_grad_norm(model, 1e-4)
        optimizer.lr = 1e3 * (1 - step / 40)
        optimizer.step()


def one_picture_of_a_fixed_seed() -> None:
    model, optimizer = scores(5)
    for _ in ns.steps(range(14)):
        told = model(ns.tensor(np.ones((1, FEATURES), "f"), name="seed"))
        optimizer.minimize(nn.mse(told, TARGETS[None, :5]))


def a_column_of_ones_beside_data() -> None:
    model = mlp(1)
    offset = ns.parameter(np.zeros((1, 1), "f"), name="offset")
    optimizer = optim.SGD([*model.parameters(), offset], lr=0.05)
    for _ in ns.steps(range(14)):
        ones = ns.tensor(np.ones((N, 1), "f"), name="ones")
        optimizer.minimize(nn.mse(model(ns.tensor(X)) + ones @ offset, TARGETS[:, None]))


def the_right_answer_first() -> None:
    """Contrasts: the first column is of the pair, the others of what it is told apart from."""
    left = nn.Linear(FEATURES, 4, rng=RNG)
    optimizer = optim.SGD(left, lr=0.05)
    for _ in ns.steps(range(14)):
        own, other = left(ns.tensor(X)), left(ns.tensor(X[::-1].copy()))
        alike = np.sum(own * left(ns.tensor(X * 1.1)), axis=1, keepdims=True)
        told = np.concatenate([alike, own @ other.T], axis=1)
        optimizer.minimize(nn.cross_entropy(told, np.zeros(N, int)))


def an_autoencoder() -> None:
    """Targets that are the inputs, all columns of them."""
    model, optimizer = scores(FEATURES)
    for _ in ns.steps(range(8)):
        x = ns.tensor(X)
        optimizer.minimize(nn.mse(model(x), x))


def columns_in_another_order() -> None:
    model, optimizer = scores(N)
    for _ in ns.steps(range(3)):
        told = model(ns.tensor(X))[:, RNG.permutation(N)]
        optimizer.minimize(np.mean(told**2))


def means_that_are_to_agree() -> None:
    """Beside the errors of each row: no bias over all of them."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(3)):
        apart = model(ns.tensor(X)) - TARGETS[:, None]
        optimizer.minimize(np.mean(apart**2) + np.mean(apart) ** 2)


def rows_that_are_to_agree_in_the_mean() -> None:
    """Moments of predictions and targets: there are no pairs of rows."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(3)):
        made = model(ns.tensor(X))
        optimizer.minimize((np.mean(made) - np.mean(ns.tensor(TARGETS))) ** 2)
