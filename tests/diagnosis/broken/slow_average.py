"""Averaged weights (EMA) are evaluated instead of the last ones."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(73)
x = rng.standard_normal((160, 6)).astype(np.float32)
y = np.tanh(x[:, :1] - x[:, 1:2]) + 2.0

net = nn.Sequential(nn.Linear(6, 16, rng=rng), np.tanh, nn.Linear(16, 1, rng=rng))
parameters = list(net.parameters())
averages = [ns.tensor(np.zeros(p.shape, np.float32)) for p in parameters]
optimizer = ns.optim.Adam(net, lr=0.02)
DECAY, STEPS = 0.99, 120
for _ in ns.steps(range(STEPS)):
    loss = nn.mse(net(ns.tensor(x[:120], name="x")), ns.tensor(y[:120], name="y"))
    optimizer.minimize(loss)
    with ns.no_grad(), ns.name_scope("average"):
        averages = [DECAY * a + (1 - DECAY) * p for a, p in zip(averages, parameters, strict=True)]
print(f"training loss {loss.item():.4f}")

with ns.no_grad(), ns.name_scope("evaluation"):
    for p, a in zip(parameters, averages, strict=True):
        ns.assign(p, a)
    validation = nn.mse(net(ns.tensor(x[120:])), ns.tensor(y[120:]))
print(f"validation loss {validation.item():.4f}")
