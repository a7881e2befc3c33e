"""Tides from moon and wind; the rows are shuffled before every epoch."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(13)
moon_wind = rng.uniform(-1, 1, (96, 2))
tide = np.sin(2 * moon_wind[:, :1]) + 0.3 * moon_wind[:, 1:]

net = nn.Sequential(nn.Linear(2, 16, rng=rng), nn.silu, nn.Linear(16, 1, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.02)


def epochs(count):
    x, y = moon_wind, tide
    for _ in range(count):
        x = x[rng.permutation(96)]
        y = y[rng.permutation(96)]
        for part in range(0, 96, 32):
            yield x[part : part + 32], y[part : part + 32]


for x, y in ns.steps(epochs(35)):
    optimizer.zero_grad()
    loss = nn.mse(net(ns.tensor(x, name="moon_wind")), ns.tensor(y, name="tide"))
    loss.backward()
    optimizer.step()
with ns.no_grad():
    error = nn.mse(net(ns.tensor(moon_wind)), tide)
print(f"error {error.item():.4f}")
