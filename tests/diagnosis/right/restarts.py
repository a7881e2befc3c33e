"""A cosine schedule with warm restarts: the rate falls to zero, again and again."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(11)
x = rng.normal(0, 1, (160, 4)).astype(np.float32)
y = (x[:, 0] * x[:, 1] > 0).astype(int)
net = nn.Sequential(nn.Linear(4, 24, rng=rng), np.tanh, nn.Linear(24, 2, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.03)
for step in ns.steps(range(120)):
    optimizer.lr = 0.015 * (1 + np.cos(np.pi * (step % 40) / 40))
    loss = nn.cross_entropy(net(ns.tensor(x, name="x")), y)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
