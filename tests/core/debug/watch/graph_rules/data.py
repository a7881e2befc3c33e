"""Data and models of the programs."""

from __future__ import annotations

import numpy as np

from nodescope import nn, optim

CLASSES = 3
_rng = np.random.default_rng(7)
X = _rng.standard_normal((24, 6)).astype(np.float32)
TARGETS = X.sum(1) * np.float32(0.5)
LABELS = _rng.integers(0, CLASSES, len(X))


def mlp(outputs: int, hidden: int = 8) -> nn.Sequential:
    rng = np.random.default_rng(3)
    return nn.Sequential(
        nn.Linear(X.shape[1], hidden, rng=rng), np.tanh, nn.Linear(hidden, outputs, rng=rng)
    )


def scores(outputs: int = CLASSES) -> tuple[nn.Sequential, optim.Optimizer]:
    """A classifier and its optimizer."""
    model = mlp(outputs)
    return model, optim.SGD(model, lr=0.05)
