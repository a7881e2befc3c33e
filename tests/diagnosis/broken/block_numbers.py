"""Minibatches: the block number is taken for the row."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(3)
x = np.sort(rng.uniform(-3, 3, (400, 1)).astype(np.float32), axis=0)
y = np.sin(2 * x)
B = 20
net = nn.Sequential(nn.Linear(1, 32, rng=rng), np.tanh, nn.Linear(32, 1, rng=rng))
opt = ns.optim.Adam(net, lr=0.01)
blocks = len(x) // B
for _ in range(10):
    for k in ns.steps(range(blocks)):
        xb, yb = x[k : k + B], y[k : k + B]
        loss = nn.mse(net(ns.tensor(xb, name="x")), ns.tensor(yb, name="y"))
        opt.minimize(loss)
err = np.mean((net(ns.tensor(x)).numpy() - y) ** 2)
print(f"error {err:.4f}")
