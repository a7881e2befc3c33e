"""Two layers on a wave: the loss hardly falls."""

from __future__ import annotations

import numpy as np

import nodescope as ns

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (64, 4))
y = np.sin(3 * x.sum(axis=1))

encoder = ns.parameter(rng.normal(0, 0.5, (4, 16)), name="encoder/w")
output = ns.parameter(rng.normal(0, 0.2, 16), name="output/w")
optimizer = ns.optim.SGD([output], lr=0.1)
for step in ns.steps(range(20)):
    optimizer.zero_grad()
    with ns.name_scope("encoder"):
        h = np.tanh(ns.tensor(x, name="x") @ encoder)
    with ns.name_scope("loss"):
        loss = np.mean(np.square(h @ output - y))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1}  loss {loss.item():.4f}")
