"""A variational autoencoder; one of its two codes is not needed, and collapses."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(66)
curve = rng.uniform(-1, 1, (200, 1))
data = np.concatenate([curve, curve**2, np.sin(2 * curve)], axis=1)
data = (data + rng.normal(0, 0.05, data.shape)).astype(np.float32)
encoder = nn.Sequential(nn.Linear(3, 16, rng=rng), np.tanh, nn.Linear(16, 4, rng=rng))
decoder = nn.Sequential(nn.Linear(2, 16, rng=rng), np.tanh, nn.Linear(16, 3, rng=rng))
optimizer = ns.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
draws = ns.random.Generator(0)
for _ in ns.steps(range(150)):
    batch = data[rng.integers(0, 200, 64)]
    out = encoder(ns.tensor(batch, name="batch"))
    mean, log_var = out[:, :2], out[:, 2:]
    code = mean + np.exp(0.5 * log_var) * draws.standard_normal((64, 2)).astype(np.float32)
    rebuilt = np.mean(np.sum((decoder(code) - batch) ** 2, axis=1)) / (2 * 0.1)
    divergence = -0.5 * np.mean(np.sum(1 + log_var - mean**2 - np.exp(log_var), axis=1))
    optimizer.minimize(rebuilt + divergence)
print(f"bound {rebuilt.item() + divergence.item():.3f}")
