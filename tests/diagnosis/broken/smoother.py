"""Denoising of a series: the loss should compare the output with the clean series."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(16)
t = np.linspace(0, 6, 20)
net = nn.Sequential(nn.Linear(20, 32, rng=rng), np.tanh, nn.Linear(32, 20, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.01)
weights = [p for p in net.parameters() if len(p.shape) == 2]
for _ in ns.steps(range(100)):
    clean = np.sin(t + rng.uniform(0, 6, (32, 1))).astype(np.float32)
    noisy = ns.tensor(clean + 0.3 * rng.normal(0, 1, clean.shape).astype(np.float32), name="noisy")
    smooth = net(noisy)
    fit = nn.mse(noisy, ns.tensor(clean, name="clean"))
    loss = fit + 1e-4 * (np.sum(weights[0] ** 2) + np.sum(weights[1] ** 2))
    optimizer.minimize(loss)
print(f"off by {np.mean((smooth.numpy() - clean) ** 2):.4f}")
