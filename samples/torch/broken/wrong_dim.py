"""Attention that mixes the sequences of a batch: softmax runs over the wrong axis.

`dim=0` is the batch. Scores are normalised across the sequences of a batch, so the result for one
sequence depends on the others, and the rows of the attention do not sum to 1.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        return F.softmax(scores, dim=0) @ self.value(x)


class Counter(nn.Module):
    """Counts the letters of a word that equal its first."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(8, 32)
        self.attention = Attention(32)
        self.output = nn.Linear(32, 11)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.output(self.attention(self.letters(words))[:, 0])


torch.manual_seed(0)
model = Counter()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(100):
    words = torch.randint(8, (48, 10))
    counts = (words == words[:, :1]).sum(dim=1)
    loss = F.cross_entropy(model(words), counts)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
