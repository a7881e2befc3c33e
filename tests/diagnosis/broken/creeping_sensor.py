"""A network reads the dose from five sensors, of a machine that runs for weeks."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(71)
offsets = np.zeros(5, np.float32)


def readings(count):
    """What the sensors show (count, 5), and the dose (count, 1)."""
    true = rng.standard_normal((count, 5)).astype(np.float32)
    dose = np.sin(true[:, :1]) + 0.5 * true[:, 3:4]
    return true + offsets, dose


model = nn.Sequential(nn.Linear(5, 24, rng=rng), nn.relu, nn.Linear(24, 1, rng=rng))
optimizer = ns.optim.Adam(model, lr=0.01)
for _ in ns.steps(range(150)):
    shown, dose = readings(64)
    offsets[3] += 0.04
    loss = nn.mse(model(ns.tensor(shown, name="shown")), ns.tensor(dose, name="dose"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

offsets[:] = 0  # a new machine
shown, dose = readings(400)
with ns.no_grad():
    model.eval()
    guess = model(ns.tensor(shown, name="new")).numpy()
print(f"error {np.mean((guess - dose) ** 2):.4f}")
