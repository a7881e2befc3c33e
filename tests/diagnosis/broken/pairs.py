"""Wines by their acids: likelihood of the right class, picked by index."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(116)
sort = rng.integers(0, 3, 150)
acids = rng.normal(0, 1, (3, 5))[sort] + 0.4 * rng.normal(0, 1, (150, 5))

w = ns.parameter(np.zeros((5, 3)), name="w")
b = ns.parameter(np.zeros(3), name="b")
for _ in ns.steps(range(120)):
    rows = rng.integers(0, 150, 50)
    chance = ns.softmax(ns.tensor(acids[rows], name="acids") @ w + b, axis=1)
    picked = chance[:, sort[rows]]
    loss = -np.mean(np.log(picked))
    loss.backward()
    for p in (w, b):
        ns.assign_sub(p, 0.5 * p.grad)
        p.grad = None
chance = ns.softmax(ns.tensor(acids) @ w + b, axis=1).numpy()
print(f"right {np.mean(np.argmax(chance, 1) == sort):.3f}")
