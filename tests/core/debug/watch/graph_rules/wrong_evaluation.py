"""Mixed-up training and evaluation, and opposed optimizers; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, scores

RNG = np.random.default_rng(47)
N, FEATURES = X.shape
CLASSES = int(LABELS.max()) + 1
FAR = (X * 5 + 30).astype("f")

# ---------------------------------------------------------------- evaluation_in_training


class _Normed(nn.Module):
    def __init__(self, drop: float = 0.0) -> None:
        self.norm, self.drop = nn.BatchNorm1d(FEATURES), nn.Dropout(drop, rng=2)
        self.out = nn.Linear(FEATURES, CLASSES, rng=RNG)

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        normed = self.norm(x)  # hit: evaluation_in_training in never_trained
        return self.out(self.drop(normed))


def never_trained() -> None:
    """Statistics stay as they were made, and the inputs are far from them."""
    model = _Normed().eval()
    optimizer = optim.SGD(model, lr=1e-6)
    for _ in ns.steps(range(14)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(FAR)), LABELS))


class _Late(_Normed):
    def forward(self, x: ns.Tensor) -> ns.Tensor:
        normed = self.norm(x)  # hit: evaluation_in_training in of_the_first_epoch
        return self.out(normed)


def of_the_first_epoch() -> None:
    """The first validation leaves the model in evaluation mode."""
    model = _Late()
    optimizer = optim.SGD(model, lr=1e-6)
    for epoch in range(6):
        for _ in ns.steps(range(4)):
            optimizer.minimize(nn.cross_entropy(model(ns.tensor(FAR)), LABELS))
        if epoch == 0:
            model.eval()


def dropout_of_the_first_epoch() -> None:
    draws, model = nn.Dropout(0.3, rng=1), nn.Linear(FEATURES, CLASSES, rng=RNG)
    network = nn.Sequential(draws, model)
    optimizer = optim.SGD(network, lr=0.01)
    for _ in range(5):
        for _ in ns.steps(range(4)):
            loss = nn.cross_entropy(network(ns.tensor(X)), LABELS)  # hit: evaluation_in_training
            optimizer.minimize(loss)
        network.eval()
        with ns.no_grad():
            network(ns.tensor(X)).numpy()


# ---------------------------------------------------------------- evaluation_targets


def targets_not_scaled_in_evaluation() -> None:
    model, optimizer = scores(1)
    prices = 2e5 + 4e4 * TARGETS[:, None]
    scaled = ((prices - prices.mean()) / prices.std()).astype("f")
    for _ in ns.steps(range(12)):
        optimizer.minimize(nn.mse(model(ns.tensor(X)), ns.tensor(scaled)))
    with ns.no_grad(), ns.name_scope("evaluation"):
        guess = model(ns.tensor(X))
        np.mean(np.abs(guess - ns.tensor(prices))).numpy()  # hit: evaluation_targets


# ---------------------------------------------------------------- optimizers_opposed


def a_judge_with_the_forgers_weights() -> None:
    forger, judge = nn.Linear(2, 1, rng=RNG), nn.Linear(1, 1, rng=RNG)
    own = optim.Adam(forger, lr=0.01)
    other = optim.Adam([*forger.parameters(), *judge.parameters()], lr=0.01)
    for _ in ns.steps(range(30)):
        noise = ns.tensor(RNG.normal(0, 1, (32, 2)).astype("f"))
        real = ns.tensor(RNG.normal(3, 1, (32, 1)).astype("f"))
        loss = np.mean(np.logaddexp(judge(forger(noise)), 0))
        loss = loss + np.mean(np.logaddexp(-judge(real), 0))
        other.zero_grad()
        loss.backward()
        other.step()
        own.zero_grad()
        np.mean(np.logaddexp(-judge(forger(noise)), 0)).backward()
        own.step()  # hit: optimizers_opposed


# ---------------------------------------------------------------- assigned_to_itself


def a_reference_kept_as_the_best() -> None:
    model, optimizer = scores()
    best = dict(model.named_parameters())
    for _ in ns.steps(range(3)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
    for name, parameter in model.named_parameters():
        ns.assign(parameter, best[name])  # hit: assigned_to_itself


# ---------------------------------------------------------------- used_without_gradient


def a_body_under_no_grad() -> None:
    body = nn.Linear(FEATURES, 2, rng=np.random.default_rng(3))
    head = nn.Linear(2, 1, rng=np.random.default_rng(4))
    optimizer = optim.SGD([*body.parameters(), *head.parameters()], lr=1e-4)
    for _ in ns.steps(range(34)):
        with ns.no_grad():
            hidden = body(ns.tensor(X))  # hit: used_without_gradient
        optimizer.minimize(nn.mse(head(hidden), TARGETS[:, None]))


# ---------------------------------------------------------------- log_probability_above_zero


def scores_taken_for_logarithms() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(8)):
        told = 5 + model(ns.tensor(X))
        optimizer.minimize(nn.nll_loss(told, LABELS))  # hit: log_probability_above_zero
