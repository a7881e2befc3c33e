"""Loans that are paid back, by income, age and debt: sigmoid units."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(28)
income = rng.lognormal(10.3, 0.4, 150)
age = rng.uniform(20, 70, 150)
debt = rng.lognormal(8.5, 0.8, 150)
paid = (income / 4 > debt + 60 * (70 - age)).astype(np.float64)
people = np.column_stack([income, age, debt])
scaled = people

hidden = nn.Linear(3, 10, rng=rng, dtype=np.float64)
out = nn.Linear(10, 1, rng=rng, dtype=np.float64)
optimizer = ns.optim.Adam([*hidden.parameters(), *out.parameters()], lr=0.03)
for _ in ns.steps(range(100)):
    with ns.name_scope("hidden"):
        h = nn.sigmoid(hidden(ns.tensor(scaled, name="people")))
    with ns.name_scope("out"):
        logit = out(h)[:, 0]
    loss = nn.binary_cross_entropy_with_logits(logit, ns.tensor(paid, name="paid"))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
