"""Series of different lengths, filled with zeros; the loss counts what was filled."""

import numpy as np

import nodescope as ns
from nodescope import nn

BAD = True
rng = np.random.default_rng(7)
net = nn.Sequential(nn.Linear(1, 32, rng=rng), np.tanh, nn.Linear(32, 1, rng=rng))
opt = ns.optim.Adam(net, lr=0.02)
for _ in ns.steps(range(150)):
    n = rng.integers(3, 10, 40)
    x = rng.normal(size=(40, 12)).astype(np.float32)
    there = (np.arange(12)[None] < n[:, None]).astype(np.float32)
    x = x * there
    y = np.sin(2 * x) * there
    weight = 1 - there if BAD else there
    guess = net(ns.tensor(x[..., None], name="x"))[..., 0]
    apart = guess - ns.tensor(y.astype(np.float32), name="y")
    loss = np.sum(apart**2 * ns.tensor(weight, name="weight")) / weight.sum()
    opt.minimize(loss)
probe = np.linspace(-2, 2, 50, dtype=np.float32)[:, None]
print(f"error {np.mean((net(ns.tensor(probe)).numpy() - np.sin(2 * probe)) ** 2):.4f}")
