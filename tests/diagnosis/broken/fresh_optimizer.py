"""Two moons, with the optimizer made by a helper."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(156)
a, k = rng.uniform(0, np.pi, 200), rng.integers(0, 2, 200)
x = np.stack([np.cos(a) * (1 - 2 * k) + k, np.sin(a) * (1 - 2 * k) + k * 0.5], 1)
x = (x + 0.1 * rng.standard_normal(x.shape)).astype(np.float32)
net = nn.Sequential(nn.Linear(2, 24, rng=rng), np.tanh, nn.Linear(24, 2, rng=rng))


def update(loss):
    optimizer = ns.optim.SGD(net, lr=0.05, momentum=0.95)
    optimizer.minimize(loss)


losses = []
for _ in ns.steps(range(150)):
    rows = rng.integers(0, 200, 32)
    loss = nn.cross_entropy(net(ns.tensor(x[rows], name="x")), k[rows])
    update(loss)
    losses.append(loss.item())
print(f"loss {np.mean(losses[-20:]):.4f}")
