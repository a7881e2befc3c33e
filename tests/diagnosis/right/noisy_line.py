"""A line through noise: after thirty steps only the noise is left, and the loss stays."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(9)
x = rng.uniform(-1, 1, 400)
y = 0.8 * x - 0.3 + rng.normal(0, 0.5, 400)
slope, offset = ns.parameter(0.0, name="slope"), ns.parameter(0.0, name="offset")
optimizer = ns.optim.SGD([slope, offset], lr=0.3, momentum=0.5)
for _ in ns.steps(range(200)):
    rows = rng.integers(0, 400, 40)
    line = slope * ns.tensor(x[rows], name="x") + offset
    loss = np.mean((line - ns.tensor(y[rows], name="y")) ** 2)
    optimizer.minimize(loss)
print(f"slope off by {abs(slope.item() - 0.8):.3f}")
