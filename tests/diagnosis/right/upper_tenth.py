"""Waiting times: the upper tenth by the pinball loss, which is far from 0 when all is well."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(67)
hour = rng.uniform(0, 1, 300)
wait = (1 + 2 * hour) * rng.exponential(1, 300)
basis = np.stack([np.ones(300), hour], axis=1)
w = ns.parameter(np.zeros(2), name="w")
optimizer = ns.optim.Adam([w], lr=0.1)
for _ in ns.steps(range(200)):
    gap = wait - ns.tensor(basis, name="basis") @ w
    loss = np.mean(np.maximum(0.9 * gap, -0.1 * gap))
    optimizer.minimize(loss)
over = np.mean(wait > basis @ w.numpy())
print(f"loss {loss.item():.3f}, off by {abs(over - 0.1):.3f}")
