"""Small digits (drawn as 5 by 5 strokes), a cosine schedule, mini-batches."""

import math

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(11)
templates = (rng.random((6, 25)) < 0.4).astype(np.float32)
labels = rng.integers(0, 6, 240)
images = templates[labels] + rng.normal(0, 0.35, (240, 25)).astype(np.float32)

model = nn.Sequential(nn.Linear(25, 24, rng=rng), np.tanh, nn.Linear(24, 6, rng=rng))
optimizer = ns.optim.SGD(model, lr=0.1, momentum=0.9)

EPOCHS, BATCH, PEAK = 10, 24, 0.05
batches = [
    (images[start : start + BATCH], labels[start : start + BATCH])
    for _ in range(EPOCHS)
    for start in range(0, 240, BATCH)
]


def cosine(step, total):
    done = min(step / total, 1.0)
    return PEAK * 0.5 * (1 + math.cos(math.pi * done))


for step, (x, y) in enumerate(ns.steps(batches)):
    optimizer.lr = cosine(step, EPOCHS)
    loss = nn.cross_entropy(model(ns.tensor(x, name="images")), ns.tensor(y, name="labels"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
