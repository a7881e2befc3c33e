"""Gradients scaled to one length in every step: the clip is small, the rate large, on purpose."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(35)
x = rng.normal(0, 1, (200, 4)).astype(np.float32)
y = np.tanh(x[:, :1] - x[:, 1:2]).astype(np.float32)
net = nn.Sequential(nn.Linear(4, 16, rng=rng), np.tanh, nn.Linear(16, 1, rng=rng))
optimizer = ns.optim.SGD(net, lr=50.0)
for step in ns.steps(range(200)):
    optimizer.zero_grad()
    loss = nn.mse(net(ns.tensor(x, name="x")), ns.tensor(y, name="y"))
    loss.backward()
    ns.optim.clip_grad_norm(net, 0.001)
    optimizer.lr = 50.0 * (1 - step / 200)
    optimizer.step()
print(f"loss {loss.item():.4f}")
