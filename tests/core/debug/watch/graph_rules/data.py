"""Data and models of the programs."""

from __future__ import annotations

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
