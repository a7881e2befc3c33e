"""A tanh output for readings of -1 to 1, some of which noise carries beyond."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(67)
x = rng.uniform(-2, 2, (300, 2)).astype(np.float32)
y = (np.tanh(2 * x[:, :1] * x[:, 1:]) + 0.05 * rng.normal(0, 1, (300, 1))).astype(np.float32)
net = nn.Sequential(nn.Linear(2, 32, rng=rng), np.tanh, nn.Linear(32, 1, rng=rng), np.tanh)
optimizer = ns.optim.Adam(net, lr=0.02)
for _ in ns.steps(range(200)):
    loss = nn.mse(net(ns.tensor(x, name="x")), ns.tensor(y, name="y"))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
