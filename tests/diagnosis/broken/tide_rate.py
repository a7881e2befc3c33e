"""A cosine schedule by hand, for a small classifier."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(32)
kind = rng.integers(0, 3, 180)
x = (rng.normal(0, 1, (3, 5))[kind] * 1.2 + rng.normal(0, 0.5, (180, 5))).astype(np.float32)
net = nn.Linear(5, 3, rng=rng)
optimizer = ns.optim.SGD(net, lr=0.3)
STEPS = 120
for step in ns.steps(range(STEPS)):
    optimizer.lr = 0.3 * float(np.cos(np.pi / 2 * step))
    loss = nn.cross_entropy(net(ns.tensor(x, name="x")), kind)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
