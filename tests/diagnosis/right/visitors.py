"""Visitors per hour cannot be negative: a ReLU at the end is right, and many hours are empty."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(11)
hours = rng.uniform(-1, 1, (240, 3)).astype(np.float32)
visits = np.maximum(0, 2 * hours[:, :1] + hours[:, 1:2]) + 0.02 * rng.normal(0, 1, (240, 1))
net = nn.Sequential(nn.Linear(3, 24, rng=rng), nn.relu, nn.Linear(24, 1, rng=rng), nn.relu)
ns.assign(net[2].bias, np.full(1, 0.5, np.float32))
optimizer = ns.optim.Adam(net, lr=0.01)
for _ in ns.steps(range(150)):
    guess = net(ns.tensor(hours, name="hours"))
    loss = nn.mse(guess, ns.tensor(visits.astype(np.float32), name="visits"))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
