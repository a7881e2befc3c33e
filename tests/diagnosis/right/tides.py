"""Windows that slide over a series: each batch begins one hour after the one before."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(43)
t = np.arange(400)
tide = (np.sin(t / 5) + 0.5 * np.sin(t / 7.3)).astype(np.float32)
net = nn.Linear(12, 1, rng=rng)
optimizer = ns.optim.Adam(net, lr=0.02)
for hour in ns.steps(range(250)):
    rows = hour + np.arange(24)
    windows = np.stack([tide[r : r + 12] for r in rows])
    x, y = ns.tensor(windows, name="windows"), ns.tensor(tide[rows + 12][:, None], name="next")
    loss = nn.mse(net(x), y)
    optimizer.minimize(loss)
print(f"loss {loss.item():.5f}")
