"""Two layers with ReLUs: the loss does not change."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (64, 4))
y = np.sin(x.sum(axis=1))

w1 = ns.parameter(rng.normal(0, 0.5, (4, 16)), name="hidden_1/w")
b1 = ns.parameter(np.zeros(16), name="hidden_1/b")
w2 = ns.parameter(rng.normal(0, 0.2, (16, 16)), name="hidden_2/w")
b2 = ns.parameter(np.full(16, -4.0), name="hidden_2/b")
w3 = ns.parameter(rng.normal(0, 0.2, 16), name="output/w")
optimizer = ns.optim.SGD([w1, b1, w2, b2, w3], lr=0.1)
for step in ns.steps(range(20)):
    optimizer.zero_grad()
    with ns.name_scope("hidden_1"):
        h = nn.relu(ns.tensor(x, name="x") @ w1 + b1)
    with ns.name_scope("hidden_2"):
        h = nn.relu(h @ w2 + b2)
    with ns.name_scope("loss"):
        loss = np.mean(np.square(h @ w3 - y))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1}  loss {loss.item():.4f}")
