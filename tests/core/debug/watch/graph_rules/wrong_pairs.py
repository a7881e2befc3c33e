"""Faulty losses of pairs, masks that exclude targets, and states that diverge; see `wrong`."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import (
    CLASSES,
    LABELS,
    LENGTH,
    WORDS,
    X,
    mlp,
    tokens,
)

SIZE = 6
N = len(X)


def _unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _contrast(spread: Any, steps: int = 3) -> None:
    """Two encoders; ``spread`` makes scores of cosines."""
    first, second = mlp(4), mlp(4)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in ns.steps(range(steps)):
        cosines = _unit(first(ns.tensor(X))) @ _unit(second(ns.tensor(X[::-1].copy()))).T
        optimizer.minimize(nn.cross_entropy(spread(cosines), np.arange(N)))


def _pairs(lose: Any, steps: int = 3) -> None:
    """Word vectors; ``lose`` makes the loss of the scores of true and of false pairs."""
    rng = np.random.default_rng(3)
    inner, outer = nn.Embedding(WORDS, SIZE, rng=rng), nn.Embedding(WORDS, SIZE, rng=rng)
    optimizer = optim.SGD([*inner.parameters(), *outer.parameters()], lr=0.05)
    for step in ns.steps(range(steps)):
        centre, near, far = (tokens(3 * step + part)[:, 0] for part in range(3))
        codes = inner(centre)
        true, false = (np.sum(codes * outer(other), axis=1) for other in (near, far))
        optimizer.minimize(lose(true, false))


class Writer(nn.Module):
    """Attention over tokens; ``visible`` says which positions each one sees, or is None."""

    def __init__(self, visible: Any) -> None:
        rng = np.random.default_rng(3)
        self.tokens = nn.Embedding(WORDS, SIZE, rng=rng)
        self.query, self.key = nn.Linear(SIZE, SIZE, rng=rng), nn.Linear(SIZE, SIZE, rng=rng)
        self.output = nn.Linear(SIZE, WORDS, rng=rng)
        self.mask = visible

    def forward(self, text: Any) -> Any:
        x = self.tokens(text)
        weights = nn.softmax(self.mask(self.query(x) @ self.key(x).transpose(0, 2, 1)), axis=-1)
        return self.output(weights @ x)


def _write_on(mask: Any, lose: Any = nn.cross_entropy, ahead: int = 1, steps: int = 8) -> None:
    """Each position is to tell the token that is so many places on."""
    model = Writer(mask)
    optimizer = optim.SGD(model, lr=0.05)
    for step in ns.steps(range(steps)):
        text = tokens(step, LENGTH + 2)
        read, told = text[:, :LENGTH], text[:, ahead : LENGTH + ahead]
        scores = model(ns.tensor(read))
        optimizer.minimize(lose(scores.reshape(-1, WORDS), told.ravel()))


def _rank(keep: Any, steps: int = 12) -> None:
    """Lists of different lengths; ``keep`` masks the scores, given what is there."""
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    there = np.arange(4) < np.array([1, 2, 3, 2, 4, 1])[:, None]
    wanted = there / there.sum(axis=1, keepdims=True, dtype="f")
    for _ in ns.steps(range(steps)):
        scores = keep(there, model(ns.tensor(X)).reshape(6, 4))
        logs = nn.log_softmax(scores, axis=1)
        told = wanted * logs  # hit: targets_masked in a_mask_of_what_is_there
        optimizer.minimize(-np.mean(np.sum(told, axis=1)))


def _filter_states(sign: float, steps: int = 45) -> None:
    """A Kalman filter of one number, whose variance is to shrink."""
    spread = ns.tensor(np.eye(2) * 2.0)
    for _ in ns.steps(range(steps)):
        total = spread + np.eye(2)
        inverse = np.linalg.inv(total)  # hit: state_runs_away in a_variance_that_is_added_to
        gain = spread @ inverse
        spread = (np.eye(2) + sign * gain) @ spread + 0.1 * np.eye(2)


def _diffuse(pause: float, steps: int = 40) -> None:
    heat = ns.tensor(np.random.default_rng(3).random(16))
    with np.errstate(all="ignore"):
        for _ in ns.steps(range(steps)):
            flow = np.roll(heat, 1) + np.roll(heat, -1) - 2 * heat
            growth = flow + heat * heat * flow
            heat = heat + pause * growth  # hit: state_runs_away in a_step_that_is_too_long


# ---------------------------------------------------------------- programs


def a_temperature_that_is_multiplied() -> None:
    _contrast(lambda cosines: cosines * 0.1)  # hit: logits_bounded


def an_activation_behind_the_scores() -> None:
    model = mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        scores = np.tanh(model(ns.tensor(X)))  # hit: logits_bounded
        optimizer.minimize(nn.cross_entropy(scores, LABELS))


def a_sign_that_is_missing() -> None:
    def lose(true: Any, false: Any) -> Any:
        return -np.mean(nn.logsigmoid(true)) - np.mean(nn.logsigmoid(false))  # hit: pushed_one_way

    _pairs(lose)


def a_mask_one_diagonal_too_late() -> None:
    past = np.tril(np.ones((LENGTH, LENGTH), bool), 1)

    def lose(scores: Any, told: Any) -> Any:
        return nn.cross_entropy(scores, told)  # hit: attention_looks_ahead

    _write_on(lambda scores: np.where(past, scores, np.float32(-1e9)), lose)


def no_mask_at_all() -> None:
    def lose(scores: Any, told: Any) -> Any:
        return nn.cross_entropy(scores, told)  # hit: attention_looks_ahead

    _write_on(lambda scores: scores, lose)


def a_mask_of_what_is_there() -> None:
    _rank(lambda there, scores: np.where(there, np.float32(-1e4), scores))


def a_variance_that_is_added_to() -> None:
    _filter_states(1.0)


def a_step_that_is_too_long() -> None:
    _diffuse(0.8)


def weights_of_a_mixture_over_the_rows() -> None:
    model = mlp(2 * CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        raw = model(ns.tensor(X))
        shares = nn.log_softmax(raw[:, :CLASSES], axis=0)  # hit: classes_over_batch
        parts = shares - 0.5 * (X[:, :1] - raw[:, CLASSES:]) ** 2
        optimizer.minimize(-np.mean(nn.logsumexp(parts, axis=1)))


def a_teacher_softened_twice() -> None:
    teacher, model = mlp(CLASSES), mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        opinion = nn.softmax(teacher(ns.tensor(X)), axis=1)
        wanted = nn.softmax(opinion / 2.0, axis=1).detach()  # hit: softmax_twice
        logs = nn.log_softmax(model(ns.tensor(X)), axis=1)
        optimizer.minimize(-np.mean(np.sum(wanted * logs, axis=1)))


def a_judge_that_is_never_cleared() -> None:
    drawer, judge = mlp(X.shape[1]), mlp(1)
    for_drawer, for_judge = optim.SGD(drawer, lr=0.01), optim.SGD(judge, lr=0.01)
    for _ in ns.steps(range(4)):
        drawn = drawer(ns.tensor(X)).detach()
        loss = np.mean(nn.softplus(-judge(ns.tensor(X)))) + np.mean(nn.softplus(judge(drawn)))
        loss.backward()  # hit: gradient_not_zeroed
        for_judge.step()
        for_drawer.zero_grad()
        np.mean(nn.softplus(-judge(drawer(ns.tensor(X))))).backward()
        for_drawer.step()


def scores_with_a_bias_all_pushed_up() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    for step in ns.steps(range(4)):
        drawn = np.random.default_rng(step).uniform(-3, 3, X.shape).astype("f")
        true, false = model(ns.tensor(X)), model(ns.tensor(drawn))
        of_data = np.mean(nn.softplus(-true))
        of_noise = np.mean(nn.softplus(-false))  # hit: pushed_one_way
        optimizer.minimize(of_data + of_noise)


def a_mask_of_other_rows() -> None:
    model = mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    allowed = np.random.default_rng(7).random((N, CLASSES)) < 0.7
    allowed[np.arange(N), LABELS] = True
    for _ in ns.steps(range(12)):
        scores = np.where(np.roll(allowed, 1, axis=0), model(ns.tensor(X)), np.float32(-1e9))
        loss = nn.cross_entropy(scores, LABELS)  # hit: targets_masked
        optimizer.minimize(loss)
