"""A discrete autoencoder: Gumbel softmax whose temperature falls."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(11)
centres = rng.standard_normal((4, 6)) * 2
enc = nn.Sequential(nn.Linear(6, 32, rng=rng), nn.relu, nn.Linear(32, 8, rng=rng))
dec = nn.Linear(8, 6, rng=rng)
optimizer = ns.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
for step in ns.steps(range(200)):
    x = (centres[rng.integers(0, 4, 64)] + 0.1 * rng.standard_normal((64, 6))).astype(np.float32)
    tau = max(0.3, 1.0 - step / 150)
    g = -np.log(-np.log(rng.uniform(1e-9, 1, (64, 8)))).astype(np.float32)
    soft = nn.softmax((enc(ns.tensor(x)) + g) / tau, axis=1)
    hard = np.eye(8, dtype=np.float32)[soft.numpy().argmax(1)]
    code = soft + (hard - soft).detach()
    loss = nn.mse(dec(code), ns.tensor(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
