"""Prompt tuning: only an offset of the inputs is trained, through a network that stays as it is."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(31)
net = nn.Sequential(nn.Linear(6, 24, rng=rng), np.tanh, nn.Linear(24, 2, rng=rng))
x = rng.standard_normal((300, 6)).astype(np.float32)
with ns.no_grad():
    y = net(ns.tensor(x + 1.0)).numpy().argmax(1)
prompt = ns.parameter(np.zeros(6, np.float32), name="prompt")
optimizer = ns.optim.Adam([prompt], lr=2e-2)
for _ in ns.steps(range(120)):
    rows = rng.integers(0, 300, 64)
    loss = nn.cross_entropy(net(ns.tensor(x[rows]) + prompt), ns.tensor(y[rows]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
