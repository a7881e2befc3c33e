"""How fast a glacier melts: a small network with clipped gradients."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(45)
weather = rng.normal(0, 1, (180, 4)).astype(np.float32)
melt = (np.sin(weather[:, :1]) + 0.5 * weather[:, 1:2] * weather[:, 2:3]).astype(np.float32)

model = nn.Sequential(nn.Linear(4, 32, rng=rng), np.tanh, nn.Linear(32, 1, rng=rng))
optimizer = ns.optim.SGD(model, lr=0.1, momentum=0.9)
for _ in ns.steps(range(200)):
    optimizer.zero_grad()
    loss = nn.mse(model(ns.tensor(weather, name="weather")), ns.tensor(melt))
    loss.backward()
    ns.optim.clip_grad_norm(model, 1e-4)
    optimizer.step()
print(f"loss {loss.item():.4f}")
