"""Spectra come from the instrument as (channels, samples); a network wants samples first."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(38)
SAMPLES, CHANNELS = 90, 20
kinds = rng.integers(0, 3, SAMPLES)
peaks = np.exp(-0.5 * ((np.arange(CHANNELS)[:, None] - np.array([4, 9, 15])) / 1.5) ** 2)
raw = peaks[:, kinds] + rng.normal(0, 0.1, (CHANNELS, SAMPLES))

spectra = ns.tensor(raw, name="raw").reshape(SAMPLES, CHANNELS)
weight = ns.parameter(np.zeros((CHANNELS, 3)), name="weight")
bias = ns.parameter(np.zeros(3), name="bias")
optimizer = ns.optim.SGD([weight, bias], lr=1.0)
for _ in ns.steps(range(80)):
    with ns.name_scope("loss"):
        loss = nn.cross_entropy(spectra @ weight + bias, kinds)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
