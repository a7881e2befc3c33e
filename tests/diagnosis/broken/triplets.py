"""Metric learning: voices of the same speaker close together, others apart."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(17)
speakers = rng.standard_normal((8, 10))
voices = speakers[:, None] + 0.3 * rng.standard_normal((8, 6, 10))

embed = nn.Linear(10, 4, rng=rng, dtype=np.float64)
optimizer = ns.optim.Adam(embed, lr=0.02)


def distance(a, b):
    return np.sqrt(np.sum((a - b) ** 2, axis=-1))


with np.errstate(divide="ignore", invalid="ignore"):
    for _ in ns.steps(range(100)):
        one, other = rng.integers(0, 8, (2, 24))
        other = np.where(other == one, (other + 1) % 8, other)
        first = voices[one, rng.integers(0, 6, 24)]
        second = voices[one, rng.integers(0, 6, 24)]
        third = voices[other, rng.integers(0, 6, 24)]
        anchor, near, far = (
            embed(ns.tensor(first)),
            embed(ns.tensor(second)),
            embed(ns.tensor(third)),
        )
        loss = np.mean(nn.relu(1.0 + distance(anchor, near) - distance(anchor, far)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.4f}")
