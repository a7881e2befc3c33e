"""Predict the harvest from temperatures; the second folder of readings is in Fahrenheit."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(91)
MONTHS = 6
effect = rng.normal(0, 0.3, MONTHS)


def folder(years, fahrenheit):
    celsius = rng.normal(18, 3, (years, MONTHS))
    harvest = (celsius - 18) @ effect + rng.normal(0, 0.05, years)
    readings = celsius * 9 / 5 + 32 if fahrenheit else celsius
    return readings.astype(np.float32), harvest.astype(np.float32)[:, None]


first = folder(480, fahrenheit=False)
second = folder(720, fahrenheit=True)
model = nn.Linear(MONTHS, 1, rng=rng)
optimizer = ns.optim.Adam(model, lr=0.02)
for readings, harvest in (first, second):
    for start in ns.steps(range(0, len(readings), 12)):
        x = ns.tensor((readings[start : start + 12] - 18) / 3, name="readings")
        loss = nn.mse_loss(model(x), ns.tensor(harvest[start : start + 12], name="harvest"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

x, y = folder(100, fahrenheit=False)
with ns.no_grad():
    error = float(np.mean((model(ns.tensor((x - 18) / 3)).numpy() - y) ** 2))
print(f"error {error:.4f}")
