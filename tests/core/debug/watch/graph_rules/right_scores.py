"""Correct masks, candidates and layers that look wrong; see `right`."""

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
    X,
    mlp,
    train_attention,
)
from tests.core.debug.watch.graph_rules.wrong_scores import (
    FEATURES,
    Dropping,
    Halved,
    N,
    Normed,
    Stack,
)

RNG = np.random.default_rng(24)
PAST = np.tril(np.ones((SIZE, SIZE), "f"))


def a_mask_that_excludes() -> None:
    def mask(scores: Any) -> Any:
        return nn.softmax(scores * PAST - 1e9 * (1 - PAST), axis=-1)

    train_attention(mask)


def a_mask_on_the_weights_as_well() -> None:
    def mask(scores: Any) -> Any:
        weights = nn.softmax(scores * PAST, axis=-1) * PAST
        return weights / np.sum(weights, axis=-1, keepdims=True)

    train_attention(mask)


def rows_masked_as_a_whole() -> None:
    """Queries that are padding: their results are not used."""
    asks = (np.arange(SIZE) < RNG.integers(2, SIZE, (len(SEQUENCES), 1)))[:, :, None]

    def mask(scores: Any) -> Any:
        return nn.softmax(scores * asks.astype("f"), axis=-1)

    train_attention(mask)


def scores_that_are_gated() -> None:
    """The gate is learned; zeros in it are not a mask."""

    def mask(scores: Any) -> Any:
        return nn.softmax(scores * (scores > 0), axis=-1)

    train_attention(mask)


def scores_weighed_by_distance() -> None:
    near = np.maximum(0, 2 - abs(np.arange(SIZE) - np.arange(SIZE)[:, None])).astype("f")

    def mask(scores: Any) -> Any:
        return nn.softmax(scores * near, axis=-1)

    train_attention(mask)


def pairs_without_themselves() -> None:
    model = mlp(4)
    optimizer = optim.SGD(model, lr=0.05)
    partner = np.concatenate([np.arange(N, 2 * N), np.arange(N)])
    for _ in ns.steps(range(5)):
        views = [X + 0.1 * RNG.standard_normal(X.shape).astype("f") for _ in range(2)]
        z = model(ns.tensor(np.concatenate(views)))
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        alike = 5 * z @ z.T - 1e9 * np.eye(2 * N, dtype="f")
        optimizer.minimize(nn.cross_entropy(alike, partner))


def a_loss_of_the_last_exit_alone() -> None:
    """Each layer has an exit; the earlier ones serve only predictions under time pressure."""
    layers = [nn.Linear(FEATURES, FEATURES, rng=RNG) for _ in range(3)]
    exits = [nn.Linear(FEATURES, CLASSES, rng=RNG) for _ in range(3)]
    parameters = [p for layer in (*layers, *exits) for p in layer.parameters()]
    optimizer = optim.SGD(parameters, lr=0.05)
    for step in ns.steps(range(4)):
        h = ns.tensor(X)
        for layer, leave in zip(layers, exits, strict=True):
            h = np.tanh(layer(h))
            out = leave(h)
            if step == 3:
                print(float(out.numpy().mean()))
        optimizer.minimize(nn.cross_entropy(out, LABELS))


def layers_in_a_row() -> None:
    class Row(Stack):
        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = np.tanh(layer(x))
            return self.head(x)

    model = Row()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(2)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))


def _trained(model: nn.Module) -> None:
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(8)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))


def two_rows_with_running_statistics() -> None:
    model = Normed()
    _trained(model)
    model.eval()
    with ns.no_grad():
        assert model(ns.tensor(X[:2])).shape == (2, CLASSES)


def all_rows_in_training_mode() -> None:
    """The batch is like those of training: as many rows, of the same kind."""
    model = Normed()
    _trained(model)
    with ns.no_grad():
        assert model(ns.tensor(X)).shape == (N, CLASSES)


def many_predictions_of_a_model_of_its_own() -> None:
    """Their spread estimates the model's uncertainty."""
    model = Dropping()
    _trained(model)
    with ns.no_grad():
        rows = ns.tensor(X)
        drawn = [model(rows).numpy() for _ in range(4)]
    assert np.std(drawn, axis=0).max() > 0


def noise_that_is_new_each_time() -> None:
    """The labels are a plain array passed to the loss."""
    model = mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(12)):
        rows = RNG.permutation(N)
        x = ns.tensor(X[rows] + 0.4 * RNG.standard_normal(X.shape).astype("f"), name="x")
        optimizer.minimize(nn.cross_entropy(model(x), LABELS[rows]))


def heat_with_a_short_step() -> None:
    grid = np.linspace(0, 1, 16)
    for _ in ns.steps(range(6)):
        u = ns.tensor(np.sin(np.pi * grid) + 0.01 * RNG.standard_normal(16), name="u")
        for _ in range(14):
            bend = np.roll(u, 1) + np.roll(u, -1) - 2 * u
            u = u + 0.2 * bend


def an_alternating_series() -> None:
    """Its terms grow at first."""
    x = np.linspace(8, 9, 4)
    for _ in ns.steps(range(6)):
        term = ns.tensor(np.ones(4))
        total = term
        for number in range(1, 26):
            term = term * (-x / number)
            total = total + term


def a_sum_that_grows() -> None:
    for _ in ns.steps(range(6)):
        last, now = ns.tensor(np.ones(3)), ns.tensor(np.ones(3))
        for _ in range(20):
            last, now = now, last + now


def a_swing_that_calms_down() -> None:
    for _ in ns.steps(range(6)):
        place = ns.tensor(RNG.standard_normal(4) + 3.0)
        for _ in range(12):
            slope = 2 * place
            place = place - 0.9 * slope


def scores_far_apart() -> None:
    """Raw measurements: scores are hundreds apart at first. Each row has its own prior."""
    model = nn.Linear(X.shape[1], CLASSES, rng=np.random.default_rng(3))
    optimizer = optim.SGD(model, lr=1e-5)
    priors = np.log(np.random.default_rng(9).dirichlet(np.ones(CLASSES), len(X))).astype("f")
    for _ in ns.steps(range(14)):
        scores = model(ns.tensor(500 * X)) + ns.tensor(priors)
        loss = nn.cross_entropy(scores, LABELS)
        optimizer.minimize(loss)


class _Scaled(Halved):
    """Each written tensor has one name, or a second name that was rebound before it is read."""

    def forward(self, x: Any) -> Any:
        shortcut = x
        x = self.first(x)
        x *= 0.5
        shortcut = x
        y = nn.relu(x)
        y += shortcut
        return self.last(y + x)


class _Copied(Halved):
    def forward(self, x: Any) -> Any:
        x = self.first(x)
        shortcut = x.copy()
        x *= 0.5
        return self.last(shortcut + nn.relu(x))


class _Renamed(Halved):
    """The old name is rebound before it is read."""

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        y = x
        y *= 0.5
        x = nn.relu(y)
        return self.last(x + y)


def writes_that_are_meant() -> None:
    for model in (_Scaled(), _Copied(), _Renamed()):
        optimizer = optim.SGD(model, lr=0.05)
        for _ in ns.steps(range(2)):
            optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
