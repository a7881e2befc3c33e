"""A residual network that does not learn as it should: each shortcut carries half its input.

`mul_` scales the input for the branch in place, but the shortcut is the same tensor, so the scaled
input is added.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x
        with torch.no_grad():
            x.mul_(0.5)  # meant for the branch alone
        y = F.relu(self.first(x))
        return shortcut + self.second(y)


torch.manual_seed(0)
inputs = torch.randn(128, 16)
targets = inputs.sum(dim=1, keepdim=True).tanh()
model = nn.Sequential(nn.Linear(16, 32), *[Residual(32) for _ in range(6)], nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(60):
    loss = F.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
