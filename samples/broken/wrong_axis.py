"""Attention that hardly learns to reverse a sequence."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(0)
TOKENS, UNITS = 6, 8
wq, wk, wv = (
    ns.parameter(rng.normal(0, 0.5, (UNITS, UNITS)), name=f"attention/{part}") for part in "qkv"
)
optimizer = ns.optim.Adam([wq, wk, wv], lr=1e-2)
for step in ns.steps(range(20)):
    tokens = rng.normal(0, 1, (TOKENS, UNITS))
    optimizer.zero_grad()
    with ns.name_scope("attention"):
        x = ns.tensor(tokens, name="x")
        scores = (x @ wq) @ np.transpose(x @ wk) / np.sqrt(UNITS)
        weights = nn.softmax(scores, axis=0)
        mixed = weights @ (x @ wv)
    with ns.name_scope("loss"):
        loss = np.mean(np.square(mixed - tokens[::-1]))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1}  loss {loss.item():.4f}")
