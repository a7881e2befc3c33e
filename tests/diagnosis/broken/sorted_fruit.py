"""Fruit by weight, colour and roundness: one pass after another over the file."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(12)
centres = np.array([[0.0, 1.0, 1.0], [1.0, 0.2, -0.5], [-0.8, -1.0, 0.6], [0.4, -0.2, -1.0]])
fruit = np.repeat(np.arange(4), 100)  # as the file has them
features = centres[fruit] + rng.normal(0, 0.4, (400, 3))

w1 = ns.parameter(rng.normal(0, 0.5, (3, 16)), name="w1")
b1 = ns.parameter(np.zeros(16), name="b1")
w2 = ns.parameter(rng.normal(0, 0.3, (16, 4)), name="w2")
b2 = ns.parameter(np.zeros(4), name="b2")
optimizer = ns.optim.SGD([w1, b1, w2, b2], lr=0.5)
order = np.arange(400)


def logits(x):
    return nn.relu(ns.tensor(x, name="features") @ w1 + b1) @ w2 + b2


def passes(count):
    for _ in range(count):
        for start in range(0, 400, 10):
            rows = order[start : start + 10]
            yield features[rows], fruit[rows]


for x, y in ns.steps(passes(3)):
    with ns.name_scope("train"):
        loss = nn.cross_entropy(logits(x), ns.tensor(y, name="fruit"))
    optimizer.minimize(loss)
with ns.no_grad():
    final = nn.cross_entropy(logits(features), fruit)
print(f"loss of all {final.item():.3f}")
