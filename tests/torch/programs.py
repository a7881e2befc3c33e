"""Small programs in PyTorch, trained for two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

STEPS = 2


class Small(nn.Module):
    """A network with convolution, norms, pooling, attention and an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.embedding = nn.Embedding(7, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.head = nn.Linear(4 * 9 + 8, 3)

    def forward(self, image: Any, words: Any) -> Any:
        seen = functional.max_pool2d(torch.relu(self.norm(self.conv(image))), 2)
        read = self.block(self.embedding(words)).mean(1)
        return self.head(torch.cat([seen.flatten(1), read], 1))


def images(step: int) -> Any:
    """The images of a step, as NumPy arrays."""
    return np.random.default_rng(step).normal(size=(3, 2, 6, 6)).astype(np.float32)


def train(scale: float = 1.0, *, foreach: bool = False) -> Any:
    """Train for two steps; the images of the last one are multiplied by ``scale``."""
    torch.manual_seed(0)
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=foreach)
    words, target = torch.randint(0, 7, (3, 5)), torch.tensor([0, 2, 1])
    loss = None
    for step in range(STEPS):
        factor = np.float32(scale if step == STEPS - 1 else 1.0)
        loss = functional.cross_entropy(
            model(torch.from_numpy(images(step) * factor), words), target
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss is not None
    return loss.detach().numpy()


class Gated(nn.Module):
    """Attention that adds the logarithm of gates to its scores."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Any, gates: Any) -> Any:
        bias = torch.log(gates)
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / 8**0.5 + bias
        scores = scores - scores.amax(-1, keepdim=True)
        return self.out(torch.softmax(scores, -1) @ self.v(x)).mean(1)


def closed_gates() -> Any:
    """One row of gates is zero: its logarithms are -inf, and their difference NaN."""
    torch.manual_seed(0)
    model = Gated()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    x, gates = torch.randn(2, 5, 8), torch.rand(2, 5, 5) + 0.1
    gates[1, 3] = 0
    for _ in range(STEPS):
        loss = functional.cross_entropy(model(x, gates), torch.tensor([0, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach().numpy()


def half_overflow() -> Any:
    """A square beyond float16, normalised by the mean square: NaN in the loss."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4, 4, dtype=torch.float16))
    x = torch.ones(2, 4, dtype=torch.float16)
    x[1, 2] = 300
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(STEPS):
        square = x * x
        h = square / square.mean(1, keepdim=True)
        loss = (h @ weight).float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach().numpy()
