"""Weights of plus and minus one: rounded forwards, straight through backwards."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(62)
truth = np.sign(rng.standard_normal((8, 4)))
x = rng.standard_normal((120, 8))
y = x @ truth

latent = ns.parameter(rng.normal(0, 0.3, (8, 4)), name="latent")
for _ in ns.steps(range(100)):
    latent.grad = None
    rounded = latent + (np.sign(latent) - latent).detach()
    loss = np.mean((ns.tensor(x, name="x") @ rounded - y) ** 2)
    loss.backward()
    with ns.no_grad():
        ns.assign(latent, np.clip(latent - 0.05 * latent.grad, -1.0, 1.0))
print(f"loss {loss.item():.4f}")
