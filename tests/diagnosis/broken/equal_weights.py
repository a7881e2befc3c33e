"""A small network for the sign of a product, with weights that are set by hand."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(29)
x = rng.uniform(-1, 1, (128, 2))
y = np.sign(x[:, 0] * x[:, 1])

w1 = ns.parameter(np.full((2, 8), 0.5), name="w1")
b1 = ns.parameter(np.zeros(8), name="b1")
w2 = ns.parameter(np.full(8, 0.5), name="w2")
rate = 0.3
momentum = {id(p): 0.0 for p in (w1, b1, w2)}
for _ in ns.steps(range(200)):
    for p in (w1, b1, w2):
        p.grad = None
    loss = np.mean((np.tanh(ns.tensor(x, name="x") @ w1 + b1) @ w2 - y) ** 2)
    loss.backward()
    with ns.no_grad():
        for p in (w1, b1, w2):
            momentum[id(p)] = 0.9 * momentum[id(p)] + p.grad
            ns.assign(p, p - rate * momentum[id(p)] * 0.3)
print(f"loss {loss.item():.4f}")
