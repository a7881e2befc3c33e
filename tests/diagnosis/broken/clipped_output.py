"""Shares between 0 and 1 from soil samples: the output is clipped into range."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(40)
soil = rng.uniform(0, 1, (80, 4))
share = 1 / (1 + np.exp(-(soil @ [2.0, -1.0, 1.0, 0.5] - 1)))

inner = nn.Linear(4, 8, rng=rng, dtype=np.float64)
outer = nn.Linear(8, 1, rng=rng, dtype=np.float64)
outer.bias = ns.parameter(np.array([-4.0]))
optimizer = ns.optim.Adam([*inner.parameters(), *outer.parameters()], lr=0.02)
for _ in ns.steps(range(100)):
    with ns.name_scope("net"):
        raw = outer(nn.relu(inner(ns.tensor(soil, name="soil"))))[:, 0]
        guess = np.clip(raw, 0.0, 1.0)
    with ns.name_scope("loss"):
        loss = np.mean((guess - share) ** 2)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
