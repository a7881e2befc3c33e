"""Distances of galaxies from five colours: two layers of ReLUs."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(27)
colours = rng.normal(0, 1, (256, 5)).astype(np.float32)
distance = (np.abs(colours[:, :2]).sum(axis=1) + 8).astype(np.float32)


class Net(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(5, 20, rng=rng), nn.Linear(20, 20, rng=rng)]
        self.head = nn.Linear(20, 1, rng=rng)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            with ns.name_scope(f"relu_{number}"):
                x = nn.relu(layer(x))
        return self.head(x)[:, 0]


net = Net()
optimizer = ns.optim.SGD(net, lr=0.15)
for _ in ns.steps(range(160)):
    rows = rng.integers(0, 256, 64)
    optimizer.zero_grad()
    loss = nn.mse(net(ns.tensor(colours[rows])), ns.tensor(distance[rows]))
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
