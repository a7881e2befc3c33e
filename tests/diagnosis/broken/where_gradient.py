"""Light through a lens: the root where there is light, zero where there is none."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(24)
radius = np.linspace(0, 2, 41)
true = np.sqrt(np.maximum(2.0 - 0.8 * radius**2, 0))
bright = true + rng.normal(0, 0.02, 41)

a = ns.parameter(1.5, name="a")
b = ns.parameter(0.5, name="b")
r2 = ns.tensor(radius**2, name="r2")
optimizer = ns.optim.SGD([a, b], lr=0.05)
with np.errstate(invalid="ignore", divide="ignore"):
    for _ in ns.steps(range(100)):
        inside = a - b * r2
        light = np.where(inside > 0, np.sqrt(inside), 0.0)
        loss = np.mean((light - bright) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.5f}")
