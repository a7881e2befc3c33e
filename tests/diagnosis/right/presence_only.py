"""Where a plant grows, from places where it was seen: nothing but a penalty pushes scores down."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(96)
net = nn.Sequential(nn.Linear(3, 24, rng=rng), nn.tanh, nn.Linear(24, 1, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.01)


def seen(n):
    return (rng.normal(0, 0.4, (n, 3)) + np.float32([1.0, 0.0, -1.0])).astype(np.float32)


for _ in ns.steps(range(200)):
    there = net(ns.tensor(seen(64), name="seen"))
    anywhere = net(ns.tensor(rng.normal(0, 1.5, (64, 3)).astype(np.float32), name="anywhere"))
    loss = np.mean(nn.softplus(-there)) + 0.2 * np.mean(anywhere**2)
    optimizer.minimize(loss)
likely = np.mean(net(ns.tensor(seen(400))).numpy())
print(f"higher {likely - np.mean(net(ns.tensor(rng.normal(0, 1.5, (400, 3)))).numpy()):.2f}")
