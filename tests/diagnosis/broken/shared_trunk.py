"""Two tasks share a trunk."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(14)


class Shared(nn.Module):
    def __init__(self):
        self.trunk = nn.Sequential(
            nn.Linear(10, 8, rng=rng), nn.relu, nn.Linear(8, 4, rng=rng), nn.tanh
        )
        self.first = nn.Linear(4, 1, rng=rng)
        self.second = nn.Linear(4, 1, rng=rng)

    def features(self, x):
        with ns.no_grad():
            return self.trunk(x)

    def forward(self, x):
        shared = self.features(x)
        return self.first(shared)[:, 0], self.second(shared)[:, 0]


x = rng.normal(0, 1, (400, 10)).astype(np.float32)
one = np.sin(x[:, 0] + x[:, 1]).astype(np.float32)
two = (x[:, 2] * np.cos(x[:, 0] + x[:, 1])).astype(np.float32)
model = Shared()
opt = ns.optim.Adam(model, lr=0.02)
for _step in ns.steps(range(200)):
    rows = rng.integers(0, 400, 80)
    a, b = model(ns.tensor(x[rows], name="x"))
    loss = nn.mse_loss(a, ns.tensor(one[rows])) + nn.mse_loss(b, ns.tensor(two[rows]))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"loss {loss.item():.4f}")
