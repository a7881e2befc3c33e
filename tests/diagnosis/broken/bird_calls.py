"""Which of six birds calls, by the strength of its call in eight bands."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(81)
voices = rng.normal(0, 1.5, (6, 8)).astype(np.float32)
hidden, out = nn.Linear(8, 32, rng=rng), nn.Linear(32, 6, rng=rng)
optimizer = ns.optim.Adam([*hidden.parameters(), *out.parameters()], lr=0.01)

for _ in ns.steps(range(150)):
    bird = rng.integers(0, 6, 64)
    bands = voices[bird] + 0.3 * rng.normal(0, 1, (64, 8)).astype(np.float32)
    scores = np.tanh(out(nn.relu(hidden(ns.tensor(bands, name="bands")))))
    loss = nn.cross_entropy(scores, bird)
    optimizer.minimize(loss)
print(f"loss {loss.item():.3f}")
