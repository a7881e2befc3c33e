"""Polls with missing answers (NaN in the file), filled in by column; then a trend is fitted."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(25)
polls = rng.uniform(0.2, 0.8, (50, 6))
polls[rng.random((50, 6)) < 0.2] = np.nan
support = np.nanmean(polls, axis=1) * 2 - 0.5
weeks = np.repeat(np.arange(10), 5)
sizes = rng.integers(100, 900, 50).astype(float)
sizes[weeks == 6] = 0  # not reported

w = ns.parameter(np.zeros(6), name="w")
b = ns.parameter(0.0, name="b")
optimizer = ns.optim.Adam([w, b], lr=0.05)
np.seterr(invalid="ignore", divide="ignore")
for epoch in ns.steps(range(8)):
    for week in rng.permutation(10):
        rows = weeks == week
        with ns.name_scope("fill"):
            answers = ns.tensor(polls[rows], name="answers")
            columns = ns.tensor(np.nanmean(polls, axis=0), name="columns")
            filled = np.where(np.isnan(answers), columns, answers)
        with ns.name_scope("fit"):
            guess = filled @ w + b
            shares = sizes[rows] / ns.tensor(sizes[rows].sum(), name="asked")
            loss = np.sum(shares * (guess - support[rows]) ** 2)
        optimizer.minimize(loss)
    print(f"epoch {epoch}: loss {loss.item():.4f}")
