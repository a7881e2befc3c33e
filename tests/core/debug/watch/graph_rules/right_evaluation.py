"""Training and evaluation that look alike, or are mixed on purpose; see `right`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, scores

RNG = np.random.default_rng(53)
N, FEATURES = X.shape
CLASSES = int(LABELS.max()) + 1
FAR = (X * 5 + 30).astype("f")


class _Normed(nn.Module):
    def __init__(self) -> None:
        self.norm, self.drop = nn.BatchNorm1d(FEATURES), nn.Dropout(0.2, rng=2)
        self.out = nn.Linear(FEATURES, CLASSES, rng=RNG)

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        return self.out(self.drop(self.norm(x)))


def a_norm_frozen_with_its_statistics() -> None:
    """Fine-tuning: the statistics are those of the data, collected before."""
    model = _Normed()
    with ns.no_grad():
        for _ in range(60):
            model(ns.tensor(FAR))
    optimizer = optim.SGD(model, lr=0.01)
    for _ in ns.steps(range(14)):
        model.norm.eval()
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(FAR)), LABELS))


def a_norm_frozen_towards_the_end() -> None:
    model = _Normed()
    optimizer = optim.SGD(model, lr=0.01)
    for step in ns.steps(range(60)):
        if step == 40:
            model.norm.eval()
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(FAR)), LABELS))


def inputs_that_are_standardised_already() -> None:
    """A norm that was never in training mode, and hardly changes its input."""
    model = _Normed().eval()
    optimizer = optim.SGD(model, lr=0.01)
    x = ((X - X.mean(axis=0)) / X.std(axis=0)).astype("f")
    for _ in ns.steps(range(14)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(x)), LABELS))


def validation_by_turns() -> None:
    model = _Normed()
    optimizer = optim.SGD(model, lr=0.01)
    for _ in range(6):
        model.train()
        for _ in ns.steps(range(4)):
            optimizer.minimize(nn.cross_entropy(model(ns.tensor(FAR)), LABELS))
        model.eval()
        with ns.no_grad(), ns.name_scope("validation"):
            model(ns.tensor(FAR)).numpy()


def dropout_that_ends_on_purpose() -> None:
    """The last part is trained without dropout, by setting its rate to 0."""
    model = _Normed()
    optimizer = optim.SGD(model, lr=0.01)
    for epoch in range(6):
        model.train()
        model.drop.p = 0.2 if epoch < 2 else 0.0
        for _ in ns.steps(range(4)):
            optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
        model.eval()
        with ns.no_grad(), ns.name_scope("validation"):
            model(ns.tensor(X)).numpy()


def predictions_that_are_scaled_back() -> None:
    model, optimizer = scores(1)
    prices = 2e5 + 4e4 * TARGETS[:, None]
    mean, std = prices.mean(), prices.std()
    scaled = ((prices - mean) / std).astype("f")
    for _ in ns.steps(range(12)):
        optimizer.minimize(nn.mse(model(ns.tensor(X)), ns.tensor(scaled)))
    with ns.no_grad(), ns.name_scope("evaluation"):
        guess = model(ns.tensor(X)) * std + mean
        np.mean(np.abs(guess - ns.tensor(prices))).numpy()


def targets_beyond_those_of_training() -> None:
    """Extrapolation: the same unit, three times as large."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(12)):
        optimizer.minimize(nn.mse(model(ns.tensor(X)), ns.tensor(TARGETS[:, None])))
    with ns.no_grad(), ns.name_scope("evaluation"):
        np.mean(np.abs(model(ns.tensor(3 * X)) - ns.tensor(3 * TARGETS[:, None]))).numpy()


def two_losses_with_optimizers_of_their_own() -> None:
    """One network, two tasks, two optimizers, whose steps differ but are not opposed."""
    body, first, second = (nn.Linear(FEATURES, 4, rng=RNG), nn.Linear(4, 1, rng=RNG),
                           nn.Linear(4, CLASSES, rng=RNG))  # fmt: skip
    one = optim.Adam([*body.parameters(), *first.parameters()], lr=0.01)
    two = optim.Adam([*body.parameters(), *second.parameters()], lr=0.01)
    for _ in ns.steps(range(30)):
        one.zero_grad()
        nn.mse(first(np.tanh(body(ns.tensor(X)))), TARGETS[:, None]).backward()
        one.step()
        two.zero_grad()
        nn.cross_entropy(second(np.tanh(body(ns.tensor(X)))), LABELS).backward()
        two.step()


def two_players_with_weights_of_their_own() -> None:
    forger, judge = nn.Linear(2, 1, rng=RNG), nn.Linear(1, 1, rng=RNG)
    own, other = optim.Adam(forger, lr=0.01), optim.Adam(judge, lr=0.01)
    for _ in ns.steps(range(30)):
        noise = ns.tensor(RNG.normal(0, 1, (32, 2)).astype("f"))
        real = ns.tensor(RNG.normal(3, 1, (32, 1)).astype("f"))
        loss = np.mean(np.logaddexp(judge(forger(noise)), 0))
        other.zero_grad()
        (loss + np.mean(np.logaddexp(-judge(real), 0))).backward()
        other.step()
        own.zero_grad()
        np.mean(np.logaddexp(-judge(forger(noise)), 0)).backward()
        own.step()


def the_best_weights_as_copies() -> None:
    model, optimizer = scores()
    best = {name: parameter.numpy().copy() for name, parameter in model.named_parameters()}
    for _ in ns.steps(range(3)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
    for name, parameter in model.named_parameters():
        ns.assign(parameter, best[name])


def a_frozen_body_that_is_good_enough() -> None:
    """The optimizer holds all parameters, as usual; the frozen part was trained earlier."""
    body = nn.Linear(FEATURES, FEATURES, rng=np.random.default_rng(3))
    head = nn.Linear(FEATURES, 1, rng=np.random.default_rng(4))
    optimizer = optim.Adam([*body.parameters(), *head.parameters()], lr=0.05)
    wanted = (X @ RNG.normal(0, 1, (FEATURES, 1))).astype("f")
    for _ in ns.steps(range(40)):
        with ns.no_grad():
            hidden = body(ns.tensor(X))
        optimizer.minimize(nn.mse(head(hidden), wanted))


def logarithms_of_a_softmax() -> None:
    """Nearly certain predictions: some logarithms are 0, or rounded to slightly more."""
    model, optimizer = scores()
    for _ in ns.steps(range(8)):
        told = ns.log_softmax(100 * model(ns.tensor(X)), axis=1)
        optimizer.minimize(nn.nll_loss(told, LABELS))
