"""A layer whose weight is a length times a direction (weight normalisation)."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(21)
x = rng.standard_normal((80, 5))
y = np.maximum(x @ rng.standard_normal((5, 3)), 0)

direction = ns.parameter(np.zeros((5, 3)), name="direction")
length = ns.parameter(np.ones(3), name="length")
optimizer = ns.optim.Adam([direction, length], lr=0.05)


@ns.compile
def train(x, y):
    weight = length * direction / np.linalg.norm(direction, axis=0)
    loss = np.mean((np.maximum(x @ weight, 0) - y) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


with np.errstate(invalid="ignore", divide="ignore"):
    for _ in ns.steps(range(100)):
        loss = train(x, y)
print(f"loss {loss.item():.4f}")
