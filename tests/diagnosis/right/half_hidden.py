"""A denoising autoencoder that loses four fifths of its inputs by dropout, on purpose."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(63)
data = (rng.normal(0, 1, (300, 2)) @ rng.normal(0, 1, (2, 20))).astype(np.float32)
hide = nn.Dropout(0.8, rng=ns.random.Generator(1))
net = nn.Sequential(nn.Linear(20, 48, rng=rng), nn.relu, nn.Linear(48, 20, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.01)
for _ in ns.steps(range(250)):
    batch = ns.tensor(data[rng.integers(0, 300, 64)], name="batch")
    loss = nn.mse(net(hide(batch)), batch)
    optimizer.minimize(loss)
print(f"loss {loss.item() / data.var():.4f}")
