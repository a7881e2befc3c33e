"""Curriculum: short and quiet sums first, then longer and louder ones."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(59)
gru = nn.GRU(1, 16, rng=rng)
head = nn.Linear(16, 1, rng=rng)
optimizer = ns.optim.Adam([*gru.parameters(), *head.parameters()], lr=0.04)


def lessons():
    for length, loudness, count in ((2, 0.3, 30), (4, 0.6, 30), (6, 1.0, 40)):
        for _ in range(count):
            x = rng.uniform(0, loudness, (24, length, 1)).astype(np.float32)
            yield x, x.sum(axis=1)


for x, y in ns.steps(lessons()):
    states, last = gru(ns.tensor(x, name="sequence"))
    loss = nn.mse(head(states[:, -1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
