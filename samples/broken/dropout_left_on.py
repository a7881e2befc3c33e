"""The same data evaluated twice gives two results."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (64, 4))
y = np.sin(x.sum(axis=1))
draws = ns.random.Generator(0)

w1 = ns.parameter(rng.normal(0, 0.5, (4, 16)), name="hidden/w")
w2 = ns.parameter(rng.normal(0, 0.2, 16), name="output/w")
optimizer = ns.optim.SGD([w1, w2], lr=0.1)


def predict(training: bool = True) -> ns.Tensor:
    with ns.name_scope("hidden"):
        h = np.tanh(ns.tensor(x, name="x") @ w1)
        h = nn.dropout(h, 0.3, rng=draws, training=training)
    with ns.name_scope("output"):
        return h @ w2


for _ in ns.steps(range(10)):
    optimizer.zero_grad()
    with ns.name_scope("loss"):
        loss = np.mean(np.square(predict() - y))
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
with ns.no_grad(), ns.name_scope("evaluation"):
    for time in (1, 2):
        error = np.mean(np.square(predict() - y))
        print(f"evaluation {time}  loss {error.item():.4f}")
