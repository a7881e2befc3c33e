"""Vector quantisation: codes are chosen by .numpy(), their gradient goes straight through."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(55)
kinds = rng.normal(0, 2, (6, 8))
data = (kinds[rng.integers(0, 6, 300)] + 0.1 * rng.normal(0, 1, (300, 8))).astype(np.float32)
encoder, decoder = nn.Linear(8, 3, rng=rng), nn.Linear(3, 8, rng=rng)
start = encoder(ns.tensor(data[:10])).numpy()
codes = ns.parameter(start, name="codes")
optimizer = ns.optim.Adam([*encoder.parameters(), *decoder.parameters(), codes], lr=0.05)
for _ in ns.steps(range(250)):
    batch = ns.tensor(data[rng.integers(0, 300, 64)], name="batch")
    z = encoder(batch)
    gap = np.sum((z.numpy()[:, None] - codes.numpy()) ** 2, axis=2)
    nearest = codes[np.argmin(gap, axis=1)]
    passed = z + (nearest - z).detach()
    loss = nn.mse(decoder(passed), batch)
    total = (
        loss + np.mean((nearest - z.detach()) ** 2) + 0.25 * np.mean((z - nearest.detach()) ** 2)
    )
    optimizer.minimize(total)
print(f"loss {loss.item():.4f}")
