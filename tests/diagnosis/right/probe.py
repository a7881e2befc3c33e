"""A linear probe: the body stays as it is, the head alone is given to the optimizer."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(18)
body = nn.Sequential(nn.Linear(10, 64, rng=rng), nn.relu)
head = nn.Linear(64, 2, rng=rng)
x = rng.standard_normal((300, 10)).astype(np.float32)
y = (x[:, 0] + x[:, 1] ** 2 + 0.1 * rng.standard_normal(300) > 0.8).astype(int)
optimizer = ns.optim.Adam(head, lr=1e-2)
for _ in ns.steps(range(200)):
    rows = rng.integers(0, 300, 64)
    loss = nn.cross_entropy(head(body(ns.tensor(x[rows]))), ns.tensor(y[rows]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
