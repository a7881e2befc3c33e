"""Spectral normalisation by a power iteration; the vectors are buffers without gradients."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(9)
W = ns.parameter(rng.normal(0, 0.5, (8, 16)).astype(np.float32), name="W")
V = ns.parameter(rng.normal(0, 0.3, (16, 1)).astype(np.float32), name="V")
u = ns.variable(rng.normal(size=16).astype(np.float32), name="u")
x = rng.normal(size=(128, 8)).astype(np.float32)
y = np.tanh(x[:, :1] - x[:, 1:2]).astype(np.float32)
opt = ns.optim.Adam([W, V], lr=0.02)
for _ in ns.steps(range(120)):
    with ns.no_grad():
        v = W @ u
        v = v / np.sqrt(np.sum(v * v))
        un = np.transpose(W) @ v
        un = un / np.sqrt(np.sum(un * un))
        ns.assign(u, un)
    sigma = np.sum(v * (W @ un))
    loss = nn.mse(nn.relu(ns.tensor(x) @ (W / sigma)) @ V, ns.tensor(y))
    opt.minimize(loss)
print(f"loss {loss.item():.4f}")
