"""A steering angle that tanh bounds, as the wheel is bounded; two choices of a gear beside it."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(92)
body = nn.Linear(4, 24, rng=rng)
wheel, gear = nn.Linear(24, 1, rng=rng), nn.Linear(24, 2, rng=rng)
parameters = [p for m in (body, wheel, gear) for p in m.parameters()]
optimizer = ns.optim.Adam(parameters, lr=0.01)

for _ in ns.steps(range(200)):
    road = rng.normal(0, 1, (64, 4)).astype(np.float32)
    angle = np.clip(road[:, :1] - 0.5 * road[:, 1:2], -0.9, 0.9)
    seen = np.tanh(body(ns.tensor(road, name="road")))
    steer = np.tanh(wheel(seen))
    choice = 3.0 * np.tanh(gear(seen))
    loss = np.mean((steer - angle) ** 2)
    loss = loss + 0.1 * nn.cross_entropy(choice, (road[:, 2] > 0).astype(np.int64))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
