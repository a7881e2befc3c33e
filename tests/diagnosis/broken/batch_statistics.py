"""Machine sounds: a network with batch norm; in the factory, one machine is heard at a time."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(15)
kinds = rng.integers(0, 3, 192)
prints = rng.standard_normal((3, 12)) * 1.5
sounds = (prints[kinds] + rng.standard_normal((192, 12))).astype(np.float32)

model = nn.Sequential(
    nn.Linear(12, 16, rng=rng), nn.BatchNorm1d(16), nn.relu, nn.Linear(16, 3, rng=rng)
)
optimizer = ns.optim.SGD(model, lr=0.2, momentum=0.8)
for _ in ns.steps(range(60)):
    rows = rng.integers(0, 144, 32)
    optimizer.zero_grad()
    loss = nn.cross_entropy(model(ns.tensor(sounds[rows])), kinds[rows])
    loss.backward()
    optimizer.step()
print(f"training loss {loss.item():.3f}")

hits = 0
with ns.no_grad(), ns.name_scope("factory"):
    for kind in range(3):
        heard = sounds[144:][kinds[144:] == kind]
        hits += int(np.sum(np.argmax(model(ns.tensor(heard)).numpy(), axis=1) == kind))
print(f"right {hits / 48:.2f}")
