"""A linear model predicts counts: the loss becomes NaN."""

from __future__ import annotations

import numpy as np

import nodescope as ns

np.seterr(all="ignore")
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (64, 2))
counts = rng.poisson(np.exp(x @ [1.5, -1.0]))

w = ns.parameter(np.zeros(2), name="w")
b = ns.parameter(1.0, name="b")
optimizer = ns.optim.SGD([w, b], lr=0.1)
for step in ns.steps(range(40)):
    optimizer.zero_grad()
    with ns.name_scope("rate"):
        rate = ns.tensor(x, name="x") @ w + b
    with ns.name_scope("loss"):
        loss = np.mean(rate - counts * np.log(rate))
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}  loss {loss.item():.4f}")
