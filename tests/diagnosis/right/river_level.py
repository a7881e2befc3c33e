"""Forecasts of a river that rises over the weeks: windows in order of time."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(16)
n = 1600
level = np.cumsum(0.01 + 0.1 * np.sin(np.arange(n) / 6) + 0.02 * rng.standard_normal(n)).astype(
    np.float32
)
net = nn.Sequential(nn.Linear(12, 24, rng=rng), np.tanh, nn.Linear(24, 1, rng=rng))
optimizer = ns.optim.Adam(net, lr=5e-3)
starts = np.arange(0, n - 13)
losses = []
for begin in ns.steps(range(0, len(starts) - 32, 8)):
    windows = np.stack([level[s : s + 13] for s in starts[begin : begin + 32]])
    past, last = windows[:, :12], windows[:, 11:12]
    loss = nn.mse(net(ns.tensor(past - last)), ns.tensor(windows[:, 12:] - last))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {np.mean(losses[-20:]):.4f}")
