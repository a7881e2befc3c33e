"""Correct losses of pairs, masks and states that look wrong; see `right`."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, LENGTH, X, mlp
from tests.core.debug.watch.graph_rules.wrong_pairs import (
    _contrast,
    _diffuse,
    _filter_states,
    _pairs,
    _rank,
    _write_on,
)


def a_temperature_that_divides() -> None:
    _contrast(lambda cosines: cosines / 0.1)


def cosines_as_they_are() -> None:
    _contrast(lambda cosines: cosines)


def a_scale_that_is_learned() -> None:
    scale = ns.parameter(np.float32(0.1), name="scale")
    _contrast(lambda cosines: cosines * scale)


def pairs_of_both_kinds() -> None:
    def lose(true: Any, false: Any) -> Any:
        return -np.mean(nn.logsigmoid(true)) - np.mean(nn.logsigmoid(-false))

    _pairs(lose)


def differences_of_pairs() -> None:
    _pairs(lambda true, false: -np.mean(nn.logsigmoid(true - false)))


def a_decay_beside_pairs_of_one_kind() -> None:
    _pairs(
        lambda true, false: np.mean(nn.softplus(-true)) + np.mean(nn.softplus(-false))
        + np.mean(true * true)
    )  # fmt: skip


def a_mask_of_what_follows() -> None:
    past = np.tril(np.ones((LENGTH, LENGTH), bool))
    _write_on(lambda scores: np.where(past, scores, np.float32(-1e9)))


def the_token_after_the_next() -> None:
    """The visible token is not the one that it must predict."""
    past = np.tril(np.ones((LENGTH, LENGTH), bool), 1)
    _write_on(lambda scores: np.where(past, scores, np.float32(-1e9)), ahead=2)


def a_mask_of_what_is_not_there() -> None:
    _rank(lambda there, scores: np.where(there, scores, np.float32(-1e4)))


def a_variance_that_shrinks() -> None:
    _filter_states(-1.0)


def a_step_that_is_short() -> None:
    _diffuse(0.1)


def a_sum_that_doubles() -> None:
    """Intended compound growth of a value that is not inverted and does not overflow."""
    amount = ns.tensor(np.ones(3))
    for _ in ns.steps(range(90)):
        amount = amount + 1.0 * amount


def both_axes_in_turn() -> None:
    """Sinkhorn's balancing."""
    model = mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        logs = model(ns.tensor(X))
        for _ in range(2):
            logs = nn.log_softmax(logs, axis=0)
            logs = logs - nn.logsumexp(logs, axis=1, keepdims=True)
        optimizer.minimize(np.mean(np.sum(np.exp(logs) * X[:, :CLASSES], axis=1)))


def a_teacher_sharpened() -> None:
    teacher, model = mlp(CLASSES), mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        opinion = nn.softmax(teacher(ns.tensor(X)), axis=1)
        wanted = nn.softmax(np.log(opinion) / 0.5, axis=1).detach()
        logs = nn.log_softmax(model(ns.tensor(X)), axis=1)
        optimizer.minimize(-np.mean(np.sum(wanted * logs, axis=1)))


def a_judge_that_is_cleared_before_its_turn() -> None:
    """The generator's pass leaves gradients in the discriminator, which clears them in its turn."""
    drawer, judge = mlp(X.shape[1]), mlp(1)
    for_drawer, for_judge = optim.SGD(drawer, lr=0.01), optim.SGD(judge, lr=0.01)
    for _ in ns.steps(range(4)):
        drawn = drawer(ns.tensor(X)).detach()
        for_judge.zero_grad()
        loss = np.mean(nn.softplus(-judge(ns.tensor(X)))) + np.mean(nn.softplus(judge(drawn)))
        loss.backward()
        for_judge.step()
        for_drawer.zero_grad()
        np.mean(nn.softplus(-judge(drawer(ns.tensor(X))))).backward()
        for_drawer.step()


def data_told_from_noise() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    for step in ns.steps(range(4)):
        drawn = np.random.default_rng(step).uniform(-3, 3, X.shape).astype("f")
        true, false = model(ns.tensor(X)), model(ns.tensor(drawn))
        optimizer.minimize(np.mean(nn.softplus(-true)) + np.mean(nn.softplus(false)))


def scores_bounded_to_ten() -> None:
    model = mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        scores = 10.0 * np.tanh(model(ns.tensor(X)))
        optimizer.minimize(nn.cross_entropy(scores, LABELS))
