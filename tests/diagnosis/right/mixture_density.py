"""A mixture density network: an inverse problem with several answers."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(6)
y = rng.uniform(-1, 1, (400, 1)).astype(np.float32)
x = (y + 0.6 * np.sin(2 * np.pi * y) + 0.05 * rng.standard_normal(y.shape)).astype(np.float32)
K = 5
net = nn.Sequential(nn.Linear(1, 32, rng=rng), np.tanh, nn.Linear(32, 3 * K, rng=rng))
optimizer = ns.optim.Adam(net, lr=1e-2)
for _ in ns.steps(range(250)):
    rows = rng.integers(0, 400, 100)
    out = net(ns.tensor(x[rows]))
    logits, mean, log_sigma = out[:, :K], out[:, K : 2 * K], out[:, 2 * K :]
    z = (ns.tensor(y[rows]) - mean) / np.exp(log_sigma)
    log_prob = nn.log_softmax(logits, axis=1) - log_sigma - 0.5 * z * z - 0.5 * np.log(2 * np.pi)
    loss = -np.mean(ns.logsumexp(log_prob, axis=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"nll {loss.item():.3f}")
