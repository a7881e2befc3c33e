"""Batches and masks that look wrong but are intended; see `right`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, WORDS, X, mlp, scores

RNG = np.random.default_rng(34)
N = len(X)
SIZE = 4


def windows_that_slide() -> None:
    """Each begins one row after the one before, as over a series."""
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    for first in ns.steps(range(N - SIZE)):
        x, y = ns.tensor(X[first : first + SIZE]), TARGETS[first : first + SIZE, None]
        optimizer.minimize(nn.mse(model(x), y))


def batches_one_after_the_other() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in range(3):
        for number in ns.steps(range(N // SIZE)):
            begin = number * SIZE
            x = ns.tensor(X[begin : begin + SIZE])
            optimizer.minimize(nn.mse(model(x), TARGETS[begin : begin + SIZE, None]))


def all_rows_in_each_step() -> None:
    model, optimizer = scores()
    few = np.random.default_rng(2).permutation(N)[:12]
    for _ in ns.steps(range(24)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X[few])), ns.tensor(LABELS[few])))


def all_rows_and_drawn_noise() -> None:
    """The data stay, and what is drawn varies."""
    model, optimizer = scores()
    for _ in ns.steps(range(24)):
        x = ns.tensor(X) + ns.tensor(RNG.normal(0, 0.1, X.shape).astype("f"))
        optimizer.minimize(nn.cross_entropy(model(x), LABELS))


def _sequences(steps: int) -> Iterator[Any]:
    """Words, filled with 0 to a common length, and where they are."""
    for _ in range(steps):
        there = np.arange(6) < RNG.integers(2, 6, 10)[:, None]
        there[0], there[1] = np.arange(6) < 2, np.arange(6) < 5
        yield np.where(there, RNG.integers(1, WORDS, (10, 6)), 0), there


def words_are_attended_to() -> None:
    table, key, out = (
        nn.Embedding(WORDS, 8, rng=RNG),
        nn.Linear(8, 1, rng=RNG),
        nn.Linear(8, 2, rng=RNG),
    )
    weights = [p for part in (table, key, out) for p in part.parameters()]
    optimizer = optim.Adam(weights, lr=0.01)
    for words, there in ns.steps(_sequences(14)):
        h = table(ns.tensor(words))
        kept = np.where(there, key(h)[:, :, 0], -1e9)
        mean = np.sum(nn.softmax(kept, axis=1)[:, :, None] * h, axis=1)
        optimizer.minimize(nn.cross_entropy(out(mean), (words == 3).any(axis=1).astype(int)))


def hidden_words_are_counted() -> None:
    """What is hidden holds one token; what it was varies."""
    table, out = nn.Embedding(WORDS + 1, 8, rng=RNG), nn.Linear(8, WORDS, rng=RNG)
    optimizer = optim.Adam([*table.parameters(), *out.parameters()], lr=0.01)
    for words, there in ns.steps(_sequences(14)):
        log_p = nn.log_softmax(out(table(ns.tensor(np.where(there, words, WORDS)))), axis=2)
        right = RNG.integers(0, WORDS, words.shape)
        told = np.take_along_axis(log_p, ns.tensor(right)[:, :, None], axis=2)[:, :, 0]
        optimizer.minimize(-np.sum(told * ns.tensor((~there).astype("f"))) / (~there).sum())
