"""Reptile: an inner optimizer for each task, and a start that moves towards what it found."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(13)
start = ns.parameter(np.zeros(3), name="start")
fast = ns.parameter(np.zeros(3), name="fast")
losses = []
for _ in ns.steps(range(60)):
    want = np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(0, 1, 3)
    ns.assign(fast, start)
    inner = ns.optim.SGD([fast], lr=0.05, momentum=0.5)
    for _ in range(4):
        x = rng.normal(0, 1, (16, 3))
        loss = np.mean((ns.tensor(x) @ fast - x @ want) ** 2)
        inner.minimize(loss)
    with ns.no_grad():
        ns.assign(start, start + 0.3 * (fast - start))
    losses.append(loss.item())
print(f"loss {np.mean(losses[-10:]):.4f}")
