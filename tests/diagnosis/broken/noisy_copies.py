"""Denoising autoencoder: noise is added to each batch as training goes along."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(36)
basis = rng.standard_normal((3, 16))
clean = (rng.uniform(-1, 1, (120, 3)) @ basis).astype(np.float32)

encoder = nn.Linear(16, 3, rng=rng)
decoder = nn.Linear(3, 16, rng=rng)
optimizer = ns.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.02)


def batches(count):
    for number in range(count):
        start = number % 4 * 30
        yield clean[start : start + 30]


for batch in ns.steps(batches(120)):
    noisy = batch
    noisy += rng.normal(0, 0.3, batch.shape).astype(np.float32)
    with ns.name_scope("autoencoder"):
        out = decoder(encoder(ns.tensor(noisy, name="noisy")))
    loss = nn.mse(out, ns.tensor(batch, name="clean"))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
