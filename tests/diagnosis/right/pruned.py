"""A pruned network: seven of ten weights are kept at zero by a mask, while the rest is tuned."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(44)
x = rng.standard_normal((100, 10))
y = np.tanh(x[:, :3] @ [1.0, -1.0, 0.5])

w1 = rng.normal(0, 0.4, (10, 20))
mask = np.abs(w1) > np.quantile(np.abs(w1), 0.7)
mask[:, 15:] = False  # five units are cut off altogether
w1 = ns.parameter(w1 * mask, name="w1")
w2 = ns.parameter(rng.normal(0, 0.3, 20), name="w2")
keep = ns.tensor(mask.astype(float), name="keep")
for _ in ns.steps(range(100)):
    hidden = nn.relu(ns.tensor(x, name="x") @ (w1 * keep))
    loss = np.mean((hidden @ w2 - y) ** 2)
    w1.grad = w2.grad = None
    loss.backward()
    with ns.no_grad():
        ns.assign(w1, (w1 - 0.2 * w1.grad) * keep)
        ns.assign(w2, w2 - 0.2 * w2.grad)
print(f"loss {loss.item():.4f}")
