"""The rhythm of a pulse, from its samples: a strided convolution, then a mean."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(85)
conv = nn.Conv1d(1, 16, 3, stride=6, rng=rng)
hidden, out = nn.Linear(16 * 8, 32, rng=rng), nn.Linear(32, 3, rng=rng)
layers = [*conv.parameters(), *hidden.parameters(), *out.parameters()]
optimizer = ns.optim.Adam(layers, lr=0.01)

for _ in ns.steps(range(150)):
    kind = rng.integers(0, 3, 48)
    pulse = rng.normal(0, 0.2, (48, 1, 48)).astype(np.float32)
    first = 6 * rng.integers(0, 2, 48)
    for beat in (3, 15, 27):
        pulse[np.arange(48), 0, first + beat + kind] += 1.5
    maps = nn.relu(conv(ns.tensor(pulse, name="pulse")))
    scores = out(nn.relu(hidden(nn.flatten(maps, 1))))
    loss = nn.cross_entropy(scores, kind)
    optimizer.minimize(loss)
print(f"loss {loss.item():.3f}")
