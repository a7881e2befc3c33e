"""A network that learns nothing but a constant."""

from __future__ import annotations

import numpy as np

import nodescope as ns

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (64, 4))
y = np.sin(x.sum(axis=1)) + 0.5

w1 = ns.parameter(np.zeros((4, 16)), name="hidden/w")
w2 = ns.parameter(np.zeros(16), name="output/w")
b2 = ns.parameter(0.0, name="output/b")
optimizer = ns.optim.SGD([w1, w2, b2], lr=0.1)
for step in ns.steps(range(20)):
    optimizer.zero_grad()
    with ns.name_scope("hidden"):
        h = np.tanh(ns.tensor(x, name="x") @ w1)
    with ns.name_scope("loss"):
        loss = np.mean(np.square(h @ w2 + b2 - y))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1}  loss {loss.item():.4f}")
