"""Losses that cannot fall, have no lower bound, or compare the wrong values; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(21)
N, FEATURES = X.shape
ONE_HOT = np.eye(CLASSES, dtype="f")[LABELS]

# ---------------------------------------------------------------- targets_out_of_range


def a_relu_after_the_last_layer() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in ns.steps(range(40)):
        told = nn.relu(model(ns.tensor(X)) + 1.0)  # hit: targets_out_of_range
        optimizer.minimize(nn.mse(told, TARGETS[:, None]))


def a_sigmoid_for_tens() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.05)
    for _ in ns.steps(range(40)):
        told = 2 * nn.sigmoid(model(ns.tensor(X))) - 0.5  # hit: targets_out_of_range
        apart = told - ns.tensor(10 + TARGETS[:, None])
        optimizer.minimize(np.mean(apart**2))


def labels_of_one_and_two() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    labels = 1 + (TARGETS[:, None] > 0).astype("f")
    loss = nn.binary_cross_entropy_with_logits
    for _ in ns.steps(range(24)):
        optimizer.minimize(loss(model(ns.tensor(X)), labels))  # hit: targets_out_of_range


# ---------------------------------------------------------------- predictions_far_off


def targets_in_millions() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.01)
    for _ in ns.steps(range(24)):
        told = model(ns.tensor(X))
        optimizer.minimize(nn.mse(told, 3e6 + TARGETS[:, None]))  # hit: predictions_far_off


# ---------------------------------------------------------------- loss_without_floor


def a_determinant_of_the_wrong_sign() -> None:
    scale = ns.parameter(np.zeros(FEATURES), name="scale")
    optimizer = optim.SGD([scale], lr=0.1)
    for _ in ns.steps(range(84)):
        z = ns.tensor(X) * np.exp(scale)
        fit = np.mean(np.sum(0.5 * z**2, axis=1))
        optimizer.minimize(fit + np.sum(scale))  # hit: loss_without_floor


def a_divergence_that_is_subtracted() -> None:
    model = mlp(4)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in ns.steps(range(84)):
        out = model(ns.tensor(X))
        mean, log_var = out[:, :2], out[:, 2:]
        divergence = -0.5 * np.mean(1 + log_var - mean**2 - np.exp(log_var))
        misfit = np.mean((mean - X[:, :2]) ** 2)
        optimizer.minimize(misfit - 2 * divergence)  # hit: loss_without_floor


# ---------------------------------------------------------------- classes_over_batch


def a_likelihood_over_the_rows() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        told = ns.log_softmax(model(ns.tensor(X)), axis=0)  # hit: classes_over_batch
        optimizer.minimize(-np.mean(np.sum(ns.tensor(ONE_HOT) * told, axis=1)))


def probabilities_over_the_rows() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        powers = np.exp(model(ns.tensor(X)))
        shares = powers / np.sum(powers, axis=0)  # hit: classes_over_batch
        optimizer.minimize(-np.mean(np.log(shares[np.arange(N), LABELS])))


# ---------------------------------------------------------------- clip_too_small


def a_clip_of_nearly_nothing() -> None:
    model, optimizer = scores(1)
    for _ in ns.steps(range(24)):
        optimizer.zero_grad()
        nn.mse(model(ns.tensor(X)), TARGETS[:, None]).backward()
        optim.clip_grad_norm(model, 1e-5)  # hit: clip_too_small
        optimizer.step()


# ---------------------------------------------------------------- inputs_constant


def words_that_are_all_unknown() -> None:
    table, head = nn.Embedding(5, 4, rng=RNG), nn.Linear(4, CLASSES, rng=RNG)
    optimizer = optim.SGD([*table.parameters(), *head.parameters()], lr=0.05)
    for _ in ns.steps(range(12)):
        words = ns.tensor(np.zeros((N, 3), int), name="words")  # hit: inputs_constant
        labels = RNG.integers(0, CLASSES, N)
        optimizer.minimize(nn.cross_entropy(head(np.mean(table(words), axis=1)), labels))


# ---------------------------------------------------------------- labels_constant


def shares_cut_to_zero() -> None:
    model, optimizer = scores()
    labels = (np.abs(TARGETS) / 100).astype(int)
    for _ in ns.steps(range(12)):
        told = model(ns.tensor(X))
        optimizer.minimize(nn.cross_entropy(told, labels))  # hit: labels_constant


# ---------------------------------------------------------------- label_in_inputs


def a_column_with_the_answer() -> None:
    weight = ns.parameter(np.zeros((FEATURES + 1, CLASSES), "f"), name="weight")
    optimizer = optim.SGD([weight], lr=0.05)
    table = np.concatenate([X, LABELS[:, None]], axis=1)
    for _ in ns.steps(range(8)):
        told = ns.tensor(table) @ weight  # hit: label_in_inputs
        optimizer.minimize(nn.cross_entropy(told, LABELS))


# ---------------------------------------------------------------- picks_all_pairs


def columns_picked_in_all_rows() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        told = nn.softmax(model(ns.tensor(X)), axis=1)
        picked = told[:, LABELS]  # hit: picks_all_pairs
        optimizer.minimize(-np.mean(np.log(picked)))


# ---------------------------------------------------------------- error_of_means


def the_square_of_the_mean() -> None:
    model, optimizer = scores(1)
    for _ in ns.steps(range(3)):
        apart = model(ns.tensor(X)) - TARGETS[:, None]
        optimizer.minimize(np.mean(apart) ** 2)  # hit: error_of_means


# ---------------------------------------------------------------- no_gradient_path


def cleared_before_the_step() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(4)):
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()  # hit: no_gradient_path
        optimizer.zero_grad()
        optimizer.step()


def an_inner_step_by_numpy() -> None:
    start = ns.parameter(np.ones(FEATURES), name="start")
    outer = optim.SGD([start], lr=0.1)

    def error(weights: ns.Tensor) -> ns.Tensor:
        return np.mean((ns.tensor(X) @ weights - TARGETS) ** 2)

    for _ in ns.steps(range(4)):
        slope = ns.grad(error)(start)
        moved = start.numpy() - 0.1 * slope.numpy()
        fast = ns.tensor(moved, requires_grad=True)  # hit: no_gradient_path
        outer.minimize(error(fast))
