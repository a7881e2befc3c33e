"""Contrastive learning: two noisy views of each item are to have the same embedding."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(6)
ITEMS, BATCH, TEMPERATURE = 256, 32, 0.1
items = rng.normal(0, 1, (ITEMS, 12))


def view(x):
    return (x + rng.normal(0, 0.15, x.shape)).astype(np.float32)


class Encoder(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(12, 48, rng=rng)
        self.project = nn.Linear(48, 16, rng=rng)

    def forward(self, x):
        z = self.project(nn.relu(self.hidden(x)))
        return z / np.linalg.norm(z, axis=1, keepdims=True)


def nt_xent(a, b):
    """Each row's partner is the one in the other view; everything else is a negative."""
    z = np.concatenate([a, b], axis=0)
    similarity = z @ z.T / TEMPERATURE
    n = len(a)
    partner = np.concatenate([np.arange(n, 2 * n), np.arange(n)])
    return nn.cross_entropy(similarity, partner)


encoder = Encoder()
optimizer = ns.optim.Adam(encoder, lr=5e-3)
history = []
for _step in ns.steps(range(200)):
    rows = items[rng.choice(ITEMS, BATCH, replace=False)]
    first = encoder(ns.tensor(view(rows), name="first"))
    second = encoder(ns.tensor(view(rows), name="second"))
    with ns.name_scope("contrast"):
        loss = nt_xent(first, second)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
print(f"loss {np.mean(history[-20:]):.4f}")
