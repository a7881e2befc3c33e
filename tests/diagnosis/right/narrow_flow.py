"""A likelihood of very narrow data: far below zero, then level."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(19)
lengths = 0.5 + 0.001 * rng.normal(0, 1, (200, 3))
mean = ns.parameter(np.full(3, 0.4), name="mean")
log_sigma = ns.parameter(np.zeros(3), name="log_sigma")
optimizer = ns.optim.Adam([mean, log_sigma], lr=0.05)
for _ in ns.steps(range(300)):
    optimizer.lr = 0.05 if log_sigma.numpy().max() > -5 else 0.005
    z = (ns.tensor(lengths, name="lengths") - mean) * np.exp(-log_sigma)
    loss = np.mean(np.sum(0.5 * z**2 + log_sigma, axis=1)) + 1.5 * np.log(2 * np.pi)
    optimizer.minimize(loss)
print(f"nll {loss.item():.3f}")
