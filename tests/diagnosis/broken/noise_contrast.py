"""The shape of a cloud of points, learned by telling it from noise."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(82)
net = nn.Sequential(nn.Linear(2, 32, rng=rng), nn.tanh, nn.Linear(32, 1, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.02)


def cloud(n):
    angle = rng.uniform(0, 2 * np.pi, n)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 2
    return (ring + rng.normal(0, 0.1, (n, 2))).astype(np.float32)


def noise(n):
    return rng.uniform(-3, 3, (n, 2)).astype(np.float32)


for _ in ns.steps(range(500)):
    of_cloud = net(ns.tensor(cloud(64), name="cloud"))
    of_noise = net(ns.tensor(noise(64), name="noise"))
    loss = np.mean(nn.softplus(-of_cloud)) + np.mean(nn.softplus(-of_noise))
    optimizer.minimize(loss)
above = net(ns.tensor(cloud(500))).numpy() > 0
below = net(ns.tensor(noise(500))).numpy() < 0
print(f"told apart {(above.mean() + below.mean()) / 2:.3f}")
