"""A support vector machine without regularisation: once all margins are wide, the loss is 0."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(53)
side = np.where(rng.random(80) < 0.5, 1.0, -1.0)
x = rng.standard_normal((80, 2)) + side[:, None] * [2.5, -2.0]
keep = side * (x @ [1.0, -0.8]) > 0.8
x, side = x[keep], side[keep]

w = ns.parameter(np.zeros(2), name="w")
b = ns.parameter(0.0, name="b")
optimizer = ns.optim.SGD([w, b], lr=0.2)
for step in ns.steps(range(120)):
    margin = side * (ns.tensor(x, name="x") @ w + b)
    loss = np.mean(nn.relu(1.0 - margin))
    optimizer.minimize(loss)
    if step % 40 == 0:
        print(f"step {step}: {loss.item():.4f}")
print(f"loss {loss.item():.6f}")
