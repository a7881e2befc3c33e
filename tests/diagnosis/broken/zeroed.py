"""Handwriting strokes: a classifier whose training is factored into a function."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(112)
label = rng.integers(0, 3, 210)
strokes = (rng.normal(0, 1.2, (3, 9))[label] + rng.normal(0, 0.6, (210, 9))).astype(np.float32)


def train(model, optimizer, x, y):
    loss = nn.cross_entropy(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


model = nn.Sequential(nn.Linear(9, 16, rng=rng), nn.relu, nn.Linear(16, 3, rng=rng))
optimizer = ns.optim.AdamW(model, lr=0.01, weight_decay=0.01)
for _ in ns.steps(range(100)):
    rows = rng.integers(0, 210, 42)
    loss = train(model, optimizer, ns.tensor(strokes[rows], name="strokes"), label[rows])
print(f"loss {loss:.4f}")
