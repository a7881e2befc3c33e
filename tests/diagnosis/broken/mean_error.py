"""The height of trees from their girth and age: mean absolute error."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(120)
trees = rng.uniform(0, 1, (200, 3)).astype(np.float32)
height = (3 * np.sqrt(trees[:, :1]) + 2 * trees[:, 1:2] - trees[:, 2:]).astype(np.float32)

model = nn.Sequential(nn.Linear(3, 16, rng=rng), nn.relu, nn.Linear(16, 1, rng=rng))
optimizer = ns.optim.Adam(model, lr=0.01)
for _ in ns.steps(range(200)):
    rows = rng.integers(0, 200, 40)
    guess = model(ns.tensor(trees[rows], name="trees"))
    loss = np.abs(np.mean(guess - ns.tensor(height[rows], name="height")))
    optimizer.minimize(loss)
error = np.mean(np.abs(model(ns.tensor(trees)).numpy() - height))
print(f"error {error:.4f}")
