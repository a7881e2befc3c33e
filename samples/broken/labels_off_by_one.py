"""A classifier whose training loss falls, but whose validation accuracy is 0."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(0)
CLASSES = 4
centres = rng.normal(0, 3, (CLASSES, 5))
labels = rng.integers(1, CLASSES + 1, 200)  # counted from 1, as in the file
x = centres[labels - 1] + rng.normal(0, 0.5, (200, 5))

w = ns.parameter(rng.normal(0, 0.1, (5, CLASSES + 1)), name="w")
optimizer = ns.optim.SGD([w], lr=0.1)
for step in ns.steps(range(20)):
    optimizer.zero_grad()
    with ns.name_scope("training"):
        logits = ns.tensor(x[:150], name="x") @ w
        loss = nn.cross_entropy(logits, ns.tensor(labels[:150] - 1, name="labels"))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1}  loss {loss.item():.4f}")
with ns.no_grad(), ns.name_scope("validation"):
    logits = ns.tensor(x[150:], name="x") @ w
    loss = nn.cross_entropy(logits, ns.tensor(labels[150:], name="labels"))
    right = np.mean(np.argmax(logits.numpy(), axis=1) == labels[150:])
print(f"validation  loss {loss.item():.4f}  accuracy {right:.2f}")
