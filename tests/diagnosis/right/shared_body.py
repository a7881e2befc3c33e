"""Two tasks with an optimizer each, which both update the body that they share."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(93)
body = nn.Sequential(nn.Linear(6, 32, rng=rng), nn.tanh)
level, side = nn.Linear(32, 1, rng=rng), nn.Linear(32, 2, rng=rng)
slow = ns.optim.Adam([*body.parameters(), *level.parameters()], lr=0.01)
fast = ns.optim.Adam([*body.parameters(), *side.parameters()], lr=0.01)
for _ in ns.steps(range(200)):
    x = rng.normal(0, 1, (64, 6)).astype(np.float32)
    height = np.sin(x[:, :1] + x[:, 1:2]).astype(np.float32)
    slow.zero_grad()
    loss = nn.mse_loss(level(body(ns.tensor(x, name="x"))), ns.tensor(height, name="height"))
    loss.backward()
    slow.step()
    fast.zero_grad()
    choice = side(body(ns.tensor(x, name="x")))
    doubt = nn.cross_entropy(choice, ns.tensor((x[:, 2] > x[:, 0]).astype(int), name="side"))
    doubt.backward()
    fast.step()
print(f"loss {loss.item():.4f} doubt {doubt.item():.4f}")
