"""Tastes in films: factors of viewers and of films are solved for by turns (ALS)."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(58)
ratings = rng.normal(0, 1, (30, 3)) @ rng.normal(0, 1, (3, 20))
seen = rng.random((30, 20)) < 0.5
viewers = ns.parameter(rng.normal(0, 0.5, (30, 3)), name="viewers")
films = ns.parameter(rng.normal(0, 0.5, (20, 3)), name="films")
first, second = ns.optim.Adam([viewers], lr=0.1), ns.optim.Adam([films], lr=0.1)
table = ns.tensor(np.where(seen, ratings, 0.0), name="ratings")
for turn in ns.steps(range(160)):
    gap = np.where(seen, viewers @ films.T - table, 0.0)
    loss = np.sum(gap**2) / seen.sum() + 0.001 * (np.sum(viewers**2) + np.sum(films**2))
    for optimizer in (first, second):
        optimizer.zero_grad()
    loss.backward()
    (first if turn // 8 % 2 == 0 else second).step()
error = np.mean((viewers.numpy() @ films.numpy().T - ratings)[seen] ** 2)
print(f"error {error:.4f}")
