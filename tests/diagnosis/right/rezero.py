"""Residual blocks whose gates start at zero: at first, the network is only its first layer."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(43)
x = rng.uniform(-1, 1, (96, 3)).astype(np.float32)
y = np.sin(3 * x).sum(axis=1, keepdims=True).astype(np.float32)


class Gated(nn.Module):
    def __init__(self, size):
        self.up = nn.Linear(size, 2 * size, rng=rng)
        self.down = nn.Linear(2 * size, size, rng=rng)
        self.gate = ns.parameter(np.zeros(1, np.float32))

    def forward(self, x):
        return x + self.gate * self.down(nn.silu(self.up(x)))


model = nn.Sequential(
    nn.Linear(3, 12, rng=rng), Gated(12), Gated(12), Gated(12), nn.Linear(12, 1, rng=rng)
)
optimizer = ns.optim.Adam(model, lr=0.02)


@ns.compile
def train(x, y):
    optimizer.zero_grad()
    loss = nn.mse(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


for _ in ns.steps(range(150)):
    loss = train(x, y)
print(f"loss {loss.item():.4f}")
