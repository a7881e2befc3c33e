"""Data and models of the programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim

CLASSES = 3
_rng = np.random.default_rng(7)
X = _rng.standard_normal((24, 6)).astype(np.float32)
TARGETS = X.sum(1) * np.float32(0.5)
LABELS = _rng.integers(0, CLASSES, len(X))
ROWS, LENGTH, WORDS, SIZE = 10, 5, 7, 6
SEQUENCES = np.random.default_rng(11).standard_normal((8, SIZE, 4)).astype(np.float32)


def mlp(outputs: int, hidden: int = 8) -> nn.Sequential:
    rng = np.random.default_rng(3)
    return nn.Sequential(
        nn.Linear(X.shape[1], hidden, rng=rng), np.tanh, nn.Linear(hidden, outputs, rng=rng)
    )


def tokens(number: int, length: int = LENGTH) -> Any:
    """Rows of words by their numbers: int of shape (ROWS, length)."""
    return np.random.default_rng(number).integers(0, WORDS, (ROWS, length))


def scores(outputs: int = CLASSES) -> tuple[nn.Sequential, optim.Optimizer]:
    """A classifier and its optimizer."""
    model = mlp(outputs)
    return model, optim.SGD(model, lr=0.05)


def with_batch_norm(steps: int = 6) -> nn.Sequential:
    """A classifier with batch norm, trained on X."""
    rng = np.random.default_rng(3)
    model = nn.Sequential(
        nn.Linear(X.shape[1], 8, rng=rng),
        nn.BatchNorm1d(8),
        np.tanh,
        nn.Linear(8, CLASSES, rng=rng),
    )
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(steps)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()
    return model


class Attention(nn.Module):
    """One head over `SEQUENCES`; ``mask`` makes the weights of the scores."""

    def __init__(self, mask: Callable[[Any], Any]) -> None:
        rng = np.random.default_rng(3)
        self.query, self.key = nn.Linear(4, 4, rng=rng), nn.Linear(4, 4, rng=rng)
        self.mask = mask

    def forward(self, x: Any) -> Any:
        scores = self.query(x) @ self.key(x).transpose(0, 2, 1)
        return self.mask(scores) @ x


def train_attention(mask: Callable[[Any], Any], steps: int = 5) -> None:
    """Each position is to give the mean of all up to it."""
    means = np.cumsum(SEQUENCES, axis=1) / np.arange(1, SIZE + 1)[:, None]
    model = Attention(mask)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(steps)):
        optimizer.minimize(nn.mse(model(ns.tensor(SEQUENCES)), means.astype("f")))
