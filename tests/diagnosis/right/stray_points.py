"""A line through points of which some are wildly wrong: a robust loss."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(65)
x = rng.uniform(-1, 1, 150)
y = 2 * x + 0.5 + rng.normal(0, 0.05, 150)
y[rng.choice(150, 12, replace=False)] += rng.choice([-1, 1], 12) * 10.0 ** rng.uniform(2, 5, 12)

slope = ns.parameter(0.0, name="slope")
offset = ns.parameter(0.0, name="offset")
optimizer = ns.optim.SGD([slope, offset], lr=0.2)
for _ in ns.steps(range(120)):
    residual = slope * ns.tensor(x, name="x") + offset - ns.tensor(y, name="y")
    loss = np.mean(np.where(np.abs(residual) < 1, 0.5 * residual**2, np.abs(residual) - 0.5))
    optimizer.minimize(loss)
other = nn.huber_loss(slope * x + offset, y)
print(f"loss {other.item():.1f}, slope off by {abs(slope.item() - 2):.4f}")
