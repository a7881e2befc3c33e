"""A regression whose loss grows from step to step."""

from __future__ import annotations

import numpy as np

import nodescope as ns

rng = np.random.default_rng(0)
x = rng.normal(0, 2, (64, 3))
y = x @ [1.0, -2.0, 0.5] + rng.normal(0, 0.1, 64)

w = ns.parameter(rng.normal(0, 0.1, (3, 1)), name="w")
optimizer = ns.optim.SGD([w], lr=0.5)
for step in ns.steps(range(12)):
    optimizer.zero_grad()
    with ns.name_scope("loss"):
        loss = np.mean(np.square(ns.tensor(x, name="x") @ w - y[:, None]))
    loss.backward()
    optimizer.step()
    if step % 3 == 2:
        print(f"step {step + 1}  loss {loss.item():.4g}")
