"""Models to export, and their inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN = 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.register_buffer("scale", torch.full((HIDDEN,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q = q.view(batch, length, 2, HIDDEN // 2).transpose(1, 2)
        k = k.view(batch, length, 2, HIDDEN // 2).transpose(1, 2)
        v = v.view(batch, length, 2, HIDDEN // 2).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).reshape(batch, length, HIDDEN) * self.scale


class Net(nn.Module):
    """A small transformer; its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, HIDDEN)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(HIDDEN, 10)
        self.factor = torch.tensor([2.0])

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        x = x * self.factor
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.body(x), -1)


class Branching(nn.Module):
    """A model with a region without gradients, and a data-dependent branch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.cos()
        return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.exp(), (x + y,))


_GENERATOR = torch.Generator().manual_seed(1)
_BATCH = tuple(torch.randint(0, 10, (3, 5), generator=_GENERATOR) for _ in range(2))


def batch() -> tuple[torch.Tensor, ...]:
    """Tokens and labels, the same each time."""
    return _BATCH
