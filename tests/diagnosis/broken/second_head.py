"""One body, two answers: what a house costs, and how many days it stays on the market."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(72)
houses = rng.standard_normal((300, 6)).astype(np.float32)
price = (2 * houses[:, :1] + houses[:, 1:2]).astype(np.float32)
days = (4 + np.abs(houses[:, 2:3])).astype(np.float32)

body = nn.Sequential(nn.Linear(6, 32, rng=rng), nn.relu)
costs = nn.Linear(32, 1, rng=rng)
optimizer = ns.optim.Adam([*body.parameters(), *costs.parameters()], lr=0.005)
waits = nn.Linear(32, 1, rng=rng)

for _ in ns.steps(range(150)):
    rows = rng.integers(0, 300, 64)
    features = body(ns.tensor(houses[rows], name="houses"))
    with ns.name_scope("costs"):
        loss = nn.mse(costs(features), ns.tensor(price[rows]))
    with ns.name_scope("waits"):
        waiting = nn.mse(waits(features), ns.tensor(days[rows]))
    optimizer.zero_grad()
    (loss + waiting).backward()
    optimizer.step()
print(f"days off by {waiting.item():.3f}")
