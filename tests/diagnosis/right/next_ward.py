"""Training goes on with a second hospital, whose patients are older; the risks are alike."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(95)
effect = rng.normal(0, 1, 4)


def ward(patients, age):
    x = rng.normal(0, 1, (patients, 5))
    risk = x[:, :4] @ effect > 0
    x[:, 4] = x[:, 4] * 8 + age
    return x.astype(np.float32), risk.astype(np.float32)[:, None]


model = nn.Linear(5, 1, rng=rng)
optimizer = ns.optim.Adam(model, lr=0.02)
for age in (40, 71):
    x, risk = ward(800, age)
    for start in ns.steps(range(0, 800, 16)):
        batch = (x[start : start + 16] - np.float32([0, 0, 0, 0, 55])) / np.float32(
            [1, 1, 1, 1, 20]
        )
        scores = model(ns.tensor(batch, name="patients"))
        loss = nn.binary_cross_entropy_with_logits(scores, ns.tensor(risk[start : start + 16]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.4f}")
