"""Weights of a penalty that rise from zero, and a last layer that begins with zeros."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(7)
x = rng.normal(0, 1, (160, 5)).astype(np.float32)
y = (x[:, :1] - np.abs(x[:, 1:2])).astype(np.float32)
net = nn.Sequential(nn.Linear(5, 16, rng=rng), nn.relu, nn.Linear(16, 1, rng=rng))
ns.assign(net[2].weight, np.zeros_like(net[2].weight.numpy()))
optimizer = ns.optim.Adam(net, lr=0.02)
for step in ns.steps(range(100)):
    beta = 1e-3 * max(0.0, (step - 30) / 70)
    fit = nn.mse(net(ns.tensor(x, name="x")), ns.tensor(y, name="y"))
    optimizer.minimize(fit + beta * np.sum(net[0].weight ** 2))
print(f"loss {fit.item():.4f}")
