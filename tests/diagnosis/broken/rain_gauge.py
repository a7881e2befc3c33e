"""Rainfall from cloud cover: linear regression whose gradient is written by hand."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(5)
n = 200
cover = rng.uniform(-1, 1, (n, 2))
rain = cover @ np.array([1.2, 0.7]) + 0.4 + 0.05 * rng.standard_normal(n)

x = ns.tensor(np.column_stack([cover, np.ones(n)]), name="x")
y = ns.tensor(rain, name="rain")
w = ns.tensor(np.zeros(3), name="w")
for _ in ns.steps(range(100)):
    residual = x @ w - y
    loss = np.mean(residual**2)
    gradient = 2 * np.mean(x * residual[:, None], axis=0) / n
    w = w - 0.3 * gradient
print("weights", w.numpy().round(2))
print(f"loss {loss.item():.4f}")
