"""A recurrent network: its loss is huge, and then NaN."""

from __future__ import annotations

import numpy as np

import nodescope as ns

np.seterr(all="ignore")
rng = np.random.default_rng(0)
MOMENTS, BATCH, UNITS = 30, 16, 8

inputs = ns.parameter(rng.normal(0, 0.3, (1, UNITS)), name="inputs")
recurrent = ns.parameter(rng.normal(0, 0.8, (UNITS, UNITS)), name="recurrent")
output = ns.parameter(rng.normal(0, 0.3, UNITS), name="output")
optimizer = ns.optim.SGD([inputs, recurrent, output], lr=1e-3)
for step in ns.steps(range(6)):
    sequence = rng.uniform(0, 1, (BATCH, MOMENTS, 1))
    optimizer.zero_grad()
    state = ns.tensor(np.zeros((BATCH, UNITS)), name="start")
    for moment in range(MOMENTS):
        with ns.name_scope(f"moment_{moment}"):
            state = sequence[:, moment] @ inputs + state @ recurrent
    with ns.name_scope("loss"):
        loss = np.mean(np.square(state @ output - sequence.sum(axis=(1, 2))))
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}  loss {loss.item():.4g}")
