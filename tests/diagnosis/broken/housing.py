"""Rents: the targets are standardised first."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(18)
flats = rng.uniform(0, 1, (200, 3)).astype(np.float32)
rent = 900 + 600 * flats[:, :1] + 200 * flats[:, 1:2] * flats[:, 2:]
wanted = (rent / rent.std() - rent.mean()).astype(np.float32)
net = nn.Sequential(nn.Linear(3, 20, rng=rng), nn.relu, nn.Linear(20, 1, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.005)
for _ in ns.steps(range(120)):
    rows = rng.integers(0, 200, 50)
    loss = nn.mse(net(ns.tensor(flats[rows], name="flats")), ns.tensor(wanted[rows], name="wanted"))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
