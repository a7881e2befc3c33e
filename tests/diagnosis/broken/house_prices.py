"""Prices of houses from size, age and distance: a small network."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(1)
houses = rng.uniform(0, 1, (120, 3))
prices = 2 * houses[:, 0] - houses[:, 1] + 0.5 * houses[:, 2] ** 2 + rng.normal(0, 0.02, 120)

model = nn.Sequential(nn.Linear(3, 12, rng=rng), nn.relu, nn.Linear(12, 1, rng=rng))
optimizer = ns.optim.Adam(model, lr=0.02)

for epoch in ns.steps(range(120)):
    optimizer.zero_grad()
    guess = model(ns.tensor(houses, name="houses"))
    loss = np.mean((guess - ns.tensor(prices, name="prices")) ** 2)
    loss.backward()
    optimizer.step()
    if epoch % 40 == 39:
        print(f"epoch {epoch + 1}: {loss.item():.4f}")

with ns.no_grad():
    guess = model(ns.tensor(houses)).numpy()[:, 0]
print(f"error {np.mean((guess - prices) ** 2):.4f}")
