"""Ratings of films by viewers: factors of both, fitted by gradient descent."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(70)
USERS, FILMS, RANK = 40, 30, 3
true = rng.normal(0, 1, (USERS, RANK)) @ rng.normal(0, 1, (RANK, FILMS))
user, film = rng.integers(0, USERS, 600), rng.integers(0, FILMS, 600)
seen = true[user, film]

tastes = ns.parameter(np.zeros((USERS, RANK)), name="tastes")
styles = ns.parameter(np.zeros((FILMS, RANK)), name="styles")
level = ns.parameter(0.0, name="level")
optimizer = ns.optim.Adam([tastes, styles, level], lr=0.05)
for _ in ns.steps(range(200)):
    guess = np.sum(tastes[user] * styles[film], axis=1) + level
    loss = np.mean((guess - seen) ** 2)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
