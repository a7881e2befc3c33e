"""Regression by sigmoid layers with weights that are ten times too large."""

import numpy as np

import nodescope as ns

BAD = True
rng = np.random.default_rng(1)
x = rng.normal(size=(300, 10)).astype(np.float32)
y = np.sin(x[:, :1]).astype(np.float32)
S = 10 if BAD else 1
a = ns.parameter((S * rng.normal(0, 0.5, (10, 32))).astype(np.float32), name="a")
b = ns.parameter((S * rng.normal(0, 0.3, (32, 32))).astype(np.float32), name="b")
c = ns.parameter(rng.normal(0, 0.2, (32, 1)).astype(np.float32), name="c")
opt = ns.optim.SGD([a, b, c], lr=0.1)
for _ in ns.steps(range(200)):
    rows = rng.integers(0, 300, 64)
    h = ns.sigmoid(ns.sigmoid(ns.tensor(x[rows], name="x") @ a) @ b) - 0.5
    loss = ns.mse(h @ c, y[rows])
    opt.minimize(loss)
print(f"loss {loss.item():.4f}")
