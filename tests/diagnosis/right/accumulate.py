"""Gradient accumulation: gradients add up over four small batches before each update."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(7)
x = rng.normal(0, 1, (320, 6)).astype(np.float32)
y = (x @ rng.normal(0, 1, 6) + 0.5 * x[:, 0] * x[:, 1]).astype(np.float32)
ACCUMULATE, SIZE = 4, 8


def micro_batches(epochs):
    for _ in range(epochs):
        order = rng.permutation(len(x))
        yield from (order[k : k + SIZE] for k in range(0, len(x), SIZE))


net = nn.Sequential(nn.Linear(6, 32, rng=rng), nn.tanh, nn.Linear(32, 1, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.02)
losses = []
for number, rows in enumerate(ns.steps(micro_batches(12)), 1):
    guess = net(ns.tensor(x[rows], name="batch"))[:, 0]
    loss = nn.mse(guess, y[rows])
    (loss / ACCUMULATE).backward()
    losses.append(loss.item())
    if number % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
print(f"loss {np.mean(losses[-40:]):.4f}")
