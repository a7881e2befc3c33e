"""Faulty programs; the faulty line names the rule that must report it: ``# hit: RULE``."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, mlp, scores

# ---------------------------------------------------------------- broadcast_in_loss


def predictions_are_a_column() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        difference = model(ns.tensor(X)) - ns.tensor(TARGETS)  # hit: broadcast_in_loss
        np.mean(difference**2).backward()
        optimizer.step()


def targets_are_a_column() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        predictions = model(ns.tensor(X)).reshape(-1)
        loss = nn.l1_loss(predictions, ns.tensor(TARGETS[:, None]))  # hit: broadcast_in_loss
        loss.backward()
        optimizer.step()


def mse_of_a_column() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        nn.mse_loss(model(ns.tensor(X)), TARGETS).backward()  # hit: broadcast_in_loss
        optimizer.step()


def advantages_are_a_row() -> None:
    """A policy gradient: the logarithms are a column, the advantages a row."""
    model = mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        logs = nn.log_softmax(model(ns.tensor(X)), axis=1)
        chosen = np.take_along_axis(logs, ns.tensor(LABELS[:, None]), axis=1)
        loss = -np.mean(chosen * ns.tensor(TARGETS))  # hit: broadcast_in_loss
        loss.backward()
        optimizer.step()


# ---------------------------------------------------------------- softmax_twice


def _classifier(loss_of: Any, outputs: int = CLASSES) -> None:
    model = mlp(outputs)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        loss_of(model(ns.tensor(X))).backward()
        optimizer.step()


def softmax_before_cross_entropy() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        probabilities = nn.softmax(model(ns.tensor(X)), axis=1)
        nn.cross_entropy(probabilities, LABELS).backward()  # hit: softmax_twice
        optimizer.step()


def softmax_by_hand_before_cross_entropy() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        powers = np.exp(model(ns.tensor(X)))
        probabilities = powers / np.sum(powers, axis=1, keepdims=True)
        loss = nn.cross_entropy(probabilities.reshape(-1, CLASSES), LABELS)  # hit: softmax_twice
        loss.backward()
        optimizer.step()


def nll_of_probabilities() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        probabilities = nn.softmax(model(ns.tensor(X)), axis=1)
        nn.nll_loss(probabilities, LABELS).backward()  # hit: softmax_twice
        optimizer.step()


def log_softmax_of_softmax() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        probabilities = nn.softmax(model(ns.tensor(X)), axis=1)
        logs = nn.log_softmax(probabilities, axis=1)  # hit: softmax_twice
        nn.nll_loss(logs, LABELS).backward()
        optimizer.step()


def sigmoid_before_bce_with_logits() -> None:
    model, optimizer = scores(1)
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        p = nn.sigmoid(model(ns.tensor(X)))
        target = (TARGETS > 0).astype("f")[:, None]
        nn.binary_cross_entropy_with_logits(p, target).backward()  # hit: softmax_twice
        optimizer.step()


def sigmoid_by_hand_before_bce_with_logits() -> None:
    model, optimizer = scores(1)
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        p = 1 / (1 + np.exp(-model(ns.tensor(X))))
        target = (TARGETS > 0).astype("f")[:, None]
        nn.binary_cross_entropy_with_logits(p, target).backward()  # hit: softmax_twice
        optimizer.step()


# ---------------------------------------------------------------- gradient_not_zeroed


def gradients_are_never_zeroed() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(4)):
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()  # hit: gradient_not_zeroed
        optimizer.step()


def gradients_are_never_zeroed_without_steps() -> None:
    model, optimizer = scores()
    for _ in range(5):
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()  # hit: gradient_not_zeroed
        optimizer.step()


def gradients_are_zeroed_between_backward_and_update_of_another() -> None:
    """The optimizer of the second model never has its gradients zeroed."""
    first, optimizer = scores()
    second, other = scores()
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(first(ns.tensor(X)), LABELS).backward()
        optimizer.step()
        nn.cross_entropy(second(ns.tensor(X)), LABELS).backward()  # hit: gradient_not_zeroed
        other.step()


def clipped_gradients_are_never_zeroed() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(5)):
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()  # hit: gradient_not_zeroed
        optim.clip_grad_norm(model, 1.0)
        optimizer.step()


def updates_by_hand_without_zeroing() -> None:
    weight = ns.parameter(np.ones((X.shape[1], 1), "f"), name="weight")
    for _ in ns.steps(range(5)):
        difference = ns.tensor(X) @ weight - ns.tensor(TARGETS[:, None])
        np.mean(difference**2).backward()  # hit: gradient_not_zeroed
        with ns.no_grad():
            ns.assign(weight, weight - 0.05 * weight.grad)


# ---------------------------------------------------------------- mean_divided_again


def mean_over_the_batch_over_its_size() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(ns.tensor(X)), LABELS) / len(X)  # hit: mean_divided_again
        loss.backward()
        optimizer.step()


def mean_by_hand_over_the_size() -> None:
    weight = ns.parameter(np.ones((X.shape[1], 1), "f"), name="weight")
    for _ in ns.steps(range(2)):
        difference = ns.tensor(X) @ weight - ns.tensor(TARGETS[:, None])
        loss = (1 / len(X)) * np.mean(difference**2)  # hit: mean_divided_again
        loss.backward()
        with ns.no_grad():
            ns.assign(weight, weight - 0.05 * weight.grad)
        weight.grad = None


def update_by_hand_divides_again() -> None:
    """Linear regression whose gradient is written by hand."""
    weight = ns.tensor(np.zeros(X.shape[1], "f"))
    x, y = ns.tensor(X), ns.tensor(TARGETS)
    for _ in ns.steps(range(4)):
        difference = x @ weight - y
        slope = 2 * np.mean(x * difference[:, None], axis=0) / len(X)  # hit: mean_divided_again
        weight = weight - 0.1 * slope
