"""Networks as static graphs: the same numbers as eagerly, random draws and statistics included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim

F = nn.functional
RNG = np.random.default_rng


def cnn() -> Any:
    rng = RNG(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, rng=rng, padding="same"), nn.BatchNorm2d(4), nn.relu, nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, rng=rng, stride=2, groups=2), nn.GroupNorm(2, 4), F.gelu,
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.3, rng=1), nn.Linear(16, 3, rng=rng),
    )  # fmt: skip


class Words(nn.Module):
    """Embedding, a transformer block and a recurrent layer."""

    def __init__(self) -> None:
        rng = RNG(0)
        self.table = nn.Embedding(7, 8, rng=rng)
        self.block = nn.TransformerBlock(8, 2, rng=rng, dropout=0.1, causal=True)
        self.memory = nn.LSTM(8, 5, rng=rng)
        self.head = nn.Linear(5, 3, rng=rng)

    def forward(self, x: Any) -> Any:
        out, _ = self.memory(self.block(self.table(x)), lengths=[4, 2, 3])
        return self.head(out[:, -1])


IMAGES = RNG(1).standard_normal((3, 1, 8, 8)).astype(np.float32)
TOKENS = RNG(1).integers(0, 7, (3, 4))
LABELS = np.array([0, 2, 1])


def trained(make: Callable[[], Any], data: Any, compiled: bool) -> tuple[list[float], Any]:
    net = make()
    descent = optim.SGD(net, lr=0.1)

    def step(x: Any, labels: Any) -> Any:
        descent.zero_grad()
        loss = F.cross_entropy(net(x), labels, label_smoothing=0.1)
        loss.backward()
        descent.step()
        return loss

    run = ns.compile(step) if compiled else step
    return [float(run(ns.tensor(data), ns.tensor(LABELS))) for _ in range(3)], net.state_dict()


@pytest.mark.parametrize(("make", "data"), [(cnn, IMAGES), (Words, TOKENS)])
def test_training_is_the_same_compiled(make: Any, data: Any) -> None:
    losses, state = trained(make, data, compiled=False)
    result, other = trained(make, data, compiled=True)
    np.testing.assert_allclose(result, losses, rtol=1e-6)
    for name in state:
        np.testing.assert_allclose(other[name], state[name], rtol=1e-5, atol=1e-6, err_msg=name)
