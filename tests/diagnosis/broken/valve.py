"""When does a valve open? Parameters are collected in a dictionary first."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(28)
x = rng.normal(0, 1, (150, 3))
opened = (x @ [1.0, -2.0, 0.5] > 0.3).astype(float)
w = ns.parameter(np.zeros(3), name="w")
b = ns.parameter(0.0, name="b")
settings = {"w": ns.parameter(w.numpy(), name="w"), "b": ns.parameter(b.numpy(), name="b")}
optimizer = ns.optim.Adam(list(settings.values()), lr=0.1)
for _ in ns.steps(range(80)):
    score = ns.tensor(x, name="x") @ w + b
    loss = np.mean(ns.softplus(score) - opened * score)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
