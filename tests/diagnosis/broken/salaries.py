"""Salaries in yen from experience, training and age."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(12)
people = rng.uniform(0, 1, (300, 3)).astype(np.float32)
salary = (4e6 + 5e6 * people[:, 0] + 3e6 * people[:, 1] ** 2).astype(np.float32)
salary = salary[:, None]
typical = 1.0

model = nn.Sequential(nn.Linear(3, 24, rng=rng), nn.relu, nn.Linear(24, 1, rng=rng))
optimizer = ns.optim.Adam(model, lr=0.01)
for _ in ns.steps(range(150)):
    rows = rng.integers(0, 300, 50)
    optimizer.zero_grad()
    guess = model(ns.tensor(people[rows], name="people"))
    loss = nn.mse(guess, ns.tensor(salary[rows] / typical, name="salary"))
    loss.backward()
    optimizer.step()
error = np.abs(model(ns.tensor(people)).numpy() * typical - salary).mean() / salary.mean()
print(f"relative error {error:.4f}")
