"""The gradient is added instead of subtracted."""

import numpy as np

import nodescope as ns
from nodescope import nn

BAD = True
rng = np.random.default_rng(9)
x = rng.normal(size=(200, 4)).astype(np.float32)
y = (x[:, 0] > 0).astype(int)
w = ns.parameter(np.zeros((4, 2), np.float32), name="w")
for _ in ns.steps(range(120)):
    loss = nn.cross_entropy(ns.tensor(x, name="x") @ w, y)
    w.grad = None
    loss.backward()
    with ns.no_grad():
        ns.assign(w, w + 0.1 * w.grad if BAD else w - 0.1 * w.grad)
print(f"loss {loss.item():.4f}")
