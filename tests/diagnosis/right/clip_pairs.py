"""Pairs find each other in both directions: softmax over rows and over columns on purpose."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(31)
one, two = rng.normal(0, 1, (4, 9)), rng.normal(0, 1, (4, 6))
left, right = nn.Linear(9, 5, rng=rng), nn.Linear(6, 5, rng=rng)
optimizer = ns.optim.Adam([*left.parameters(), *right.parameters()], lr=0.02)
for _ in ns.steps(range(120)):
    theme = rng.normal(0, 1, (20, 4))
    a = left(ns.tensor((theme @ one).astype(np.float32), name="a"))
    b = right(ns.tensor((theme @ two).astype(np.float32), name="b"))
    likeness = a @ b.T
    rows = np.mean(np.diagonal(ns.log_softmax(likeness, axis=1)))
    columns = np.mean(np.diagonal(ns.log_softmax(likeness, axis=0)))
    loss = -0.5 * (rows + columns)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
