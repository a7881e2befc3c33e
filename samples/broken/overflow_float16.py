"""A softmax written out in half precision: the loss is NaN from the start."""

from __future__ import annotations

import numpy as np

import nodescope as ns

np.seterr(all="ignore")
rng = np.random.default_rng(0)
x = rng.normal(0, 1, (32, 6)).astype(np.float16)
labels = rng.integers(0, 3, 32)
targets = np.eye(3, dtype=np.float16)[labels]

w = ns.parameter(rng.normal(0, 1, (6, 3)).astype(np.float16), name="w")
optimizer = ns.optim.SGD([w], lr=1.0)
for step in ns.steps(range(12)):
    optimizer.zero_grad()
    with ns.name_scope("scores"):
        scores = ns.tensor(x, name="x") @ w * np.float16(4)
    with ns.name_scope("softmax"):
        grown = np.exp(scores)
        share = grown / np.sum(grown, axis=1, keepdims=True)
    with ns.name_scope("loss"):
        loss = np.mean(np.square(share - targets))
    loss.backward()
    optimizer.step()
    if step % 3 == 2:
        print(f"step {step + 1}  loss {loss.item():.4f}")
