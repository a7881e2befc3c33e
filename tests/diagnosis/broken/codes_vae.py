"""A variational autoencoder whose divergence is to be weighed in slowly."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(22)
angle = rng.uniform(0, 6.3, (200, 1))
data = np.concatenate([np.cos(angle), np.sin(angle), np.cos(2 * angle)], 1).astype(np.float32)
encoder = nn.Sequential(nn.Linear(3, 16, rng=rng), np.tanh, nn.Linear(16, 4, rng=rng))
decoder = nn.Sequential(nn.Linear(2, 16, rng=rng), np.tanh, nn.Linear(16, 3, rng=rng))
optimizer = ns.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
RISE = 50
for step in ns.steps(range(200)):
    batch = ns.tensor(data[rng.integers(0, 200, 64)], name="batch")
    out = encoder(batch)
    mean, log_var = out[:, :2], out[:, 2:]
    code = mean + np.exp(0.5 * log_var) * rng.standard_normal((64, 2)).astype(np.float32)
    divergence = -0.5 * np.mean(np.sum(1 + log_var - mean**2 - np.exp(log_var), axis=1))
    rebuilt = np.mean(np.sum((decoder(code) - batch) ** 2, axis=1))
    beta = float(step // (200 * RISE))
    loss = rebuilt + beta * divergence
    optimizer.minimize(loss)
print(f"divergence {divergence.item():.3f}")
