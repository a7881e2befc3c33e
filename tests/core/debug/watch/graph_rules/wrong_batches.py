"""Batches and masks that hide data from a model; see `wrong`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, WORDS, X, mlp, scores

RNG = np.random.default_rng(33)
N = len(X)
SIZE = 4

# ---------------------------------------------------------------- batches_overlap


def a_number_taken_for_a_row() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in range(2):
        for number in ns.steps(range(N // SIZE)):
            rows = slice(number, number + SIZE)
            x = ns.tensor(X[rows])  # hit: batches_overlap
            optimizer.minimize(nn.mse(model(x), ns.tensor(TARGETS[:, None])[rows]))


# ---------------------------------------------------------------- batches_repeat


def a_generator_made_anew() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(24)):
        rng = np.random.default_rng(1)
        rows = rng.integers(0, N, SIZE)
        x = ns.tensor(X[rows])  # hit: batches_repeat
        y = ns.tensor(LABELS[rows])  # hit: batches_repeat
        optimizer.minimize(nn.cross_entropy(model(x), y))


def _batches() -> Iterator[Any]:
    for first in range(0, N, SIZE):
        yield X[first : first + SIZE]


def an_iterator_made_anew() -> None:
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.02)
    for _ in ns.steps(range(24)):
        x = ns.tensor(next(iter(_batches())))  # hit: batches_repeat
        optimizer.minimize(np.mean(model(x) ** 2))


# ---------------------------------------------------------------- mask_inverted


def _sequences(steps: int) -> Iterator[Any]:
    """Words, filled with 0 to a common length, and where they are."""
    for _ in range(steps):
        there = np.arange(6) < RNG.integers(2, 6, 10)[:, None]
        there[0], there[1] = np.arange(6) < 2, np.arange(6) < 5
        yield np.where(there, RNG.integers(1, WORDS, (10, 6)), 0), there


def only_padding_is_attended_to() -> None:
    table, key, out = (
        nn.Embedding(WORDS, 8, rng=RNG),
        nn.Linear(8, 1, rng=RNG),
        nn.Linear(8, 2, rng=RNG),
    )
    weights = [p for part in (table, key, out) for p in part.parameters()]
    optimizer = optim.Adam(weights, lr=0.01)
    for words, there in ns.steps(_sequences(14)):
        h = table(ns.tensor(words))
        kept = np.where(~there, key(h)[:, :, 0], -1e9)  # hit: mask_inverted
        mean = np.sum(nn.softmax(kept, axis=1)[:, :, None] * h, axis=1)
        optimizer.minimize(nn.cross_entropy(out(mean), (words == 3).any(axis=1).astype(int)))


def only_padding_is_counted() -> None:
    table, out = nn.Embedding(WORDS, 8, rng=RNG), nn.Linear(8, 1, rng=RNG)
    optimizer = optim.Adam([*table.parameters(), *out.parameters()], lr=0.01)
    for words, there in ns.steps(_sequences(14)):
        apart = out(table(ns.tensor(words)))[:, :, 0] - 1.0
        counted = apart**2 * ns.tensor((~there).astype("f"))  # hit: mask_inverted
        optimizer.minimize(np.sum(counted) / (~there).sum())
