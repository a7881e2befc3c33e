"""Shortest paths between towns (Bellman and Ford): what is not reached yet is infinitely far."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(51)
TOWNS = 12
roads = np.where(rng.random((TOWNS, TOWNS)) < 0.2, rng.uniform(1, 9, (TOWNS, TOWNS)), np.inf)
roads[np.arange(TOWNS - 1), np.arange(1, TOWNS)] = 5.0
np.fill_diagonal(roads, 0.0)

lengths = ns.tensor(roads, name="roads")
far = ns.tensor(np.where(np.arange(TOWNS) == 0, 0.0, np.inf), name="far")
rounds = 0
for _ in ns.steps(range(TOWNS)):
    rounds += 1
    nearer = np.min(far[:, None] + lengths, axis=0)
    changed = np.any(nearer < far).item()
    far = nearer
    if not changed:
        break
print(f"after {rounds} rounds {far.numpy().round(1).tolist()}")
print(f"unreached {int(np.isinf(far.numpy()).sum())}")
