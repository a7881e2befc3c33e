"""Masks, candidates and layers that do not do what was intended; see `wrong`."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import (
    CLASSES,
    LABELS,
    SEQUENCES,
    SIZE,
    TARGETS,
    X,
    mlp,
    scores,
    train_attention,
    with_batch_norm,
)

RNG = np.random.default_rng(23)
N, FEATURES = X.shape


# ---------------------------------------------------------------- masked_by_zero


def a_mask_that_multiplies() -> None:
    past = np.tril(np.ones((SIZE, SIZE), "f"))

    def mask(scores: Any) -> Any:
        return nn.softmax(scores * past / 2.0, axis=-1)  # hit: masked_by_zero

    train_attention(mask)


def a_mask_that_selects_zero() -> None:
    """Padding, which differs from row to row."""
    lengths = RNG.integers(2, SIZE, (len(SEQUENCES), 1, 1))
    is_there = np.arange(SIZE) < lengths

    def mask(scores: Any) -> Any:
        kept = np.where(ns.tensor(is_there), scores, 0.0)
        return nn.softmax(kept, axis=2)  # hit: masked_by_zero

    train_attention(mask)


# ---------------------------------------------------------------- self_among_candidates


def pairs_with_themselves() -> None:
    model = mlp(4)
    optimizer = optim.SGD(model, lr=0.05)
    partner = np.concatenate([np.arange(N, 2 * N), np.arange(N)])
    for _ in ns.steps(range(5)):
        views = [X + 0.1 * RNG.standard_normal(X.shape).astype("f") for _ in range(2)]
        z = model(ns.tensor(np.concatenate(views)))
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        optimizer.minimize(nn.cross_entropy(5 * z @ z.T, partner))  # hit: self_among_candidates


# ---------------------------------------------------------------- layers_overwritten


class Stack(nn.Module):
    """Layers, of which each gets what the first got."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(FEATURES, FEATURES, rng=RNG) for _ in range(3)]
        self.head = nn.Linear(FEATURES, CLASSES, rng=RNG)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            out = layer(x)  # hit: layers_overwritten in layers_side_by_side
        return self.head(out)


def layers_side_by_side() -> None:
    model = Stack()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(2)):
        with ns.no_grad():
            model(ns.tensor(X[:5]))
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))


# ---------------------------------------------------------------- alias_overwritten


class Halved(nn.Module):
    """A branch that halves what its shortcut was to keep."""

    def __init__(self) -> None:
        self.first = nn.Linear(FEATURES, 8, rng=RNG)
        self.last = nn.Linear(8, CLASSES, rng=RNG)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        shortcut = x
        x *= 0.5  # hit: alias_overwritten in a_shortcut_that_is_halved
        return self.last(shortcut + nn.relu(x))


class Doubled(Halved):
    """The other name is written to."""

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        branch = x
        branch *= 2  # hit: alias_overwritten in a_branch_that_is_no_copy
        return self.last(x + nn.relu(branch))


def _trained(model: Any) -> None:
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(2)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))


def a_shortcut_that_is_halved() -> None:
    _trained(Halved())


def a_branch_that_is_no_copy() -> None:
    _trained(Doubled())


# ---------------------------------------------------------------- training_in_evaluation


class Normed(nn.Module):
    def __init__(self) -> None:
        self.first, self.norm = nn.Linear(FEATURES, 8, rng=RNG), nn.BatchNorm1d(8)
        self.last = nn.Linear(8, CLASSES, rng=RNG)

    def forward(self, x: Any) -> Any:
        x = self.norm(self.first(x))  # hit: training_in_evaluation in two_rows_at_a_time
        return self.last(nn.relu(x))


def two_rows_at_a_time() -> None:
    model = Normed()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(6)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
    with ns.no_grad():
        for start in range(0, 8, 2):
            answers = model(ns.tensor(X[start : start + 2]))
            assert answers.shape == (2, CLASSES)


def three_rows_at_the_end() -> None:
    model = with_batch_norm()
    with ns.no_grad():
        answers = model(ns.tensor(X[:3]))  # hit: training_in_evaluation
    assert answers.shape == (3, CLASSES)


# ---------------------------------------------------------------- dropout_in_evaluation


class Dropping(nn.Module):
    def __init__(self) -> None:
        self.first, self.drop = nn.Linear(FEATURES, 16, rng=RNG), nn.Dropout(0.4, rng=RNG)
        self.last = nn.Linear(16, CLASSES, rng=RNG)

    def forward(self, x: Any) -> Any:
        x = nn.relu(self.first(x))
        x = self.drop(x)  # hit: dropout_in_evaluation in dropout_left_on
        return self.last(x)


def dropout_left_on() -> None:
    model = Dropping()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(8)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
    with ns.no_grad():
        answers = model(ns.tensor(X))
    assert answers.shape == (N, CLASSES)


# ---------------------------------------------------------------- data_overwritten, rows_change


def noise_added_to_the_data() -> None:
    """The labels are an array that the loss is given as it is."""
    model, optimizer = scores()
    data = X.copy()
    for _ in ns.steps(range(12)):
        data += 0.4 * RNG.standard_normal(X.shape).astype("f")
        x = ns.tensor(data.copy(), name="x")  # hit: data_overwritten
        optimizer.minimize(nn.cross_entropy(model(x), LABELS))


def targets_shuffled_alone() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.02)
    data = np.concatenate([X, 2 * X])
    targets = np.concatenate([TARGETS, 2 * TARGETS])[:, None]
    for _ in ns.steps(range(4)):
        x = ns.tensor(data[RNG.permutation(len(data))], name="x")  # hit: rows_change
        optimizer.minimize(nn.mse(model(x), targets[RNG.permutation(len(data))]))


# ---------------------------------------------------------------- loop_unstable


def heat_with_a_step_too_long() -> None:
    grid = np.linspace(0, 1, 16)
    for _ in ns.steps(range(6)):
        u = ns.tensor(np.sin(np.pi * grid) + 0.01 * RNG.standard_normal(16), name="u")
        for _ in range(14):
            bend = np.roll(u, 1) + np.roll(u, -1) - 2 * u
            u = np.where(grid > 0, u + 0.9 * bend, 0.0)  # hit: loop_unstable


def a_descent_with_a_rate_too_high() -> None:
    """An inner loop by hand, on a bowl of curvature 2."""
    for _ in ns.steps(range(6)):
        place = ns.tensor(RNG.standard_normal(4) + 3.0)
        for _ in range(20):
            slope = 2 * place
            place = place - 1.3 * slope  # hit: loop_unstable
