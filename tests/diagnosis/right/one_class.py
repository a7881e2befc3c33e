"""Deep one-class description: all samples are normal, and are drawn to one centre."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(47)
normal = rng.standard_normal((128, 2)) @ np.array([[1.0, 0.8], [0.0, 0.3]])
odd = rng.uniform(-4, 4, (64, 2))
odd = odd[np.abs(odd[:, 1] - 0.8 * odd[:, 0]) > 1.5]


class Embed(nn.Module):
    def __init__(self):
        self.one = ns.parameter(rng.normal(0, 0.7, (2, 16)))
        self.two = ns.parameter(rng.normal(0, 0.3, (16, 3)))

    def forward(self, x):
        return nn.leaky_relu(ns.tensor(x, name="x") @ self.one) @ self.two


embed = Embed()
with ns.no_grad():
    centre = np.mean(embed(normal), axis=0) + 0.5
optimizer = ns.optim.AdamW(embed, lr=0.01, weight_decay=0.01)
for _ in ns.steps(range(80)):
    rows = rng.integers(0, 128, 32)
    gap = np.sum((embed(normal[rows]) - centre) ** 2, axis=1)
    loss = np.mean(gap)
    optimizer.minimize(loss)
with ns.no_grad():
    inner = np.sum((embed(normal) - centre) ** 2, axis=1).numpy()
    outer = np.sum((embed(odd) - centre) ** 2, axis=1).numpy()
print(f"ratio {np.median(outer) / np.median(inner):.2f}")
