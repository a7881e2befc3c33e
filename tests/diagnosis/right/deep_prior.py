"""A picture from one fixed input: what is given to the network never changes, on purpose."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(39)
line = np.linspace(-2, 2, 40)
picture = np.sin(line * 3) + 0.2 * rng.normal(0, 1, 40)
seed = np.full((1, 8), 1.0, np.float32)
net = nn.Sequential(nn.Linear(8, 24, rng=rng), np.tanh, nn.Linear(24, 40, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.01)
for _ in ns.steps(range(120)):
    out = net(ns.tensor(seed, name="seed"))
    loss = nn.mse(out, ns.tensor(picture[None].astype(np.float32), name="picture"))
    optimizer.minimize(loss)
print(f"loss {loss.item():.5f}")
